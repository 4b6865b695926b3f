#!/usr/bin/env python3
"""Runs the opsnn tool as a user would and checks output, exit status and error lines. What it says of the planner,
of operators and of times is in cli_planner_test.py.
usage: cli_test.py PATH_TO_OPSNN"""
import json
import os
import pathlib
import random
import re
import struct
import subprocess

import cli_tool
from cli_tool import npy, run


class Cli(cli_tool.ToolTest):
    def test_every_command_has_help_and_json(self):
        commands = re.findall(r"^  (\w+)  ", run("--help").split("Subcommands:")[1], flags=re.M)
        self.assertGreater(len(commands), 8)
        for command in commands:
            text = run(command, "--help")
            self.assertIn("--json", text, command)

    def test_info(self):
        info = json.loads(run("info", "--json"))
        self.assertTrue({"version", "isa", "threads", "caches", "profile"} <= info.keys())
        self.assertGreaterEqual(info["threads"], 1)
        self.assertIn("threads", run("info"))

    def test_isa_cap_is_seen(self):
        info = json.loads(run("info", "--json", env={"OPSNN_MAX_ISA": "sse4"}))
        self.assertEqual(info["isa"], "sse4")

    def test_run_writes_outputs(self):
        out = self.dir / "out"
        npy(self.dir / "x.npy", [random.uniform(-1, 1) for _ in range(3 * 32 * 32)], (1, 3, 32, 32))
        result = json.loads(run("run", self.model, "--input", f"image={self.dir}/x.npy", "--output", str(out), "--json"))
        self.assertEqual(result["outputs"][0]["dims"], [1, 10])
        data = (out / "probability.npy").read_bytes()
        values = struct.unpack("<10f", data[-40:])
        self.assertAlmostEqual(sum(values), 1, places=5)

    def test_run_is_reproducible_and_thread_count_does_not_matter(self):
        outputs = []
        for i, threads in enumerate(("1", "2", "2")):
            out = self.dir / f"r{i}"
            run("run", self.model, "--shape", "image=2,3,65,47", "--seed", "7", "--threads", threads, "--output", str(out))
            outputs.append((out / "probability.npy").read_bytes())
        self.assertEqual(outputs[0], outputs[1])
        self.assertEqual(outputs[1], outputs[2])

    def test_compare_says_nothing_where_there_is_nothing_to_say(self):
        nan = float("nan")
        npy(self.dir / "a.npy", [1, 2, nan], (3,))
        npy(self.dir / "half.npy", [1, 2, nan], (3,), half=True)
        npy(self.dir / "b.npy", [1, nan, 3], (3,))
        npy(self.dir / "short.npy", [1, 2], (2,))
        same = json.loads(run("compare", f"{self.dir}/a.npy", f"{self.dir}/half.npy", "--json"))["tensors"][0]
        self.assertIn("f32 against f16", same["note"])
        self.assertAlmostEqual(same["cosine"], 1)
        for other in ("b", "short"):
            p = subprocess.run([cli_tool.TOOL, "compare", f"{self.dir}/a.npy", f"{self.dir}/{other}.npy"], capture_output=True,
                               text=True, timeout=60, check=False)
            self.assertEqual(p.returncode, 1)
            self.assertIn("cosine -", p.stdout)

    def test_scan(self):
        out = self.dir / "scan.svg"
        args = ("scan", self.model, "--shape", "image=1,3,32,32", "--vary", "image:3=16..48:8")
        text = run(*args, "--vary", "image:2=16..32:16", "--cold", "--out", str(out))
        self.assertIn("10 sizes", text)
        self.assertEqual(out.read_text().count("<rect"), 10)
        points = json.loads(run(*args, "--random", "3", "--json"))["points"]
        self.assertEqual(len(points), 3)
        for p in points:
            self.assertIn(p["sizes"]["image[3]"], (16, 24, 32, 40, 48))
            self.assertGreater(p["planned_bytes"], 0)
        for bad in ("image:3=16..8", "image:9=1..2", "frob:0=1..2", "image:3=1..4:", "image:3=1..4:0", "image=1..2", "1:1"):
            self.assertIn("allowed", run("scan", self.model, "--vary", bad, ok=False))
        self.assertIn("asks for 20000 sizes; allowed: at most 10000",
                      run("scan", self.model, "--vary", "image:3=1..20000", ok=False))
        most = 2**63 - 1
        self.assertIn("asks for 8.51e+37 sizes",
                      run("scan", self.model, "--vary", f"image:3=1..{most}", "--vary", f"image:2=1..{most}", ok=False))

    def test_buckets(self):
        def plans(*more):
            args = ("--vary", "image:0=1..8:1", "--shape", "image=1,3,16,16", "--runs", "1", "--json")
            return json.loads(run("scan", self.model, *args, *more))["points"][-1]["plans"]
        self.assertGreater(plans(), plans("--buckets", "image:0=4,8"))
        self.assertIn("(Conv)", run("run", self.model, "--shape", "image=1,3,20,20", "--buckets", "image:2=32", ok=False))
        for bad in ("image", "image:0=", "image:9", "frob:0", "image:0=8,4", "image:0=0"):
            self.assertIn("allowed", run("run", self.model, "--shape", "image=1,3,20,20", "--buckets", bad, ok=False))

    def test_compare_kinds(self):
        nan = float("nan")
        npy(self.dir / "nan.npy", [nan, nan], (2,))
        figures = json.loads(run("compare", f"{self.dir}/nan.npy", f"{self.dir}/nan.npy", "--json"))["tensors"][0]
        self.assertIsNone(figures["cosine"])
        self.assertIn("2 of 2 elements are the same NaN or Inf", figures["note"])
        npy(self.dir / "f.npy", [1, 2], (2,))
        data = (self.dir / "f.npy").read_bytes()
        (self.dir / "i.npy").write_bytes(data[:-8].replace(b"<f4", b"<i4") + struct.pack("<2i", 1, 2))
        self.assertIn("f32 against s32", run("compare", f"{self.dir}/f.npy", f"{self.dir}/i.npy", ok=False))

    def test_verify(self):
        for policy in ("exact", "excess"):
            v = json.loads(run("verify", self.model, "--shape", "image=1,3,33,31", "--policy", policy, "--json"))
            self.assertTrue(v["ok"])
            self.assertIsNone(v["first_bad"])
            self.assertIsNone(v["first_difference"])
            self.assertIsNone(v["guilty_pass"])
            self.assertGreater(v["nodes"], 0)
            self.assertEqual(v["unchecked"], 0)
            self.assertTrue({"node", "cosine", "max_abs", "max_rel"} <= v["worst"].keys())

    def test_compare(self):
        for name, seed in (("c0", "1"), ("c1", "1"), ("c2", "2")):
            run("run", self.model, "--seed", seed, "--output", str(self.dir / name))
        same = json.loads(run("compare", str(self.dir / "c0"), str(self.dir / "c1"), "--json"))
        self.assertTrue(same["ok"])
        self.assertEqual(same["tensors"][0]["max_abs"], 0)
        one = run("compare", f"{self.dir}/c0/probability.npy", f"{self.dir}/c1/probability.npy")
        self.assertIn("cosine", one)
        self.assertIn("probability.npy", run("compare", str(self.dir / "c0"), str(self.dir / "c2"), ok=False))
        self.assertIn("one of each", run("compare", str(self.dir / "c0"), f"{self.dir}/c1/probability.npy", ok=False))

    def test_bad_input_is_one_clear_line(self):
        junk = self.dir / "junk.onnx"
        junk.write_bytes(bytes(random.Random(1).randrange(256) for _ in range(4096)))
        cut = self.dir / "cut.onnx"
        cut.write_bytes(pathlib.Path(self.model).read_bytes()[:-100])
        empty = self.dir / "empty.onnx"
        empty.write_bytes(b"")
        npy(self.dir / "rank2.npy", [0] * 4, (2, 2))
        npy(self.dir / "long.npy", [0] * (3 * 32 * 32), (1, 3, 32, 32))
        with open(self.dir / "long.npy", "ab") as f:
            f.write(b"\0")
        a_file = self.dir / "file"
        a_file.write_text("x")
        cases = [
            (("run", str(junk)), "junk.onnx"),
            (("run", str(cut)), "cut.onnx"),
            (("run", str(empty)), "empty.onnx"),
            (("run", str(self.dir / "none.onnx")), "none.onnx"),
            (("run", self.model, "--shape", "picture=1,3,8,8"), "picture"),
            (("run", self.model, "--shape", "image=1,4,8,8"), "image"),
            (("run", self.model, "--shape", "image=1,3,x,8"), "1,3,x,8"),
            (("run", self.model, "--input", f"image={self.dir}/rank2.npy"), "image"),
            (("run", self.model, "--input", f"image={self.dir}/none.npy"), "none.npy"),
            (("run", self.model, "--input", f"image={junk}"), "junk.onnx"),
            (("run", self.model, "--input", f"image={self.dir}/long.npy"), "more bytes follow"),
            (("selftest", "--keep-model", f"{self.dir}/none/m.onnx"), "none/m.onnx"),
            (("run", self.model, "--input", "image"), "NAME=FILE.npy"),
            (("run", self.model, "--shape", "image="), "NAME=1,3,640,640"),
            (("run", self.model, "--seed", "-1"), 'got "-1"; allowed: an integer from 0'),
            (("run", self.model, "--seed", "1", "--seed", "2"), "several values"),
            (("run", self.model, "--output", ""), 'got ""; allowed: the name of a folder'),
            (("run", self.model, "--json=3"), "--json: got a value"),
            (("run", self.model, "--frob"), "got --frob"),
            (("bench", "judge", "--m", "3"), "got --m, which is not expected here; allowed: what --help lists"),
            (("run", self.model, "--policy", "fast"), "allowed: exact, excess"),
            (("run", "a" * 5000), "no such file; allowed: an ONNX file"),
            (("run", "matmul"), "bench, explain and verify take operators as well"),
            (("bench", "a" * 5000), "unknown operator"),
            (("bench", "add", "--x", "3", "--m", "3"), "allowed: --x"),
            (("bench", "matmul", "--m", "3", "--n", "3"), "allowed: --m --n --k [--batch]"),
            (("explain", self.model, "--profile", "910B1:l1_bytes"), "profile 910B1: got the override"),
            (("tile",), "allowed: --tile M,N,K, or --m --n --k"),
            (("run", ""), 'got ""'),
            (("bench", self.model, "--m", "3"), "allowed for operators only"),
            (("bench", self.model, "--runs", "0"), "allowed: an integer from 1 to 100000"),
            (("bench", self.model, "--runs", "1e2"), "allowed: an integer from 1 to 100000"),
            (("bench", "relu", "--x", ""), "--x"),
            (("bench", "relu", "--x", "4,"), "--x"),
            (("bench", "relu", "--x", "4", "--epilogue", "bias,,relu"), "none empty"),
            (("bench", "avgpool", "--x", "1,3,8,8", "--kernel", "3", "--stride", "1,2,3"), "allowed: 1 or 2"),
            (("bench", "matmul", "--m", "10", "--n", "1000000", "--k", "1000000"), "memory available"),
            (("compare", str(self.dir), str(self.dir), "--tolerance", "nan"), "a number from 0 to 1"),
            (("compare", str(self.dir), str(self.dir), "--tolerance", "-1"), "a number from 0 to 1"),
            (("compare", str(self.dir)), "B: missing"),
            (("compare", str(self.dir), str(self.dir / "none")), "none: there is no such file or folder"),
            (("explain", self.model, "--profile", ""), "--profile"),
            (("run", self.model, "--output", f"{a_file}/out"), "file"),
            (("run", self.model, "--threads", "0"), "threads"),
            (("run", self.model, "--threads", "-3"), "threads"),
            (("run", self.model, "--policy", "fast"), "policy"),
            (("run", self.model, "--passes-off", "no_such_pass"), "no_such_pass\"; allowed: "),
            (("bench", "matmul", "--m", "3"), "--n"),
            (("bench", "no_such_operator"), "no_such_operator"),
            (("bench", "matmul", "--m", "-1", "--n", "2", "--k", "3"), "-1"),
            (("bench", "matmul", "--m", "1", "--n", "2", "--k", "3", "--epilogue", "frob"), "frob"),
            (("bench", "matmul", "--m", "1", "--n", "2", "--k", "3", "--dtype", "f99"), "f99"),
            (("bench", "conv2d", "--x", "1,8,4,4", "--w", "8,8,9,9"), "onv"),
            (("explain", "matmul", "--m", "1", "--n", "2", "--k", "3", "--epilogue", "relu", "--profile", "TPU"), "TPU"),
            (("ops", "NoSuchThing"), "NoSuchThing"),
            (("frobnicate",), "frobnicate"),
            (("--frob", "info"), "got --frob before any command; allowed: --help"),
            ((), "no command given"),
        ]
        for args, word in cases:
            with self.subTest(args=args):
                self.assertIn(word, run(*args, ok=False))

    def test_errors_are_json_too(self):
        for args in (("run", self.model, "--shape", "image=1,2"), ("frob",), ("run", self.model, "--seed", "x"),
                     ("verify", str(self.dir / "none.onnx"))):
            with self.subTest(args=args):
                p = subprocess.run([cli_tool.TOOL, *args, "--json"], capture_output=True, text=True, timeout=60)
                self.assertEqual(p.returncode, 1)
                error = json.loads(p.stdout)
                self.assertFalse(error["ok"])
                self.assertEqual(error["status"], 161002)
                self.assertIn(error["error"], p.stderr)

    def test_dims_that_become_1_are_noted(self):
        p = subprocess.run([cli_tool.TOOL, "run", self.model, "--json"], capture_output=True, text=True, timeout=60)
        self.assertIn('note: input "image" [N,3,H,W]', p.stderr)
        self.assertIn("--shape image=1,3,1,1", json.loads(p.stdout)["notes"][0])
        self.assertEqual(json.loads(run("run", self.model, "--shape", "image=1,3,8,8", "--json"))["notes"], [])

    def test_shape_may_repeat_what_the_file_says(self):
        npy(self.dir / "a=b.npy", [0.5] * (3 * 16), (1, 3, 4, 4))
        given = ("run", self.model, "--input", f"image={self.dir}/a=b.npy", "--shape")
        run(*given, "image=1,3,4,4")
        self.assertIn("allowed: 1,3,4,4", run(*given, "image=1,3,4,5", ok=False))

    def test_one_number_for_every_dim_of_a_window(self):
        for options in (("--kernel", "3"), ("--kernel", "3,3", "--stride", "2", "--pad", "1"), ("--kernel", "2", "--pad", "1,0")):
            run("bench", "maxpool", "--x", "1,3,8,8", "--runs", "1", *options)

    def test_info_names_the_config_file(self):
        config = self.dir / "settings.toml"
        config.write_text("threads = 1\n")
        env = {"OPSNN_CONFIG": str(config)}
        self.assertEqual(json.loads(run("info", "--json", env=env))["config_file"], str(config))
        self.assertIn(str(config), run("info", env=env))
        config.write_text("strict = [true]\n")
        self.assertIn("got the list [true]; allowed: 0 or 1", run("info", env=env, ok=False))

    def test_pipes_folders_and_devices_are_refused(self):
        pipe = str(self.dir / "pipe")
        os.mkfifo(pipe)
        for args in (("run", pipe), ("run", self.model, "--input", f"image={pipe}"), ("run", str(self.dir))):
            with self.subTest(args=args):
                self.assertIn("not a regular file", run(*args, ok=False))
        for path in (pipe, str(self.dir), "/dev/zero"):
            with self.subTest(config=path):
                self.assertIn("not a regular file", run("info", env={"OPSNN_CONFIG": path}, ok=False))

    def test_memory_is_checked_before_inputs_are_made(self):
        line = run("run", self.model, "--shape", "image=1,3,20000,20000",
                   env={"OPSNN_MEMORY_LIMIT": "100000000"}, ok=False)
        self.assertIn("OPSNN_MEMORY_LIMIT", line)

    def test_full_device(self):
        for args in (("ops", "--json"), ("info",)):
            with self.subTest(args=args), open("/dev/full", "w") as full:
                p = subprocess.run([cli_tool.TOOL, *args], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
                self.assertEqual(p.returncode, 1)
                self.assertIn("cannot be written", p.stderr)

    def test_bad_knobs(self):
        for env, word in (({"OPSNN_THREADS": "0x"}, "OPSNN_THREADS"), ({"OPSNN_MAX_ISA": "mmx"}, "OPSNN_MAX_ISA"),
                          ({"OPSNN_L1_RESERVE": "7"}, "OPSNN_L1_RESERVE"), ({"OPSNN_NO_SUCH": "1"}, "OPSNN_NO_SUCH"),
                          ({"OPSNN_CHECK": "memroy"}, "OPSNN_CHECK")):
            with self.subTest(env=env):
                self.assertIn(word, run("info", env=env, ok=False))
        self.assertEqual(json.loads(run("info", "--json", env={"OPSNN_THREADS": " 1 "}))["threads"], 1)


if __name__ == "__main__":
    cli_tool.main()
