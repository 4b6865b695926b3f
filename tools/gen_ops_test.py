#!/usr/bin/env python3
"""Tests of gen_ops.py: what it accepts, and that every mistake is an error that names file and key."""

import pathlib
import tempfile
import unittest

import gen_ops

GOOD = """operator = "LeakyRelu"
class = "vector"
layout = "elementwise"
formula = "y"
doc = "d"
[[input]]
name = "X"
dtypes = ["f32", "f16"]
[[output]]
name = "Y"
dtypes = "X"
[[attr]]
name = "alpha"
type = "float"
default = 0.01
[onnx]
since = 6
[[aclnn]]
api = "aclnnLeakyRelu"
header = "aclnnop/aclnn_leaky_relu.h"
params = [
  {name = "self", ctype = "const aclTensor *", dir = "in"},
  {name = "negativeSlope", ctype = "const aclScalar *", dir = "attr"},
  {name = "out", ctype = "aclTensor *", dir = "out"},
]
dtypes = {self = ["f32"], out = ["f32"]}
bind = {X = "self", alpha = "negativeSlope", Y = "out"}
"""


class GenOpsTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.root = pathlib.Path(self.dir.name)

    def add(self, text, name="leaky_relu", source=True):
        folder = self.root / "activation"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
        if source:
            (folder / f"{name}.cc").write_text("", encoding="utf-8")

    def expect_error(self, text, *parts):
        self.add(text)
        with self.assertRaises(gen_ops.DeclarationError) as raised:
            gen_ops.load_all(self.root)
        for part in ("leaky_relu.toml",) + parts:
            self.assertIn(part, str(raised.exception))

    def test_good_declaration(self):
        self.add(GOOD)
        (op,) = gen_ops.load_all(self.root)
        self.assertEqual((op["name"], op["family"], op["since"]), ("LeakyRelu", "activation", 6))
        self.assertEqual(op["inputs"][0]["mask"], 0b101)
        self.assertEqual(op["outputs"][0]["same_as"], 0)
        self.assertEqual(op["aclnn"][0]["bind"], [("X", 0), ("alpha", 1), ("Y", 2)])

    def test_short_rows_take_the_published_prototype(self):
        def published(api, params):
            types = {name: ["FLOAT", "COMPLEX64"] for name, _, direction in params if direction != "attr"}
            params = [{"name": n, "ctype": c, "dir": d} for n, c, d in params]
            return {"api": api, "header": "aclnnop/x.h", "params": params, "dtypes": types}

        tensor, scalar = "const aclTensor *", "const aclScalar *"
        rows = [published("aclnnLeakyRelu", [("self", tensor, "in"), ("slope", scalar, "attr"), ("out", tensor, "out")]),
                published("aclnnInplaceLeakyRelu", [("selfRef", tensor, "inout"), ("slope", scalar, "attr")])]
        short = GOOD[:GOOD.index("[[aclnn]]")] + '[[aclnn]]\napi = "aclnnLeakyRelu"\ninplace = true\n'
        prototypes = {r["api"]: r for r in rows}
        self.add(short)
        op = gen_ops.load(self.root / "activation" / "leaky_relu.toml", self.root, prototypes)
        self.assertEqual([r["api"] for r in op["aclnn"]], list(prototypes))
        self.assertEqual(op["aclnn"][0]["bind"], [("X", 0), ("alpha", 1), ("Y", 2)])
        self.assertEqual(op["aclnn"][1]["bind"], [("X", 0), ("alpha", 1), ("Y", 0)])
        self.assertEqual(op["aclnn"][0]["dtypes"], [(0, 1), (2, 1)])
        self.add(short.replace("inplace", 'set = {alpha = 0.5}\ninplace'))
        with self.assertRaisesRegex(gen_ops.DeclarationError, "'slope' is bound to nothing"):
            gen_ops.load(self.root / "activation" / "leaky_relu.toml", self.root, prototypes)

    def test_output_is_deterministic_and_rewritten_only_on_change(self):
        self.add(GOOD)
        out = self.root / "out" / "op_table.cc"
        gen_ops.write_if_changed(out, gen_ops.render(gen_ops.load_all(self.root)))
        before = out.stat().st_mtime_ns
        gen_ops.write_if_changed(out, gen_ops.render(gen_ops.load_all(self.root)))
        self.assertEqual(before, out.stat().st_mtime_ns)

    def test_mistakes_name_file_and_key(self):
        self.expect_error(GOOD.replace('class = "vector"', 'class = "vektor"'), "class", "'vektor'", "matrix")
        self.expect_error(GOOD.replace("[onnx]", '[[variant]]\nname = "a"\nwhen = "b"\n[onnx]'), "variant[0].example")
        self.expect_error('mixes = "rows"\n' + GOOD, "mixes", "'rows'", "image")
        self.expect_error(GOOD.replace("formula", "formular"), "formular", "unknown key")
        self.expect_error(GOOD.replace('["f32", "f16"]', '["f32", "float"]'), "input[0].dtypes", "'float'")
        self.expect_error(GOOD.replace('dtypes = "X"', 'dtypes = "Z"'), "output[0].dtypes", "'Z'")
        self.expect_error(GOOD.replace("default = 0.01", 'default = "x"'), "attr[0].default", "'x'")
        self.expect_error(GOOD.replace('X = "self"', 'Q = "self"'), "aclnn[0].bind", "'Q'")
        self.expect_error(GOOD.replace('alpha = "negativeSlope", ', ""), "aclnn[0].bind", "negativeSlope")
        self.expect_error(GOOD.replace('"LeakyRelu"', '"Relu"'), "operator", "file name")
        self.expect_error(GOOD.replace("doc =", "#"), "doc", "required")
        self.expect_error("operator = ", "leaky_relu.toml")

    def test_declaration_without_source(self):
        self.add(GOOD, source=False)
        with self.assertRaisesRegex(gen_ops.DeclarationError, "leaky_relu.cc is missing"):
            gen_ops.load_all(self.root)

    def test_variadic_must_be_last(self):
        two = GOOD.replace("[[output]]", '[[input]]\nname = "Z"\ndtypes = "X"\n[[output]]')
        self.expect_error(two.replace('name = "X"', 'name = "X"\nvariadic = true'), "input[1].name", "variadic")


if __name__ == "__main__":
    unittest.main()
