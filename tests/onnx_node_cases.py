#!/usr/bin/env python3
"""Runs the operator test cases that the onnx Python package carries as code through opsnn.

usage: onnx_node_cases.py RUNNER TOOL [--only TEXT] [--keep FOLDER] [--document FILE [--update]]

RUNNER is the program onnx_node_runner, TOOL is opsnn. Every case of a supported operator must pass, but for those
refused for a stated reason (REFUSALS). Operators without support are listed with the number of their cases; of the
ai.onnx forward operators at most 35 % may be missing. Nothing is kept: the cases are written to a temporary folder.
FILE is docs/onnx_operators.md: the run fails where it does not list what is supported; --update writes it."""
import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import warnings

import numpy as np

warnings.filterwarnings("ignore")
# onnx 1.12 uses aliases that NumPy 1.24 removed.
for alias, kind in (("float", float), ("int", int), ("bool", bool), ("object", object), ("complex", complex), ("str", str)):
    if alias not in np.__dict__:
        setattr(np, alias, kind)

import onnx  # noqa: E402
import onnx.defs  # noqa: E402
import onnx.numpy_helper  # noqa: E402
from onnx.backend.test.case.node import collect_testcases  # noqa: E402

MAX_UNSUPPORTED = 0.35
TYPES = onnx.TensorProto
HELD = {TYPES.FLOAT, TYPES.DOUBLE, TYPES.FLOAT16, TYPES.BFLOAT16, TYPES.INT8, TYPES.UINT8, TYPES.INT16, TYPES.INT32,
        TYPES.INT64, TYPES.BOOL}
# The importer replaces these by others.
RENAMED = {"CastLike", "Constant", "Scatter", "Upsample"}
# What a supported operator may refuse, by its message; everything else must pass.
REFUSALS = {"with a batch of its own, as in opset 8": "Scan of opset 8"}
# onnx 1.12 cuts off where a conversion to bf16 rounds: expected values may be one step away.
BF16_STEP = 2.0**-7
# Their values come from NumPy's generator: shape and dtype are compared.
RANDOM = re.compile(r"bernoulli|training_dropout(?!_zero)|random(normal|uniform)")


def held_types(model):
    """None, or what the model needs that opsnn's tensors cannot hold."""
    for v in [*model.graph.input, *model.graph.output]:
        if not v.type.HasField("tensor_type"):
            return v.type.WhichOneof("value") or "untyped value"
        if v.type.tensor_type.elem_type not in HELD:
            return TYPES.DataType.Name(v.type.tensor_type.elem_type).lower()
    return None


def save(path, value, elem_type):
    value = np.asarray(value)
    if elem_type == TYPES.BFLOAT16 and value.dtype == np.uint16:  # onnx holds bf16 as its bits
        value = (value.astype(np.uint32) << 16).view(np.float32)
    np.save(path, value)


def prepare(given, inputs):
    """The case's model with the shapes of its data (a few cases declare others)."""
    model = onnx.ModelProto()
    model.CopyFrom(given)
    for info, value in zip(model.graph.input, inputs):
        shape = info.type.tensor_type.shape
        del shape.dim[:]
        for d in np.shape(value):
            shape.dim.add().dim_value = d
    return model


def write_case(folder, case):
    """Writes the case and returns its name and its line for the runner."""
    inputs, outputs = case.data_sets[0]
    model = prepare(case.model, inputs)
    infos = list(model.graph.input)
    name = case.name
    while os.path.exists(f"{folder}/{name}"):  # a few names are given twice
        name += "_"
    os.makedirs(f"{folder}/{name}")
    with open(f"{folder}/{name}/model.onnx", "wb") as f:
        f.write(model.SerializeToString())
    for kind, values, described in (("in", inputs, infos), ("out", outputs, model.graph.output)):
        for k, (value, info) in enumerate(zip(values, described)):
            save(f"{folder}/{name}/{kind}_{k}.npy", value, info.type.tensor_type.elem_type)
    compare = 0 if RANDOM.search(case.name) else 1
    to_bf16 = any(o.type.tensor_type.elem_type == TYPES.BFLOAT16 for o in model.graph.output)
    rtol = max(case.rtol, BF16_STEP) if to_bf16 else case.rtol
    return name, f"{name} {rtol} {case.atol} {compare} {len(inputs)} {len(outputs)}\n"


def run(runner, folder, names):
    """What the runner says of every case; one that ends the process is named."""
    p = subprocess.run([runner, folder], capture_output=True, text=True, timeout=600)
    verdicts = dict(line.split("\t", 1) for line in p.stdout.splitlines() if "\t" in line)
    missing = [n for n in names if n not in verdicts]
    if missing:
        verdicts[missing[0]] = f"failed: the runner ended with status {p.returncode}: {p.stderr[-300:]}"
    return verdicts


