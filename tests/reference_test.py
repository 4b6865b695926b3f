#!/usr/bin/env python3
"""Builds the reference and checks what needs no browser: every function has its page, every link leads somewhere,
nothing is loaded from elsewhere, and the tool's guide lists the options that the tool has.

usage: reference_test.py PATH_TO_OPSNN FOLDER_FOR_THE_SITE
"""
import html
import json
import pathlib
import posixpath
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOL = OUT = None


def setUpModule():
    for module in ("jinja2", "markdown_it"):
        try:
            __import__(module)
        except ImportError:
            sys.exit(f"reference_test.py: needs the Python module {module} (tools/install_deps.sh build installs it)")
    subprocess.run([sys.executable, ROOT / "tools/reference", "--out", OUT, "--opsnn", TOOL], check=True)


def prototypes():
    return [json.loads(x) for x in (ROOT / "src/capi/data/aclnn_prototypes.jsonl").read_text().splitlines()]


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pages = {p.relative_to(OUT).as_posix(): p.read_text(encoding="utf-8") for p in OUT.rglob("*.html")}

    def test_every_function_has_a_page_with_its_parts(self):
        listed = {o["api"]: o for o in json.loads(subprocess.run([TOOL, "ops", "--json"], capture_output=True, text=True,
                                                                 check=True).stdout) if o["api"]}
        for p in prototypes():
            with self.subTest(api=p["api"]):
                page = self.pages[f"functions/{p['api']}.html"]
                for part in ("prototype", "parameters", "errors"):
                    self.assertIn(f'<h2 id="{part}">', page)
                for q in p["params"]:
                    self.assertIn(f"<code>{q['name']}</code>", page)
                implemented = listed[p["api"]]["status"] == "implemented"
                self.assertIn("implemented</span>" if implemented else "declared only</span>", page)
                self.assertEqual("Declared only</strong>" in page, not implemented)
                self.assertRegex(page, r'<p class="lead">|id="formula"|Declared only</strong>')

    def test_implemented_functions_say_what_they_compute(self):
        for name, page in self.pages.items():
            if name.startswith("functions/acl") and '<span class="badge yes">' in page and "two-phase" not in page:
                with self.subTest(page=name):
                    self.assertRegex(page, r'<p class="lead">|<pre class="formula">')

    def test_support_table_tells_gradients(self):
        page = self.pages["support.html"]
        row = next(r for r in page.split("<tr ") if ">aclnnGelu</code>" in r)
        self.assertIn("● ", row)
        self.assertIn(">aclnnGeluBackward</code>", row)
        families = re.findall(r"<tr><td>([\w/]+)</td>" + r"<td>(\d+)</td>" * 6, page.partition('id="coverage"')[2])
        self.assertEqual(sum(int(f[1]) for f in families), len(prototypes()))
        for family, functions, done, trained, trained_done, fused, fused_done in families:
            self.assertLessEqual(int(done), int(functions), family)
            self.assertLessEqual(int(trained_done), int(trained), family)
            self.assertLessEqual(int(fused_done), int(fused), family)

    def test_links_lead_somewhere(self):
        ids = {name: set(re.findall(r'\bid="([^"]+)"', text)) for name, text in self.pages.items()}
        broken = []
        for name, text in self.pages.items():
            for target in set(re.findall(r'\b(?:href|src)="([^"]+)"', text)):
                if re.match(r"https?:|data:|mailto:", target):
                    continue
                path, _, fragment = html.unescape(target).partition("#")
                to = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
                if to not in self.pages and not (OUT / to).exists():
                    broken.append(f"{name}: {target}")
                elif fragment and fragment not in ids.get(to, ()):
                    broken.append(f"{name}: {target}: no such part")
        self.assertEqual(broken, [])

    def test_nothing_comes_from_elsewhere(self):
        for name, text in self.pages.items():
            self.assertNotRegex(text, r'<(?:script|link|img|iframe)[^>]*(?:src|href)="https?:', name)
        self.assertNotRegex((OUT / "style.css").read_text(), r"url\(|@import")

    def test_search_entries_lead_to_pages(self):
        text = (OUT / "index.js").read_text(encoding="utf-8")
        index = json.loads(text.removeprefix("window.OPSNN_INDEX=").rstrip(";\n"))
        names = {e[0] for e in index}
        for p in prototypes():
            self.assertIn(p["api"], names)
        for known in ("opsnn explain", "OPSNN_THREADS", "aclrtMalloc", "MatMul", "Settings", "aclDataType"):
            self.assertIn(known, names)
        for name, page, *_ in index:
            self.assertIn(page.partition("#")[0], self.pages, name)

    def test_no_text_in_other_scripts(self):
        for name, text in self.pages.items():
            self.assertNotRegex(text, r"[\u3400-\u9fff]", name)


