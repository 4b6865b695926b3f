#!/usr/bin/env python3
"""Reads the operator declarations (src/ops/<family>/<name>.toml) and writes the table of all operators.

Usage: gen_ops.py OPS_DIR OUTPUT.cc

The reader is strict: an unknown key, a bad value or a declaration without its source file is an error that
names file and key. Output depends on the declarations alone and is rewritten only when it changes. Other
generators import load_all() from here, so that there is one reader of the format.
"""

import pathlib
import re
import sys
import tomllib

import gen_aclnn

DTYPES = ["f32", "f64", "f16", "bf16", "s8", "u8", "s16", "s32", "s64", "bool"]  # order of enum DType
CLASSES = {"matrix": "kMatrix", "vector": "kVector", "data": "kData", "control": "kControl"}
LAYOUTS = {"logical": "kLogicalOnly", "elementwise": "kElementwise", "accepts": "kAccepts", "prefers": "kPrefers"}
MIXES = {name: "k" + name.capitalize() for name in
         ("all", "nothing", "image", "reshape", "axis", "trailing", "reduced", "product", "gather", "transpose")}
ATTR_TYPES = {"int": "kInt", "float": "kFloat", "string": "kString", "ints": "kInts", "floats": "kFloats",
              "strings": "kStrings", "tensor": "kTensor"}
DIRECTIONS = {"in": "kIn", "out": "kOut", "inout": "kInOut", "attr": "kAttr"}


class DeclarationError(Exception):
    """A mistake in a declaration file; the text names file and key."""


class Reader:
    """Checked access to one TOML table: every key must be asked for, or it is unknown."""

    def __init__(self, path, table, where):
        self.path, self.table, self.where, self.seen = path, table, where, set()
        if not isinstance(table, dict):
            self.fail("", "must be a table")

    def fail(self, key, message):
        name = f"{self.where}.{key}" if self.where and key else (self.where or key)
        raise DeclarationError(f"{self.path}: {name}: {message}")

    def get(self, key, kind, default=None, required=False, allowed=None):
        self.seen.add(key)
        if key not in self.table:
            if required:
                self.fail(key, "is required")
            return default
        value = self.table[key]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
            self.fail(key, f"must be of type {getattr(kind, '__name__', kind)}, got {value!r}")
        if allowed is not None and value not in allowed:
            self.fail(key, f"got {value!r}; allowed: {', '.join(allowed)}")
        return value

    def tables(self, key):
        rows = self.get(key, list, default=[])
        return [Reader(self.path, row, f"{self.where + '.' if self.where else ''}{key}[{i}]")
                for i, row in enumerate(rows)]

    def done(self):
        for key in self.table:
            if key not in self.seen:
                self.fail(key, f"unknown key; allowed: {', '.join(sorted(self.seen))}")


def read_dtypes(r, key, operand_names):
    """A list of dtypes, "any", or the name of an input whose dtype this operand shares."""
    value = r.get(key, (list, str), required=True)
    if value == "any":
        return {"mask": (1 << len(DTYPES)) - 1, "same_as": -1}
    if isinstance(value, str):
        if value not in operand_names:
            r.fail(key, f"got {value!r}; allowed: a list of dtypes, \"any\", or one of {operand_names}")
        return {"mask": 0, "same_as": operand_names.index(value)}
    return {"mask": dtype_mask(r, key, value), "same_as": -1}


def dtype_mask(r, key, names):
    if not names:
        r.fail(key, "must not be empty")
    mask = 0
    for name in names:
        if name not in DTYPES:
            r.fail(key, f"unknown dtype {name!r}; allowed: {', '.join(DTYPES)}")
        mask |= 1 << DTYPES.index(name)
    return mask


def read_operands(r, op):
    names = []
    for i in r.tables("input"):
        name = i.get("name", str, required=True)
        if op["inputs"] and op["inputs"][-1]["variadic"]:
            i.fail("name", "follows a variadic input; only the last input may be variadic")
        item = read_dtypes(i, "dtypes", names)
        item |= {"name": name, "optional": i.get("optional", bool, False),
                 "variadic": i.get("variadic", bool, False), "doc": i.get("doc", str, "")}
        i.done()
        if item["same_as"] >= 0:
            item["mask"] = op["inputs"][item["same_as"]]["mask"]
        names.append(name)
        op["inputs"].append(item)
    for o in r.tables("output"):
        item = read_dtypes(o, "dtypes", names)
        item |= {"name": o.get("name", str, required=True), "optional": o.get("optional", bool, False),
                 "variadic": o.get("variadic", bool, False), "doc": o.get("doc", str, "")}
        o.done()
        if item["same_as"] >= 0:
            item["mask"] = op["inputs"][item["same_as"]]["mask"]
        op["outputs"].append(item)
    if not op["outputs"]:
        r.fail("output", "at least one is required")


