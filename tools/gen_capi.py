#!/usr/bin/env python3
"""Generates the C API from its prototypes and from the operator declarations.

Writes, only where the content changed:
  <out>/include/{acl,aclnn,aclnnop,hccl}/*.h   the public headers
  <out>/src/capi/acl_exports.{h,cc}            opsnn_<function>: what libopsnn exports for the thin libraries
  <out>/src/capi/{ascendcl,nnopbase,hccl}_shims.cc, opapi_<library>_shims.cc
  <out>/src/capi/api_rows.cc                   the support table
  <out>/src/capi/adapter_table.cc              the adapters that the declarations name

A runtime function counts as implemented when a file under --api defines it with OPSNN_ACL_API; an aclnn
function when an operator's TOML has an [[aclnn]] row for it. All others are declared: they answer with a
status and a message.
"""
import argparse
import json
import pathlib
import re
import sys
import tomllib

import function_texts
import gen_aclnn
import gen_capi_headers as headers
import gen_capi_shims as shims


def fail(message):
    sys.exit(f"gen_capi.py: {message}")


def write_if_changed(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def implemented_runtime_functions(folder):
    names = set()
    for path in sorted(folder.glob("*.cc")):
        names.update(re.findall(r"^OPSNN_ACL_API\s[^;{(]*?(\w+)\(", path.read_text(), re.MULTILINE))
    return names


def normalise(ctype):
    return re.sub(r"\s*([*&])\s*", r" \1", " ".join(ctype.split())).replace("* *", "**").strip()


def check_row(path, row, prototypes):
    """An [[aclnn]] row must repeat the published prototype exactly."""
    proto = prototypes.get(row["api"])
    if proto is None:
        fail(f"{path}: [[aclnn]] api {row['api']!r} is not among the published prototypes")
    want = [(p["name"], normalise(p["ctype"])) for p in proto["params"]]
    got = [(p["name"], normalise(p["ctype"])) for p in row.get("params", [])]
    if want != got:
        fail(f"{path}: [[aclnn]] {row['api']}: params {got} differ from the prototype {want}")
    if row.get("header") != proto["header"]:
        fail(f"{path}: [[aclnn]] {row['api']}: header {row.get('header')!r}, the prototype has {proto['header']!r}")


def declared_rows(folder, prototypes):
    rows = {}
    for path in sorted(folder.rglob("*.toml")):
        try:
            declaration = tomllib.loads(path.read_text())
        except tomllib.TOMLDecodeError as error:
            fail(f"{path}: {error}")

        def report(index, key, message, path=path):
            fail(f"{path}: aclnn[{index}].{key}: {message}")

        for row in gen_aclnn.expand(declaration.get("aclnn", []), prototypes, report):
            check_row(path, row, prototypes)
            if row["api"] in rows:
                fail(f"{path}: {row['api']} is already served by operator {rows[row['api']]['operator']}")
            rows[row["api"]] = {"operator": declaration["operator"], "formula": declaration.get("formula", ""), **row}
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--ops", type=pathlib.Path, required=True)
    parser.add_argument("--api", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()

    runtime = json.loads((args.data / "acl_runtime.json").read_text())
    functions = [json.loads(line) for line in (args.data / "aclnn_prototypes.jsonl").read_text().splitlines()]
    prototypes = {f["api"]: f for f in functions}
    implemented = implemented_runtime_functions(args.api)
    helpers = shims.helper_functions(functions)
    unknown = implemented - {f["name"] for f in runtime["functions"] + helpers}
    if unknown:
        fail(f"{args.api}: not functions of the runtime API: {', '.join(sorted(unknown))}")
    rows = declared_rows(args.ops, prototypes)

    formulas = {api: row["formula"] for api, row in rows.items()}
    texts = function_texts.Texts(function_texts.read_facts(args.data / "aclnn_facts.jsonl"), prototypes, formulas)

    files = {}
    files.update(headers.runtime_headers(runtime))
    files.update(headers.operator_headers(functions))
    files.update(shims.runtime_sources(runtime, helpers, implemented))
    files.update(shims.operator_sources(functions, rows, implemented))
    files["src/capi/api_rows.cc"] = shims.listing_source(functions, rows, implemented, texts)
    files["src/capi/adapter_table.cc"] = shims.adapter_source(rows)
    for name in sorted(files):
        write_if_changed(args.out / name, files[name])


if __name__ == "__main__":
    main()