class ChecksFromSources(unittest.TestCase):
    """The reader of the checks, on a source that uses the whole vocabulary."""

    SOURCE = '''
namespace opsnn::capi {
namespace {
// RequireRank(call, never, 1, 2) in a comment counts for nothing.
Status Helper(const Call& call, const Operand& o, const char* whose) {
  OPSNN_RETURN_IF_ERROR(RequireDType(call, o, DType::kF32, "self"));
  return InvalidArgument("%s: %s has %d values; allowed: %s", call.function().api, NameOf(call, o).c_str(), 3, whose);
}
}  // namespace

Status Adapt_Thing(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "self"), y = Arg(call, {"out", "selfRef"});
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 2, kMaxRank));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, x));
  if (bad) return BadValue(call, "mode", std::to_string(1), "0 (none), 1 (mean)");
  if (!x.given()) return Errorf(Code::kNull, "%s: a \\"quoted\\" word", api);
  return Helper(call, x, "one");
}
}  // namespace opsnn::capi
'''

    def test_sentences(self):
        sys.path[:0] = [str(ROOT / "tools/reference")]
        import sources
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "thing.cc"
            path.write_text(self.SOURCE)
            found = sources.Reader(sources.functions_of(path)).read("Adapt_Thing")
        self.assertEqual(found, [
            (161002, "self: rank 2 to 8"), (161002, "out or selfRef: the shape of self"), (161002, "mode: allowed: 0 (none), 1 (mean)"),
            (161001, 'a "quoted" word'), (161002, "self: the dtype of self"), (161002, "self has … values; allowed: one")])

    def test_most_functions_have_checks(self):
        with_checks = sum(1 for p in (OUT / "functions").glob("acl*.html") if "An ellipsis stands for" in p.read_text())
        self.assertGreater(with_checks, 200)


class ToolGuide(unittest.TestCase):
    """docs/tool.md against the tool's own help."""

    @classmethod
    def setUpClass(cls):
        sys.path[:0] = [str(ROOT / "tools/reference")]
        import tool
        _, cls.commands = tool.commands(TOOL)
        cls.knobs = tool.knobs(TOOL)
        text = (ROOT / "docs/tool.md").read_text(encoding="utf-8")
        parts = re.split(r"^## (?:opsnn )?(.+)$", text, flags=re.M)
        cls.sections = dict(zip(parts[1::2], parts[2::2]))

    @staticmethod
    def options(text):
        return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))

    def test_commands_are_those_of_the_tool(self):
        self.assertEqual({c for c, _ in self.commands}, {s for s in self.sections if s not in ("Everywhere", "Targets")})

    def test_options_are_those_of_the_tool(self):
        shared = self.options(self.sections["Targets"])
        for name, parsed in self.commands:
            with self.subTest(command=name):
                have = {o for _, rows in parsed["sections"] for option, _ in rows for o in self.options(option)}
                have -= {"--help", "--json"}
                documented = self.options(self.sections[name]) - {"--help", "--json"}
                takes_target = "MODEL" in parsed["usage"]
                self.assertEqual(documented - have, set(), "documented, but the tool has none")
                self.assertEqual(have - documented - (shared if takes_target else set()), set(), "not documented")

    def test_every_option_in_the_documents_exists(self):
        every = {o for _, parsed in self.commands for _, rows in parsed["sections"] for option, _ in rows for o in self.options(option)}
        every.add("--version")
        for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
            for line in path.read_text(encoding="utf-8").splitlines():
                for call in re.findall(r"\bopsnn (?:[a-z]+) [^`|]*", line):
                    with self.subTest(file=path.name, call=call):
                        self.assertLessEqual(self.options(call.split("#")[0]), every)

    def test_settings_page_lists_the_knobs(self):
        text = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
        rows = {m[0]: m for m in re.findall(r"^\| `(\w+)` \| `(\w+)` \|([^|]*)\|", text, flags=re.M)}
        self.assertEqual(set(rows), {k["key"] for k in self.knobs})
        for k in self.knobs:
            self.assertEqual(rows[k["key"]][1], k["env"])
            self.assertEqual(rows[k["key"]][2].strip(), k["default"], k["key"])


if __name__ == "__main__":
    TOOL, OUT = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=1)