def fits(kind, value):
    if kind in ("ints", "floats", "strings"):
        return isinstance(value, list) and all(fits(kind[:-1], v) for v in value)
    if isinstance(value, bool):
        return False
    return isinstance(value, {"int": int, "float": (int, float), "string": str}.get(kind, ()))


def read_attrs(r, op):
    for a in r.tables("attr"):
        item = {"name": a.get("name", str, required=True),
                "type": a.get("type", str, required=True, allowed=list(ATTR_TYPES)),
                "required": a.get("required", bool, False),
                "default": a.get("default", (int, float, str, list)),
                "values": a.get("values", list, []), "doc": a.get("doc", str, "")}
        a.done()
        if item["default"] is not None and not fits(item["type"], item["default"]):
            a.fail("default", f"got {item['default']!r}, which is not of type {item['type']}")
        if item["required"] and item["default"] is not None:
            a.fail("default", "a required attribute has none")
        if item["values"] and item["type"] not in ("string", "int"):
            a.fail("values", "only string and int attributes list their allowed values")
        for v in item["values"]:
            if not fits(item["type"], v):
                a.fail("values", f"got {v!r}, which is not of type {item['type']}")
        op["attrs"].append(item)


def read_params(r, key):
    params = []
    for p in r.tables(key):
        params.append({"name": p.get("name", str, required=True), "ctype": p.get("ctype", str, required=True),
                       "dir": p.get("dir", str, "attr", allowed=list(DIRECTIONS)),
                       "optional": p.get("optional", bool, False)})
        p.done()
    return params


def read_variants(r, op):
    for v in r.tables("variant"):
        op["variants"].append(tuple(v.get(key, str, required=True) for key in ("name", "when", "example")))
        v.done()


def read_set(c, op):
    """Attributes that the function fixes: name -> (type, value)."""
    fixed = []
    kinds = {a["name"]: a["type"] for a in op["attrs"]}
    for name, value in c.get("set", dict, {}).items():
        if kinds.get(name) not in ("int", "float", "string"):
            c.fail("set", f"{name!r} is no int, float or string attribute; attributes: {', '.join(kinds)}")
        if not fits(kinds[name], value):
            c.fail("set", f"{name} got {value!r}, which is not of type {kinds[name]}")
        fixed.append((name, kinds[name], value))
    return fixed


def read_bind(c, op, row, ignore):
    own = [x["name"] for x in op["inputs"] + op["outputs"] + op["attrs"]]
    names = [p["name"] for p in row["params"]]
    bind = c.get("bind", dict, {})
    for name in ignore:
        if name not in names:
            c.fail("ignore", f"{name!r} is no parameter; parameters: {', '.join(names)}")
    for operand, param in bind.items():
        if operand not in own:
            c.fail("bind", f"{operand!r} is no input, output or attribute; there are: {', '.join(own)}")
        if param not in names:
            c.fail("bind", f"{param!r} is no parameter; parameters: {', '.join(names)}")
    if row["adapter"] and not bind:
        return []
    if not (bind or row["auto"]) or (row["adapter"] and not row["auto"]):
        c.fail("bind", "give either bind or adapter")
    if row["auto"]:
        bind = gen_aclnn.auto_bind(op, {"params": row["params"], "set": dict.fromkeys(n for n, _, _ in row["set"])},
                                   bind, ignore)
    for p in row["params"]:
        if p["name"] not in bind.values() and p["name"] not in ignore:
            c.fail("bind", f"parameter {p['name']!r} is bound to nothing")
    return [(operand, names.index(param)) for operand, param in bind.items()]


def read_aclnn(r, op, prototypes):
    def fail(index, key, message):
        r.fail(f"aclnn[{index}].{key}", message)

    raw = r.get("aclnn", list, default=[])
    for i, table in enumerate(gen_aclnn.expand(raw, prototypes, fail)):
        c = Reader(r.path, table, f"aclnn[{i}]")
        row = {"api": c.get("api", str, required=True), "header": c.get("header", str, required=True),
               "params": read_params(c, "params"), "exec_params": read_params(c, "exec_params"),
               "adapter": c.get("adapter", str, ""), "auto": c.get("auto", bool, False), "dtypes": [],
               "set": read_set(c, op), "casts": c.get("casts", bool), "promotes": c.get("promotes", bool, False)}
        names = [p["name"] for p in row["params"]]
        if not names:
            c.fail("params", "must not be empty")
        row["bind"] = read_bind(c, op, row, c.get("ignore", list, []))
        dtypes = c.get("dtypes", dict, {})
        c.done()
        for name, types in dtypes.items():
            if name not in names:
                c.fail("dtypes", f"{name!r} is no parameter; parameters: {', '.join(names)}")
            row["dtypes"].append((names.index(name), dtype_mask(c, f"dtypes.{name}", types)))
        op["aclnn"].append(row)


