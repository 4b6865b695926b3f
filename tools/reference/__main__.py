#!/usr/bin/env python3
"""Writes the reference as a static site: a page per aclnn function, operator, group of runtime functions and
command, the support table, and the project's own pages, with a search that needs no server.

usage: python3 tools/reference --out DIR --opsnn PATH_OF_THE_TOOL   (tools/make_reference.sh does it all)

Everything is read from what the code is generated from: src/capi/data, the declarations in src/ops, the checks in
the sources, and the tool's own help.
"""
import argparse
import json
import pathlib
import re
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools/reference")]

import jinja2  # noqa: E402

import documents  # noqa: E402
import functions  # noqa: E402
import relations  # noqa: E402
import runtime  # noqa: E402
import sources  # noqa: E402
import tool  # noqa: E402

TEMPLATES = ROOT / "docs/site"
CLASSES = {"matrix": "cube operator: a product, sums on chip", "vector": "vector operator: a program over elements or rows",
           "data": "moves data", "control": "decides sizes or order"}
LAYOUTS = {"logical": "works on the logical order of dims", "elementwise": "any layout, the same for all operands",
           "accepts": "takes blocked images too", "prefers": "wants blocked images"}


class Site:
    def __init__(self, out, binary):
        self.out, self.binary, self.index = out, binary, []
        self.functions = functions.Functions(ROOT)
        self.records = self.functions.records
        relations.relate(self.records)
        self.documents = documents.Documents(ROOT)
        self.env = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True,
                                      lstrip_blocks=True, undefined=jinja2.StrictUndefined)
        self.env.filters["ticks"] = self.ticks
        self.env.globals.update(records=self.records, dtypes=functions.OURS)

    @staticmethod
    def ticks(text):
        """Escaped text in which `x` becomes code."""
        return jinja2.utils.markupsafe.Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(jinja2.utils.markupsafe.escape(text))))

    def write(self, page, template, title, **values):
        path = self.out / page
        path.parent.mkdir(parents=True, exist_ok=True)
        base = "../" * page.count("/")
        path.write_text(self.env.get_template(template).render(base=base, page=page, title=title, **values), encoding="utf-8")

    def entry(self, name, page, kind, text, done=1, extra=""):
        """What the search knows: `text` is shown, `extra` is only searched."""
        self.index.append([name, page, kind, re.sub(r"\s+", " ", text)[:300], done, extra])

    # ---- pages ----------------------------------------------------------------------------------------
    def function_pages(self):
        for api, f in self.records.items():
            op = f["op"]
            self.write(f"functions/{api}.html", "function.html", api, f=f, errors=self.errors(f),
                       op_class=CLASSES[op["class"]] if op else "")
            self.entry(api, f"functions/{api}.html", "function", f["summary"], int(f["implemented"]),
                       f"{f['family']} {op['name'] if op else ''}")
        families = {}
        for f in self.records.values():
            families.setdefault((f["library"], f["family"]), []).append(f)
        for group in families.values():
            group.sort(key=lambda f: f["api"].lower())
        order = {"ops-nn": 0, "ops-math": 1, "ops-transformer": 2, "ops-cv": 3}
        listed = sorted(families.items(), key=lambda kv: (order.get(kv[0][0], 9), kv[0][1]))
        self.write("functions/index.html", "functions.html", "Functions", families=listed)
        self.write("support.html", "support.html", "Support table", rows=sorted(self.records.values(), key=lambda f: f["api"]),
                   first_dtypes=self.first_dtypes, coverage=[self.coverage(name, group) for name, group in listed])
        return listed

    def coverage(self, name, group):
        """What of a family is there: functions, gradients of those that have a published one, fused forms."""
        trained = [f for f in group if f["backward"]]
        fused = {x for f in group for x in f["fused"]}
        done = lambda names: sum(self.records[x]["implemented"] for x in names)  # noqa: E731
        return {"family": f"{name[0].removeprefix('ops-')}/{name[1]}", "functions": len(group),
                "done": done(f["api"] for f in group), "trained": len(trained),
                "trained_done": sum(any(self.records[b]["implemented"] for b in f["backward"]) for f in trained),
                "fused": len(fused), "fused_done": done(fused)}

    @staticmethod
    def first_dtypes(f):
        return next((q["dtypes"] for q in f["params"] if q["tensor"] and q["dtypes"]), [])

    def errors(self, f):
        """(code, cause) of a function, general rules first."""
        pointers = [f"`{q['name']}`" for q in f["params"] if not q["optional"] and "*" in q["ctype"]]
        if not f["implemented"]:
            return [(561003, "always: the function is declared, no operator serves it. Phase one sets the size to 0 and gives no "
                             "executor")]
        rows = []
        if f["kind"] == "pair":
            rows.append((161001, f"{', '.join(pointers + ['`workspaceSize`', '`executor`'])} null in phase one; `executor`, or "
                                 "`workspace` where its size is not 0, null in phase two"))
            rows.append((161002, "a handle that is not live or of another kind; a view that leaves its memory; an output that "
                                 "overlaps itself, another output, or an input in part"))
            if any(q["dtypes"] for q in f["params"]):
                rows.append((161002, "an element type that the table of parameters does not list"))
        else:
            rows.append((161001, f"{', '.join(pointers)} null"))
        same = [(q["name"], f["op"]["inputs"][x["same_as"]]["name"]) for q in f["params"] for x in
                (f["op"]["inputs"] if f["op"] and q["operand"] else []) if x["name"] == q["operand"] and x["same_as"] >= 0]
        names = {q["operand"]: q["name"] for q in f["params"]}
        rows += [(161002, f"`{a}` has another element type than `{names[b]}`") for a, b in same if b in names]
        rows += f["checks"]
        if f["op"] and f["op"]["family"] == "index":
            rows.append((361001, "an index out of range: an error of the run, which the next synchronisation returns; nothing is written"))
        if f["kind"] == "pair":
            rows.append((361001, "no memory for the constants of the plan, or the run failed"))
        return rows

    def operator_pages(self):
        for op in self.functions.ops:
            chunks = sources.family_chunks(op["file"].with_suffix(".cc"), ROOT / "src")
            key = f"operator {op['name']}"
            checks = sources.Reader(chunks).read(key) if key in chunks else []
            served = [self.records[row["api"]] for row in op["aclnn"]]
            path = op["file"].relative_to(ROOT).as_posix().removesuffix(".toml")
            self.write(f"operators/{op['name']}.html", "operator.html", op["name"], op=op, checks=checks, served=served, path=path,
                       op_class=CLASSES[op["class"]], op_layout=LAYOUTS[op["layout"]], unmask=functions.unmask)
            self.entry(op["name"], f"operators/{op['name']}.html", "operator", op["formula"], extra=f"{op['family']} {op['doc']}")
        families = {}
        for op in self.functions.ops:
            families.setdefault(op["family"], []).append(op)
        self.write("operators/index.html", "operators.html", "Operators", families=sorted(families.items()), unmask=functions.unmask)

    def runtime_pages(self):
        groups = runtime.runtime_groups(self.functions, ROOT)
        for g in groups:
            self.write(f"runtime/{g['slug']}.html", "runtime_group.html", g["title"], group=g)
            for f in g["functions"]:
                self.entry(f["name"], f"runtime/{g['slug']}.html#{f['name']}", "runtime", g["title"], int(f["implemented"]))
        data = self.functions.runtime
        codes = runtime.status_codes(data)
        self.write("runtime/index.html", "runtime.html", "Runtime", groups=groups)
        self.write("runtime/status_codes.html", "status_codes.html", "Status codes", codes=codes)
        self.write("runtime/types.html", "types.html", "Enumerations", enums=runtime.types(data))
        for value, name, _ in codes:
            self.entry(name, f"runtime/status_codes.html#{name}", "status", str(value))
        for e in runtime.types(data):
            self.entry(e["name"], f"runtime/types.html#{e['name']}", "type", " ".join(v["name"] for v in e["values"]))
        return groups

    def tool_pages(self):
        top, commands = tool.commands(self.binary)
        for name, parsed in commands:
            page = f"tool/{name.replace(' ', '_')}.html"
            self.write(page, "command.html", f"opsnn {name}", name=name, help=parsed)
            options = " ".join(n for _, rows in parsed["sections"] for n, _ in rows)
            self.entry(f"opsnn {name}", page, "command", parsed["doc"], extra=options)
        knobs = tool.knobs(self.binary)
        self.write("tool/index.html", "tool.html", "The tool", top=top, commands=commands, knobs=knobs)
        for k in knobs:
            self.entry(k["env"], f"tool/{k['env']}.html", "setting", k["help"], extra=k["key"])
            self.write(f"tool/{k['env']}.html", "knob.html", k["env"], k=k)

    def document_pages(self):
        pages = self.documents
        for page, title, source in pages.list:
            body, headings, sections = pages.render(page, source)
            self.write(page, "document.html", title, body=body, headings=[h for h in headings if h[0] in (2, 3)], source=source,
                       documents=pages.list, relative=pages.relative)
            for anchor, heading, text in sections:
                name = title if heading == sections[0][1] else f"{title}: {heading}"
                self.entry(name, page if name == title else f"{page}#{anchor}", "page", text)
        for path, page in pages.files.items():
            self.write(page, "file.html", path, path=path, text=pages.file_text(path))
        self.write("docs/index.html", "documents.html", "Documentation", documents=pages.list, relative=pages.relative)

    def build(self):
        families = self.function_pages()
        self.operator_pages()
        groups = self.runtime_pages()
        self.tool_pages()
        self.document_pages()
        done = sum(f["implemented"] for f in self.records.values())
        counts = {"functions": len(self.records), "done": done, "operators": len(self.functions.ops),
                  "runtime": sum(len(g["functions"]) for g in groups),
                  "runtime_done": sum(f["implemented"] for g in groups for f in g["functions"])}
        self.write("index.html", "home.html", "opsnn reference", counts=counts, families=families, groups=groups)
        self.write("search.html", "search.html", "Search")
        text = json.dumps(self.index, ensure_ascii=False, separators=(",", ":"))
        (self.out / "index.js").write_text(f"window.OPSNN_INDEX={text};\n", encoding="utf-8")
        for name in ("style.css", "site.js"):
            shutil.copyfile(TEMPLATES / name, self.out / name)
        return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--opsnn", type=pathlib.Path, required=True)
    args = parser.parse_args()
    if args.out.exists() and any(args.out.iterdir()) and not (args.out / "index.js").exists():
        sys.exit(f"{args.out}: not empty and not a site of this tool; give another folder")
    # Built beside and moved at the end: a site that is being read stays whole, also when this fails.
    fresh = args.out.with_name(args.out.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    counts = Site(fresh, args.opsnn).build()
    shutil.rmtree(args.out, ignore_errors=True)
    fresh.rename(args.out)
    pages = sum(1 for _ in args.out.rglob("*.html"))
    print(f"{args.out}/index.html: {pages} pages, {counts['functions']} functions ({counts['done']} implemented), "
          f"{counts['operators']} operators, {counts['runtime']} runtime functions")


if __name__ == "__main__":
    main()
