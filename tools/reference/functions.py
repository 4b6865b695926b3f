"""The aclnn functions as records for their pages, from the data that the C API is generated from."""
import json
import re

import function_texts
import gen_aclnn
import gen_capi
import gen_capi_headers
import gen_capi_shims
import gen_ops
import sources

OURS = gen_ops.DTYPES
SHORT = {v: k for k, v in gen_aclnn.PUBLISHED.items()}
# Element types of published functions that do not exist here, by the names that this project uses.
ABSENT = {"UINT16": "u16", "UINT32": "u32", "UINT64": "u64", "COMPLEX32": "c32", "COMPLEX64": "c64", "COMPLEX128": "c128",
          "INT4": "s4"}
LIBRARIES = {"nn": "ops-nn", "math": "ops-math", "transformer": "ops-transformer", "cv": "ops-cv"}
PRODUCTS = {"950": "Ascend 950", "A3": "Atlas A3", "A2": "Atlas A2", "310B": "Atlas 200I/500 A2", "310P": "Atlas inference (310P)",
            "910": "Atlas training (910)"}
SEVERAL_DEVICES = re.compile(r"AllReduce|AllGather|AlltoAll|ReduceScatter|Distribute|Elastic|BandwidthTest|ToFFN|ToAttention")


def unmask(mask):
    return [d for i, d in enumerate(OURS) if mask & (1 << i)]


def published(types):
    return [gen_aclnn.PUBLISHED.get(t) or ABSENT.get(t) or t.lower() for t in types]