def load(path, root, prototypes):
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise DeclarationError(f"{path}: {e}") from e
    r = Reader(path, table, "")
    op = {"name": r.get("operator", str, required=True), "family": path.parent.relative_to(root).as_posix(),
          "class": r.get("class", str, required=True, allowed=list(CLASSES)),
          "layout": r.get("layout", str, "logical", allowed=list(LAYOUTS)),
          "takes_tail": r.get("takes_tail", bool, False), "formula": r.get("formula", str, ""),
          "doc": r.get("doc", str, required=True), "file": path,
          "mixes": r.get("mixes", str, "all", allowed=list(MIXES)), "variants": [],
          "steps": r.get("steps", int, 0), "window_steps": r.get("window_steps", int, 0),
          "advice": r.get("advice", bool, False),
          "inputs": [], "outputs": [], "attrs": [], "aclnn": [], "since": 0, "domain": ""}
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*", op["name"]):
        r.fail("operator", f"got {op['name']!r}; allowed: a C++ identifier without underscores")
    if path.stem.replace("_", "") != op["name"].lower():
        r.fail("operator", f"{op['name']!r} does not match the file name; expected its snake_case")
    read_operands(r, op)
    read_attrs(r, op)
    read_variants(r, op)
    if (onnx := r.get("onnx", dict)) is not None:
        o = Reader(path, onnx, "onnx")
        op["since"], op["domain"] = o.get("since", int, required=True), o.get("domain", str, "")
        o.done()
    read_aclnn(r, op, prototypes)
    r.done()
    if not path.with_suffix(".cc").exists():
        raise DeclarationError(f"{path}: its source file {path.with_suffix('.cc').name} is missing")
    return op


def load_all(ops_dir):
    """All declarations under ops_dir, sorted by operator name."""
    root = pathlib.Path(ops_dir)
    prototypes = gen_aclnn.load_prototypes(root.parent / "capi" / "data" / "aclnn_prototypes.jsonl")
    ops = sorted((load(p, root, prototypes) for p in root.glob("*/*.toml")), key=lambda op: op["name"])
    for a, b in zip(ops, ops[1:]):
        if a["name"] == b["name"]:
            raise DeclarationError(f"{b['file']}: operator: {b['name']} is also declared in {a['file']}")
    apis = {}
    for op in ops:
        for row in op["aclnn"]:
            if row["api"] in apis:
                raise DeclarationError(f"{op['file']}: aclnn: {row['api']} also in {apis[row['api']]}")
            apis[row["api"]] = op["file"]
    return ops


def quote(s):
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}
    return '"' + "".join(escapes.get(c, c) for c in s) + '"'


def boolean(b):
    return "true" if b else "false"


def number(v):
    return repr(float(v)).replace("inf", "__builtin_inf()").replace("nan", "__builtin_nan(\"\")")