def collect(only):
    try:
        cases = collect_testcases()
    except TypeError:  # since 1.13 it takes the name of one operator, or None
        cases = collect_testcases(None)
    return [c for c in cases if c.kind == "node" and c.model is not None and only in c.name]


def sort_cases(cases, supported, folder):
    """Cases to run, and counts of the others: by missing operator, by type that tensors cannot hold."""
    names, lines, by_operator, by_type = [], [], collections.Counter(), collections.Counter()
    for case in cases:
        domains = {n.domain for n in case.model.graph.node} - {"", "ai.onnx"}
        missing = sorted({n.op_type for n in case.model.graph.node} - supported)
        kind = held_types(case.model)
        if domains or missing:
            by_operator[(missing or sorted(domains))[0]] += 1
        elif kind:
            by_type[kind] += 1
        else:
            name, line = write_case(folder, case)
            names.append(name)
            lines.append(line)
    with open(f"{folder}/cases.txt", "w", encoding="utf-8") as f:
        f.writelines(lines)
    return names, by_operator, by_type


# The latest opset that the document speaks of, so that it does not depend on the version of the package.
DOCUMENTED_OPSET = 17


def document(supported):
    """The text of docs/onnx_operators.md."""
    latest = {}
    for s in onnx.defs.get_all_schemas_with_history():
        if s.domain == "" and s.since_version <= DOCUMENTED_OPSET:
            if s.name not in latest or s.since_version > latest[s.name].since_version:
                latest[s.name] = s
    forward = sorted(name for name, s in latest.items() if not s.deprecated)
    have = [name for name in forward if name in supported]
    absent = [name for name in forward if name not in supported]
    lines = ["# ONNX operators", "",
             "Written by `tests/onnx_node_cases.py --update`; the suite fails where it is out of date.", "",
             f"Of the {len(forward)} operators of ai.onnx up to opset {DOCUMENTED_OPSET}, {len(have)} are supported and "
             f"{len(absent)} are not ({len(absent) / len(forward):.0%}).", "", "## Not supported", "", ", ".join(absent) + ".",
             "", "## Supported", "", ", ".join(have) + ".", ""]
    return "\n".join(textwrap.fill(line, 120, break_long_words=False) for line in lines) + "\n"


def check_document(path, text, update):
    """Whether the file holds the text; writes it first where asked to."""
    if update:
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    with open(path, encoding="utf-8") as f:
        return f.read() == text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("runner")
    parser.add_argument("tool")
    parser.add_argument("--only", default="", help="run the cases whose name has this in it")
    parser.add_argument("--keep", help="write the cases to this new folder and leave them")
    parser.add_argument("--document", help="the list of operators that must be up to date")
    parser.add_argument("--update", action="store_true", help="write that list")
    args = parser.parse_args()

    table = subprocess.run([args.tool, "ops", "--json"], capture_output=True, text=True, check=True, timeout=60)
    supported = set(re.findall(r'"operator":\s*"(\w+)"', table.stdout)) | RENAMED
    forward = {s.name for s in onnx.defs.get_all_schemas() if s.domain == "" and not s.deprecated}
    cases = collect(args.only)
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or temporary
        os.makedirs(folder, exist_ok=True)
        names, by_operator, by_type = sort_cases(cases, supported, folder)
        verdicts = run(args.runner, folder, names)

    passed, refused, failed = 0, collections.Counter(), []
    for name in names:
        verdict = verdicts.get(name, "failed: not run")
        reason = next((r for text, r in REFUSALS.items() if re.search(text, verdict)), None)
        if verdict == "ok":
            passed += 1
        elif reason:
            refused[reason] += 1
        else:
            failed.append(f"{name}: {verdict}")

    absent = sorted(forward - supported)
    share = len(absent) / len(forward)
    print(f"onnx {onnx.__version__}: {len(cases)} cases, {passed} passed, {len(failed)} failed")
    print(f"{sum(by_operator.values())} of unsupported operators:", dict(by_operator.most_common()))
    print(f"{sum(by_type.values())} need types that tensors do not hold:", dict(by_type.most_common()))
    print(f"{sum(refused.values())} refused:", dict(refused.most_common()))
    print(f"{len(forward) - len(absent)} of {len(forward)} ai.onnx forward operators; {share:.0%} missing:", ", ".join(absent))
    for line in failed:
        print("FAILED", line)
    current = not args.document or check_document(args.document, document(supported), args.update)
    if not current:
        print(f"{args.document} is out of date: run this with --update")
    if failed or not current or (not args.only and (share > MAX_UNSUPPORTED or passed == 0)):
        sys.exit(1)


if __name__ == "__main__":
    main()