def jsonl(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class Functions:
    def __init__(self, root):
        self.root, src = root, root / "src"
        self.ops = gen_ops.load_all(src / "ops")
        self.by_op = {op["name"]: op for op in self.ops}
        self.prototypes = jsonl(src / "capi/data/aclnn_prototypes.jsonl")
        self.facts = function_texts.read_facts(src / "capi/data/aclnn_facts.jsonl")
        self.runtime = json.loads((src / "capi/data/acl_runtime.json").read_text())
        self.runtime_done = gen_capi.implemented_runtime_functions(src / "capi/api")
        self.rows = {row["api"]: (op, row) for op in self.ops for row in op["aclnn"]}
        self.texts = function_texts.Texts(self.facts, [p["api"] for p in self.prototypes],
                                          {api: op["formula"] for api, (op, _) in self.rows.items()})
        self.adapters = {}
        for path in sorted((src / "capi/adapters").rglob("*.cc")):
            chunks = sources.family_chunks(path, src)
            for name in sources.functions_of(path):
                if name.startswith("Adapt_"):
                    self.adapters[name.removeprefix("Adapt_")] = (path, chunks)
        self.tests = self.tests_by_function()
        self.differences = self.differences_by_function()
        self.records = {p["api"]: self.record(p) for p in self.prototypes}

    # ---- one function ---------------------------------------------------------------------------------
    def record(self, p):
        api, facts = p["api"], self.facts.get(p["api"], {})
        op, row = self.rows.get(api, (None, None))
        one, two = gen_capi_headers.operator_prototypes(p)
        f = {"api": api, "kind": p["kind"], "family": p["family"], "library": LIBRARIES.get(p["library"], p["library"]),
             "header": p["header"], "op": op, "row": row, "prototypes": [x for x in (one, two) if x],
             "implemented": row is not None or api in self.runtime_done,
             "products": [PRODUCTS[x] for x in facts.get("products", [])],
             "deprecated": p.get("deprecated", False), "tests": list(self.tests.get(api, ())),
             "differences": self.differences.get(api.removeprefix("aclnn"), [])}
        f["bound"] = {} if not row else {i: operand for operand, i in row["bind"]}
        f["params"] = [self.param(f, i, q, p, facts) for i, q in enumerate(p["params"])]
        f["summary"] = self.texts.of(api)
        f["formula"] = facts.get("formula") or self.facts.get(api.replace("Inplace", "", 1), {}).get("formula", "")
        f["fixed"] = [(name, value) for name, _, value in row["set"]] if row else []
        f["checks"] = self.checks(f) if row else []
        for q in f["params"]:  # what the checks say of a parameter alone stands beside it too
            q["rules"] = [s.removeprefix(f"{q['name']}: ") for _, s in f["checks"] if s.startswith(f"{q['name']}: ")]
        f["reason"] = None if f["implemented"] else self.reason(f, p)
        return f

    def param(self, f, i, q, p, facts):
        op, row = f["op"], f["row"]
        masks = dict(row["dtypes"]) if row else {}
        operand = f["bound"].get(i)
        decl = next((x for x in op["inputs"] + op["outputs"] + op["attrs"] if x["name"] == operand), None) if op else None
        tensor = "aclTensor" in q["ctype"]
        dtypes = unmask(masks[i]) if i in masks else []
        if not dtypes and tensor and decl and "mask" in decl:
            dtypes = unmask(decl["mask"])
        known = published(p.get("dtypes", {}).get(q["name"], []))
        optional = q.get("optional", False) or bool(row and row["params"][i].get("optional"))
        attr = decl if decl and "type" in decl else None
        shape = facts.get("shapes", {}).get(q["name"], "")
        if not shape and tensor and op and op["layout"] == "elementwise" and "List" not in q["ctype"]:
            several = len(op["inputs"]) > 1
            shape = ("any: operands broadcast" if q["dir"] == "in" else "what they broadcast to") if several else "any"
        return {"name": q["name"], "ctype": gen_capi_headers.declare(q["ctype"], "").strip(), "dir": q["dir"],
                "optional": optional, "tensor": tensor, "dtypes": dtypes or ([] if row else known),
                "missing": [t for t in known if t not in OURS] if row and tensor else [],
                "shape": shape, "formats": facts.get("formats", {}).get(q["name"], []),
                "operand": operand, "attr": attr, "doc": (decl or {}).get("doc", "")}

    def reason(self, f, p):
        """Why a function is declared only, as far as the data tell."""
        tensors = [q for q in f["params"] if q["tensor"] and q["dir"] == "in" and not q["optional"]]
        alien = next((q for q in tensors if q["dtypes"] and not set(q["dtypes"]) & set(OURS)), None)
        private = next((q for q in tensors if q["formats"] and all("FRACTAL" in x or "C0" in x for x in q["formats"])), None)
        if SEVERAL_DEVICES.search(f["api"]) or f["family"] == "mc2":
            return "it works across several devices; all devices shown here are one host"
        if alien:
            return f"the element types of {alien['name']} ({', '.join(alien['dtypes'])}) do not exist here"
        if private or "WeightN" in f["api"]:
            return "it takes weights in the private format FRACTAL_NZ, which holds other memory than the dims say"
        if f["family"] == "random":
            return "products draw from generators of their own; sequences that differ from theirs would not be what programs expect"
        if f["family"] in ("attention", "moe", "mhc", "mamba", "posembedding", "gmm", "ffn", "image", "objdetect"):
            return f"{f['library']} is here only where programs of ops-nn call it"
        return "no operator serves it yet"

    # ---- checks and errors ----------------------------------------------------------------------------
    def checks(self, f):
        """(code, sentence) beyond the general rules: of the adapter, then of the operator."""
        found, op, row = [], f["op"], f["row"]
        if row["adapter"]:
            path, chunks = self.adapters[row["adapter"]]
            found += sources.Reader(chunks).read(f"Adapt_{row['adapter']}")
            # Adapters serve several functions: what names a parameter that this one lacks is not about it.
            names = {q["name"] for q in f["params"]}
            found = [(c, s) for c, s in found if self.concerns(s, names)]
        if not row["adapter"] or row["bind"]:
            chunks = sources.family_chunks(op["file"].with_suffix(".cc"), self.root / "src")
            if f"operator {op['name']}" in chunks:
                found += sources.Reader(chunks).read(f"operator {op['name']}")
        for q in f["params"]:
            if q["attr"] and q["attr"]["values"]:
                # An integer parameter picks among the words of a text attribute.
                words = q["attr"]["values"]
                text = ", ".join(f"{i} ({w})" if isinstance(w, str) and "char" not in q["ctype"] else str(w)
                                 for i, w in enumerate(words))
                found.append((161002, f"{q['name']}: one of {text}"))
        seen = set()
        return [x for x in found if not (x in seen or seen.add(x))]

    def concerns(self, sentence, names):
        head = re.match(r"(\w+(?: or \w+)*)(?:: | is | has )", sentence)
        words = set(head.group(1).split(" or ")) if head else set()
        others = self.all_parameters()
        return not words or bool(words & names) or not words & others

    def all_parameters(self):
        if not hasattr(self, "_parameters"):
            self._parameters = {q["name"] for p in self.prototypes for q in p["params"]}
        return self._parameters

    # ---- what is said elsewhere -----------------------------------------------------------------------
    def tests_by_function(self):
        """Test sources that name a function."""
        found = {}
        paths = sorted((self.root / "src/capi").rglob("*_test.cc")) + sorted((self.root / "tests/soak").glob("*.cc"))
        for path in paths:
            for api in set(re.findall(r"\bacl(?:nn)?[A-Z]\w*", path.read_text(encoding="utf-8"))):
                found.setdefault(api.removesuffix("GetWorkspaceSize"), {})[path.relative_to(self.root).as_posix()] = None
        return found

    def differences_by_function(self):
        """The rows of docs/aclnn_checks.md: {name without aclnn: [(reason, cases)]}."""
        found = {}
        for line in (self.root / "docs/aclnn_checks.md").read_text(encoding="utf-8").splitlines():
            cells = [c.strip() for c in line.strip().strip("|").split(" | ")]
            if len(cells) != 3 or not cells[1].isdigit():
                continue
            for item in cells[2].split(","):
                m = re.fullmatch(r"(\w+)(?: x(\d+))?", item.strip())
                if m:
                    found.setdefault(m.group(1), []).append((cells[0], int(m.group(2) or 1)))
        return found