class Writer:
    """Collects static arrays and refers to them by name."""

    def __init__(self):
        self.lines = []

    def array(self, kind, name, rows):
        if not rows:
            return "{}"
        self.lines.append(f"constexpr {kind} {name}[] = {{{', '.join(rows)}}};")
        return name

    def operand(self, x):
        return (f"{{{quote(x['name'])}, {x['mask']:#06x}, {x['same_as']}, {boolean(x['optional'])}, "
                f"{boolean(x['variadic'])}, {quote(x['doc'])}}}")

    def attr(self, name, a):
        default, kind = a["default"], a["type"]
        plural = kind if kind.endswith("s") else None
        ints = self.array("int64_t", f"{name}_ints", [str(v) for v in default or []] if plural == "ints" else [])
        floats = self.array("double", f"{name}_floats", [number(v) for v in default or []] if plural == "floats" else [])
        texts = self.array("const char*", f"{name}_strings",
                           [quote(v) for v in default or []] if plural == "strings" else [])
        allowed_i = self.array("int64_t", f"{name}_values", [str(v) for v in a["values"]] if kind == "int" else [])
        allowed_s = self.array("const char*", f"{name}_values",
                               [quote(v) for v in a["values"]] if kind == "string" else [])
        return (f"{{{quote(a['name'])}, AttrType::{ATTR_TYPES[kind]}, {boolean(a['required'])}, "
                f"{boolean(default is not None)}, {default if kind == 'int' and default is not None else 0}, "
                f"{number(default) if kind == 'float' and default is not None else '0.0'}, "
                f"{quote(default) if kind == 'string' and default is not None else quote('')}, "
                f"{ints}, {floats}, {texts}, {allowed_i}, {allowed_s}, {quote(a['doc'])}}}")

    def param(self, p):
        return f"{{{quote(p['name'])}, {quote(p['ctype'])}, ParamDir::{DIRECTIONS[p['dir']]}, {boolean(p['optional'])}}}"

    def aclnn(self, name, row):
        params = self.array("AclnnParam", f"{name}_params", [self.param(p) for p in row["params"]])
        execs = self.array("AclnnParam", f"{name}_exec", [self.param(p) for p in row["exec_params"]])
        dtypes = self.array("AclnnDTypes", f"{name}_dtypes", [f"{{{i}, {m:#06x}}}" for i, m in row["dtypes"]])
        bind = self.array("AclnnBind", f"{name}_bind", [f"{{{quote(o)}, {i}}}" for o, i in row["bind"]])
        fixed = self.array("AclnnSet", f"{name}_set", [self.fixed(*s) for s in row["set"]])
        casts = "kPromotes" if row["promotes"] else {None: "kDefault", True: "kYes", False: "kNo"}[row["casts"]]
        return (f"{{{quote(row['api'])}, {quote(row['header'])}, {params}, {execs}, {dtypes}, {bind}, "
                f"{quote(row['adapter'])}, {fixed}, AclnnCasts::{casts}}}")

    def fixed(self, attr, kind, value):
        return (f"{{{quote(attr)}, AttrType::{ATTR_TYPES[kind]}, {value if kind == 'int' else 0}, "
                f"{number(value) if kind == 'float' else '0.0'}, {quote(value) if kind == 'string' else quote('')}}}")

    def operator(self, op):
        k = f"k{op['name']}"
        inputs = self.array("OperandDecl", f"{k}_inputs", [self.operand(x) for x in op["inputs"]])
        outputs = self.array("OperandDecl", f"{k}_outputs", [self.operand(x) for x in op["outputs"]])
        attrs = self.array("AttrDecl", f"{k}_attrs",
                           [self.attr(f"{k}_attr{i}", a) for i, a in enumerate(op["attrs"])])
        variants = self.array("VariantDecl", f"{k}_variants",
                              [f"{{{', '.join(map(quote, row))}}}" for row in op["variants"]])
        aclnn = self.array("AclnnDecl", f"{k}_aclnn",
                           [self.aclnn(f"{k}_aclnn{i}", row) for i, row in enumerate(op["aclnn"])])
        self.lines.append(
            f"constexpr Declaration {k} = {{{quote(op['name'])}, {quote(op['family'])}, "
            f"OpClass::{CLASSES[op['class']]}, LayoutRule::{LAYOUTS[op['layout']]}, {boolean(op['takes_tail'])}, "
            f"{quote(op['formula'])}, {quote(op['doc'].strip())}, {inputs}, {outputs}, {attrs}, "
            f"{{{quote(op['domain'])}, {op['since']}}}, {aclnn}}};")
        advise = f"&ops::Advise_{op['name']}" if op["advice"] else "nullptr"
        return f"    {{Mixes::{MIXES[op['mixes']]}, {variants}, {op['steps']}, {op['window_steps']}, {advise}}},"


def render(ops):
    w = Writer()
    traits = "\n".join(w.operator(op) for op in ops)
    defines = "\n".join(f"void Define_{op['name']}(::opsnn::op::OpDef& def);" for op in ops)
    defines += "".join(f"\nvoid Advise_{op['name']}(::opsnn::op::Advice& advice);" for op in ops if op["advice"])
    entries = "\n".join(f"    {{&k{op['name']}, &ops::Define_{op['name']}}}," for op in ops)
    body = "\n".join(w.lines)
    return f"""// Generated by tools/gen_ops.py from the declarations in src/ops; do not edit.
#include "op/declaration.h"
#include "op/traits.h"

namespace opsnn::ops {{
{defines}
}}  // namespace opsnn::ops

namespace opsnn::op {{
namespace {{
{body}

constexpr OperatorEntry kTable[] = {{
{entries}
    {{nullptr, nullptr}},
}};

constexpr Traits kTraits[] = {{
{traits}
    {{}},
}};
}}  // namespace

std::span<const OperatorEntry> OperatorTable() {{ return std::span(kTable).first({len(ops)}); }}
std::span<const Traits> TraitsTable() {{ return std::span(kTraits).first({len(ops)}); }}

}}  // namespace opsnn::op
"""


def write_if_changed(path, text):
    path = pathlib.Path(path)
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: gen_ops.py OPS_DIR OUTPUT.cc")
    try:
        write_if_changed(sys.argv[2], render(load_all(sys.argv[1])))
    except DeclarationError as e:
        sys.exit(f"error: {e}")


if __name__ == "__main__":
    main()
