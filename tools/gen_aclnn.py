"""Completes the [[aclnn]] rows of the operator declarations from the published prototypes.

A row needs no more than its `api`: header, parameters and dtypes are those of src/capi/data, and parameters
find their operands and attributes by name or position (auto_bind). Used by gen_ops.py and gen_capi.py.
"""

import json
import pathlib

PUBLISHED = {"FLOAT": "f32", "DOUBLE": "f64", "FLOAT16": "f16", "BFLOAT16": "bf16", "INT8": "s8", "UINT8": "u8",
             "INT16": "s16", "INT32": "s32", "INT64": "s64", "BOOL": "bool"}


def load_prototypes(path):
    """The published functions by name; none where there is no such file."""
    path = pathlib.Path(path)
    if not path.exists():
        return {}
    functions = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return {f["api"]: f for f in functions}


def our_dtypes(published):
    """Published dtypes per parameter, those that exist here; parameters without any are left unchecked."""
    known = {name: [PUBLISHED[t] for t in types if t in PUBLISHED] for name, types in published.items()}
    return {name: types for name, types in known.items() if types}


def complete(row, prototype, fail):
    """A row without params: all that the prototype says, under what the row says itself."""
    names = [p["name"] for p in prototype["params"]]
    optional = row.get("optional", [])
    for name in optional:
        if name not in names:
            fail("optional", f"{name!r} is no parameter; parameters: {', '.join(names)}")
    full = {k: v for k, v in row.items() if k not in ("inplace", "optional")}
    full["header"] = prototype["header"]
    full["params"] = [p | {"optional": p.get("optional", False) or p["name"] in optional}
                      for p in prototype["params"]]
    if "exec_params" in prototype:
        full["exec_params"] = prototype["exec_params"]
    published = our_dtypes(prototype.get("dtypes", {}))
    attrs = [p["name"] for p in prototype["params"] if p["dir"] == "attr"]
    full["dtypes"] = {n: t for n, t in published.items() if n in names and n not in attrs} | row.get("dtypes", {})
    full["auto"] = True
    return full


def in_place_name(api):
    return "aclnnInplace" + api.removeprefix("aclnn")


def in_place_row(row, base, prototype, fail):
    """The row of aclnnInplaceX: its first parameter stands for the first input and the output of aclnnX."""
    inputs = [p["name"] for p in base["params"] if p["dir"] == "in"]
    ours, theirs = inputs[0], prototype["params"][0]["name"]
    own = {p["name"] for p in prototype["params"]}
    copy = {k: v for k, v in row.items() if k != "inplace"}
    copy["api"] = prototype["api"]
    rename = {ours: theirs}
    copy["bind"] = {k: rename.get(v, v) for k, v in row.get("bind", {}).items() if rename.get(v, v) in own}
    copy["ignore"] = [n for n in row.get("ignore", []) if n in own]
    copy["dtypes"] = {rename.get(k, k): v for k, v in row.get("dtypes", {}).items() if rename.get(k, k) in own}
    return complete(copy, prototype, fail)


def expand(rows, prototypes, fail):
    """All rows in full; `fail(index, key, message)` reports a mistake."""
    out = []
    for i, row in enumerate(rows):
        def complain(key, message, i=i):
            fail(i, key, message)

        api = row.get("api")
        if "params" in row or not isinstance(api, str):
            out.append(row)
            continue
        if api not in prototypes:
            complain("api", f"{api!r} is not among the published prototypes")
        base = complete(row, prototypes[api], complain)
        out.append(base)
        if row.get("inplace"):
            name = in_place_name(api)
            if name not in prototypes:
                complain("inplace", f"{name!r} is not among the published prototypes")
            out.append(in_place_row(row, prototypes[api], prototypes[name], complain))
    return out


def key_of(name):
    return name.replace("_", "").lower().removesuffix("optional")


def auto_bind(op, row, bind, ignore):
    """Binds what `bind` leaves open: attributes by name, then operands and attributes by position.

    bind: operand or attribute -> parameter. A scalar may stand for an input, a tensor for no attribute.
    """
    taken = set(bind.values()) | set(ignore)
    free = [p for p in row["params"] if p["name"] not in taken and p["dir"] != "out"]
    attrs = [a["name"] for a in op["attrs"] if a["name"] not in bind and a["name"] not in row.get("set", {})]
    inputs = [x["name"] for x in op["inputs"] if x["name"] not in bind]
    result = dict(bind)
    for p in list(free):
        same = [a for a in attrs if key_of(a) == key_of(p["name"])]
        if same and "aclTensor" not in p["ctype"]:
            result[same[0]] = p["name"]
            attrs.remove(same[0])
            free.remove(p)
    for p in free:
        operand = "aclTensor" in p["ctype"] or ("aclScalar" in p["ctype"] and inputs)
        names = inputs if operand else attrs
        if names:
            result[names.pop(0)] = p["name"]
    outputs = [y["name"] for y in op["outputs"] if y["name"] not in bind]
    for p in row["params"]:
        bound = [y["name"] for y in op["outputs"] if bind.get(y["name"]) == p["name"]]
        if p["dir"] in ("out", "inout") and outputs and not bound:
            result[outputs.pop(0)] = p["name"]
    return result
