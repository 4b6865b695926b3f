#!/usr/bin/env python3
"""Runs the opsnn tool as a user would and checks output, exit status and error lines.
usage: cli_test.py PATH_TO_OPSNN"""
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import unittest

TOOL = None


def run(*args, env=None, ok=True):
    """Runs the tool; returns its standard output (ok=None: whatever the status). With ok=False the one error line is
    returned instead."""
    p = subprocess.run([TOOL, *args], capture_output=True, text=True, timeout=300, env={**os.environ, **(env or {})})
    if ok is None:
        return p.stdout
    if ok:
        assert p.returncode == 0, f"{args}: exit {p.returncode}: {p.stderr}"
        return p.stdout
    assert p.returncode == 1, f"{args}: exit {p.returncode}, expected 1; stdout {p.stdout[:200]!r}"
    lines = [x for x in p.stderr.strip().split("\n") if not x.startswith("opsnn: note: ")]
    assert len(lines) == 1, f"{args}: {len(lines)} error lines: {p.stderr[:500]}"
    return lines[0]


def run_json(*args):
    """The object that a failing call with --json prints."""
    p = subprocess.run([TOOL, *args], capture_output=True, text=True, timeout=300, check=False)
    assert p.returncode == 1, f"{args}: exit {p.returncode}, expected 1"
    return json.loads(p.stdout)


def npy(path, values, dims, half=False):
    header = "{'descr': '<f%d', 'fortran_order': False, 'shape': (%s), }" % (2 if half else 4, "".join(f"{d}," for d in dims))
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        f.write(struct.pack(f"<{len(values)}{'e' if half else 'f'}", *values))


class Cli(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tmp = tempfile.TemporaryDirectory()
        cls.dir = pathlib.Path(cls.tmp.name)
        cls.model = str(cls.dir / "selftest.onnx")
        run("selftest", "--keep-model", cls.model)

    @classmethod
    def tearDownClass(cls):
        cls.tmp.cleanup()

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

    def test_bench_json(self):
        b = json.loads(run("bench", self.model, "--shape", "image=1,3,32,32", "--runs", "3", "--json"))
        keys = {"model", "threads", "runs", "first_ms", "fused_ms", "unfused_ms", "peak_bytes", "bytes_moved"}
        self.assertTrue(keys <= b.keys())
        self.assertTrue({"min", "median"} <= b["fused_ms"].keys())
        self.assertGreater(b["peak_bytes"], 0)
        self.assertGreater(b["bytes_moved"], 0)

    def test_bench_operator(self):
        b = json.loads(run("bench", "matmul", "--m", "33", "--n", "47", "--k", "65", "--epilogue", "bias,gelu", "--runs", "2", "--json"))
        self.assertEqual(b["runs"], 2)
        run("bench", "softmax", "--x", "16,77", "--runs", "2")

    def test_explain(self):
        edges = json.loads(run("explain", self.model, "--shape", "image=1,3,64,64", "--json"))
        self.assertGreater(len(edges), 0)
        keys = {"chain", "shape", "dtype", "profile", "verdict", "reason", "budget", "retries", "time_fused_us",
                "time_split_us", "benefit_us", "threshold_us"}
        for e in edges:
            self.assertTrue(keys <= e.keys())
            self.assertIn(e["verdict"], ("fuse", "split", "refuse", "hybrid"))
            self.assertTrue(e["reason"])
        text = run("explain", "conv2d", "--x", "1,64,56,56", "--w", "64,64,3,3", "--pad", "1", "--epilogue", "bias,relu")
        self.assertIn("benefit", text)

    def test_explain_memory(self):
        args = ("explain", self.model, "--shape", "image=1,3,64,64", "--memory")
        m = json.loads(run(*args, "--json"))
        self.assertGreaterEqual(m["arena_bytes"], m["live_peak_bytes"])
        self.assertEqual(m["live_peak_bytes"], max(n["live_bytes"] for n in m["curve"]))
        self.assertIn(m["strategy"], [t["strategy"] for t in m["tried"]])
        self.assertIn(m["strategy"], run(*args))

    def test_bench_convolutions_by_rank(self):
        for op, x, w in (("conv1d", "1,4,9", "8,4,3"), ("conv2d", "1,4,9,9", "8,4,3,3"), ("conv3d", "1,4,5,6,7", "8,4,3,3,3")):
            self.assertIn(op, run("bench", op, "--x", x, "--w", w, "--pad", "1", "--epilogue", "bias,relu", "--runs", "1"))
        self.assertIn("--x", run("bench", "conv2d", "--x", "1,4,5,6,7", "--w", "8,4,3,3,3", ok=False))

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
            p = subprocess.run([TOOL, "compare", f"{self.dir}/a.npy", f"{self.dir}/{other}.npy"], capture_output=True,
                               text=True, timeout=60, check=False)
            self.assertEqual(p.returncode, 1)
            self.assertIn("cosine -", p.stdout)

    def test_explain_for_another_device(self):
        edges = json.loads(run("explain", "matmul", "--m", "4096", "--n", "4096", "--k", "4096", "--epilogue", "relu",
                               "--profile", "Ascend910B1", "--json"))
        self.assertEqual(edges[0]["profile"], "Ascend910B1")
        self.assertEqual(edges[0]["verdict"], "fuse")

    def test_explain_expects(self):
        large = ("explain", "matmul", "--m", "4096", "--n", "4096", "--k", "4096", "--epilogue", "relu", "--profile", "910B1")
        small = ("explain", "matmul", "--m", "64", "--n", "64", "--k", "64", "--batch", "1024", "--epilogue", "relu")
        run(*large, "--expect", "fuse", "--expect", "relu=fuse")
        run(*small, "--profile", "910B1", "--expect", "split")
        self.assertIn("expected fuse, decided split", run(*small, "--profile", "910B1", "--expect", "matmul=fuse", ok=False))
        self.assertIn('no edge for "conv=fuse"', run(*large, "--expect", "conv=fuse", ok=False))
        self.assertIn("allowed: fuse, split", run(*large, "--expect", "maybe", ok=False))
        failed = run_json(*small, "--profile", "910B1", "--expect", "fuse", "--json")
        self.assertEqual((failed["ok"], failed["status"]), (False, 361001))
        self.assertIn("expected fuse, decided split", failed["error"])
        self.assertEqual(failed["edges"][0]["verdict"], "split")
        failed = run_json(*small, "--profile", "910B1", "--diff", "950PR", "--expect", "fuse", "--json")
        self.assertEqual((failed["ok"], failed["difference"]["edges"]), (False, 1))
        self.assertEqual(run_json(*large, "--expect", "maybe", "--json")["status"], 161002)

    def test_explain_expects_whatever_is_shown(self):
        args = ("explain", "matmul", "--m", "4096", "--n", "4096", "--k", "4096", "--epilogue", "relu", "--profile", "910B1")
        for shown in ("--memory", "--traffic", "--convolutions", "--graph"):
            run(*args, shown, "--expect", "fuse")
            self.assertIn("expected split, decided fuse", run(*args, shown, "--expect", "split", ok=False))
        failed = run_json(*args, "--traffic", "--expect", "split", "--json")
        self.assertFalse(failed["ok"])
        self.assertIn("nodes", failed["traffic"])
        text = run(*args, "--memory", "--traffic", "--convolutions")
        for word in ("arena", "B/op", "no convolutions"):
            self.assertIn(word, text)
        self.assertEqual(set(json.loads(run(*args, "--memory", "--traffic", "--json"))), {"memory", "traffic"})
        for two in (("--diff", "950PR", "--memory"), ("--top", "1", "--traffic"), ("--top", "1", "--diff", "950PR"),
                    ("--graph", "--json")):
            self.assertIn("allowed: one of them", run(*args, *two, ok=False))

    def test_explain_with_fusion_off(self):
        base = ("explain", "matmul", "--m", "256", "--n", "256", "--k", "256", "--epilogue", "bias,relu")
        edge = json.loads(run(*base, "--fusion", "off", "--expect", "split", "--json"))
        self.assertEqual([e["chain"] for e in edge], ["matmul+add+relu", "add+relu"])
        self.assertEqual({(e["verdict"], e["reason"]) for e in edge}, {("split", "fusion is switched off")})
        self.assertEqual(json.loads(run(*base, "--json", env={"OPSNN_FUSION": "off"})), edge)
        for op in (("softmax", "--x", "64,128"), ("relu", "--x", "4096")):
            run("explain", *op, "--fusion", "off", "--epilogue", "exp,sigmoid", "--expect", "exp=split" if op[0] == "relu" else "sigmoid=split")
        # The option beats the setting, and no word says otherwise.
        for mode in ("auto", "force"):
            with_off = run(*base, "--fusion", mode, env={"OPSNN_FUSION": "off"})
            self.assertNotIn("switched off", with_off)
            self.assertEqual(with_off, run(*base, "--fusion", mode))

    def test_explain_shows_edges_that_no_pass_looks_at(self):
        for op, x, stage, more in (("layernorm", "4096,1024", "gelu", ()), ("softmax", "64,128", "bias", ()),
                                   ("avgpool", "1,8,16,16", "relu", ("--kernel", "2"))):
            edges = json.loads(run("explain", op, "--x", x, "--epilogue", stage, *more, "--json"))
            self.assertEqual([e["verdict"] for e in edges], ["refuse"], op)
            self.assertIn("takes no chain", edges[0]["reason"])
        few = run("explain", "matmul", "--m", "4", "--n", "2", "--k", "8", "--epilogue", "softmax")
        self.assertIn("at most 8 columns", few)

    def test_explain_of_half_types(self):
        halves = ("explain", "matmul", "--m", "4096", "--n", "4096", "--k", "4096", "--dtype", "f16", "--profile", "910B1")
        run(*halves, "--epilogue", "relu", "--expect", "fuse")
        edges = json.loads(run(*halves, "--epilogue", "bias,gelu", "--expect", "fuse", "--json"))
        self.assertEqual([e["chain"] for e in edges], ["matmul+add+gelu"])

    def test_explain_with_assumptions(self):
        gelu = ("explain", "matmul", "--m", "512", "--n", "512", "--k", "512", "--epilogue", "gelu", "--profile", "910B1", "--json")
        alone = json.loads(run(*gelu))[0]
        self.assertGreater(json.loads(run(*gelu, "--training"))[0]["fused_terms_us"]["kept for the backward pass"], 0)
        self.assertIn("precision", json.loads(run(*gelu, "--precision-first"))[0]["reason"])
        shared = json.loads(run(*gelu, "--concurrent", "4"))[0]
        self.assertEqual(shared["retries"][0]["available"] * 4, alone["retries"][0]["available"])
        self.assertIn("--concurrent", run(*gelu, "--concurrent", "0", ok=False))

    def test_explain_diff(self):
        args = ("explain", "matmul", "--m", "64", "--n", "64", "--k", "64", "--batch", "1024", "--epilogue", "relu", "--profile", "910B1")
        same = json.loads(run(*args, "--diff", "910_9392", "--json"))
        self.assertEqual(same["edges"], 1)
        self.assertEqual(same["different"], [])
        other = json.loads(run(*args, "--diff", "950PR", "--json"))
        self.assertEqual([d["verdict"] for d in other["different"][0]["decisions"]], ["split", "fuse"])
        self.assertIn("950PR", run(*args, "--diff", "950PR"))
        # Edges that one profile is not asked about do not shift the others.
        args = ("explain", self.model, "--shape", "image=1,3,32,32", "--profile", "host")
        other = json.loads(run(*args, "--diff", "host:launch_us=1000000,sync_us=1000000", "--json"))
        for d in other["different"]:
            one, two = d["decisions"]
            self.assertEqual((one["chain"], one["where"]), (two["chain"], two["where"]))
            self.assertNotEqual(one["verdict"], two["verdict"])
        self.assertEqual(other["edges"], other["same"] + len(other["different"]))

    def test_explain_top(self):
        args = ("explain", self.model, "--shape", "image=1,3,32,32", "--profile", "910B1")
        every, two = json.loads(run(*args, "--json")), json.loads(run(*args, "--top", "2", "--json"))
        gains = sorted((d["benefit_us"] for d in every), reverse=True)
        self.assertEqual([d["benefit_us"] for d in two], gains[:2])
        self.assertIn("%d edges" % len(every), run(*args, "--top", "1"))
        self.assertIn("--top", run(*args, "--top", "0", ok=False))

    def test_reductions_and_pools_behind(self):
        conv = ("explain", "conv2d", "--x", "1,16,14,14", "--w", "16,16,3,3", "--pad", "1", "--epilogue")
        self.assertIn("needs cross-channel gather", run(*conv, "relu,softmax", "--expect", "softmax=refuse"))
        self.assertIn("rows of a pool window", run(*conv, "relu,maxpool", "--expect", "maxpool=refuse"))
        matmul = ("matmul", "--m", "24", "--n", "40", "--k", "16", "--epilogue")
        for stages in ("softmax", "add,layernorm", "rmsnorm,relu"):
            run("verify", *matmul, stages)
        run("verify", *conv[1:], "avgpool,add", "--kernel", "2,3")
        self.assertIn("needs an image", run("explain", *matmul, "maxpool", ok=False))

    def test_bench_plan(self):
        p = json.loads(run("bench", "plan", "--json"))
        self.assertGreater(p["new_class_us"], p["cached_us"])
        self.assertLessEqual(p["cache_bytes"], p["bound_bytes"])
        self.assertIn("no model given", run("bench", ok=False))

    def test_ops_lists_variants(self):
        text = run("ops", "MatMul")
        for word in ("gemm packed", "gemm gemv", "at most 8 rows", "such as f32 4x512 512x512c"):
            self.assertIn(word, text)
        rows = [o for o in json.loads(run("ops", "Softmax", "--json")) if o["operator"] == "Softmax" and not o["api"]]
        self.assertEqual([v["name"] for v in rows[0]["variants"]], ["rows in registers", "row program", "column softmax"])
        self.assertTrue(all(o["variants"] for o in json.loads(run("ops", "--json")) if not o["api"]))

    def test_ops_does_not_pass_an_operators_text_for_a_functions(self):
        text = run("ops", "aclnnFlashAttentionScore")
        self.assertIn("built on the operator", text)
        self.assertNotIn("Empty tensors", text)

    def test_tile(self):
        args = ("tile", "--tile", "128,256,64", "--profile", "host:l1_bytes=512K")
        t = json.loads(run(*args, "--json"))
        self.assertEqual([b["bytes"] >> 10 for b in t["blocks"]], [32, 64, 128, 128])
        self.assertEqual(t["total_bytes"], 352 << 10)
        self.assertTrue(t["fits"])
        self.assertEqual(len(t["changes"]), 6)
        self.assertEqual(json.loads(run(*args, "--double-buffer", "--json"))["total_bytes"], 448 << 10)
        tries = json.loads(run("tile", "--tile", "128,256,64", "--profile", "host:l1_bytes=200K", "--order", "kmn",
                               "--json"))["retries"]
        self.assertEqual((tries[-1]["tile_m"], tries[-1]["tile_n"], tries[-1]["tile_k"], tries[-1]["bytes"]),
                         (64, 256, 32, 168 << 10))
        self.assertIn("tile_k / 2", run(*args))
        for value in ("0", "-5"):
            self.assertRegex(run(*args[:-1], f"910B1:l1_bytes={value}", ok=False), r"profile 910B1.*allowed: a number above 0")
        doubles = json.loads(run(*args, "--dtype", "f64", "--json"))["blocks"]
        self.assertEqual([b["bytes"] >> 10 for b in doubles], [64, 128, 256, 256])
        for bad in ("bool", "s64", "f33"):
            self.assertIn("allowed: f32, f64", run(*args, "--dtype", bad, ok=False))
        self.assertIn("allowed: M,N,K", run("tile", "--tile", "1,2", ok=False))
        last = run("tile", "--tile", "128,256,64", "--profile", "host:l1_bytes=200K", "--order", "k,m,n", "--json")
        self.assertEqual(json.loads(last)["retries"], tries)
        self.assertIn("each at most once", run("tile", "--tile", "1,2,3", "--order", "kk", ok=False))
        self.assertIn("allowed: 0 to", run("bench", "judge", "--threads", "4000", ok=False))

    def test_explain_traffic(self):
        args = ("explain", "matmul", "--m", "512", "--n", "512", "--k", "512", "--epilogue", "relu", "--traffic")
        t = json.loads(run(*args, "--json"))
        self.assertEqual(t["units"]["cube"]["kernels"], 1)
        self.assertEqual(t["nodes"][0]["operations"], 2 * 512**3 + 512**2)
        self.assertGreater(t["nodes"][0]["bytes_per_operation"], 0)
        self.assertIn("B/op", run(*args, "--profile", "910B1"))

    def test_bench_top(self):
        args = ("bench", self.model, "--shape", "image=1,3,32,32", "--runs", "1", "--top", "3")
        top = json.loads(run(*args, "--json"))["top"]
        self.assertEqual(len(top["hottest"]), 3)
        self.assertLessEqual(top["nodes_with_80_percent"], top["nodes"])
        shares = [n["cumulative_share"] for n in top["hottest"]]
        self.assertEqual(shares, sorted(shares))
        self.assertIn("80 % of the time is in", run(*args))

    def test_map(self):
        out = self.dir / "map.svg"
        text = run("map", "--n", "64", "--to", "256", "--steps", "1", "--epilogue", "bias,gelu", "--profile", "A2", "--out", str(out))
        self.assertIn("fuse", text)
        self.assertEqual(out.read_text().count("<rect"), 25)
        counts = json.loads(run("map", "--n", "64", "--to", "256", "--steps", "1", "--out", str(out), "--json"))
        self.assertEqual(counts["fuse"] + counts["split"] + counts["refuse"] + counts["hybrid"], 25)
        self.assertIn("--from", run("map", "--from", "64", "--to", "16", "--out", str(out), ok=False))
        self.assertIn("frob", run("map", "--epilogue", "frob", "--out", str(out), ok=False))
        self.assertIn("l9_bytes", run("map", "--profile", "A2:l9_bytes=1", "--out", str(out), ok=False))
        self.assertIn(".svg", run("map", "--to", "32", "--out", str(self.dir / "map.png"), ok=False))

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

    def test_bench_with_fusion_off_has_one_form(self):
        args = ("bench", "matmul", "--m", "16", "--n", "16", "--k", "16", "--epilogue", "relu", "--runs", "1", "--phases")
        for more, env in ((("--fusion", "off"), {}), ((), {"OPSNN_FUSION": "off"})):
            text = run(*args, *more, env=env)
            self.assertEqual(re.findall(r"^  (fused|unfused) +median", text, flags=re.M), ["unfused"])
            b = json.loads(run(*args, *more, "--json", env=env))
            self.assertIsNone(b["fused_ms"])
            self.assertEqual(len(b["before_us"]), 1)
        self.assertNotIn("takes -", run(*args))

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

    def test_bench_phases(self):
        text = run("bench", self.model, "--shape", "image=1,3,32,32", "--runs", "1", "--phases")
        for layer in ("import", "passes", "judge", "kernels", "memory", "a run"):
            self.assertIn(layer, text)
        args = ("bench", self.model, "--shape", "image=1,3,32,32", "--runs", "1", "--json")
        fused, unfused = json.loads(run(*args))["before_us"]
        self.assertGreater(fused["passes"], 0)
        self.assertGreater(fused["edges"], unfused["edges"])

    def test_calibrate(self):
        with tempfile.TemporaryDirectory() as cache:
            env = {"XDG_CACHE_HOME": cache}
            c = json.loads(run("calibrate", "--runs", "1", "--json", env=env))
            self.assertGreater(len(c["terms"]), 3)
            self.assertTrue(c["kept"])
            self.assertEqual({r["checked"] for r in c["rates"]}, {True, False})
            self.assertIn("not checked", run("calibrate", "--check", "--runs", "0", env=env, ok=None))
            measured = json.loads(run("info", "--measure", "--json", env=env))
            kept = {r["name"]: r["now"] for r in c["rates"]}
            self.assertAlmostEqual(measured["copy_gbps"], kept["memory copy"], places=2)
            self.assertAlmostEqual(measured["read_gbps"] / kept["memory read"], 1, places=1)
            file = pathlib.Path(c["file"])
            self.assertTrue(file.is_relative_to(cache))
            file.write_text("".join("fma_gflops = 1.0\n" if line.startswith("fma_gflops") else line + "\n"
                                    for line in file.read_text().splitlines()))
            self.assertIn("opsnn calibrate", run("calibrate", "--check", "--runs", "0", env=env, ok=False))
            fma = next(r for r in json.loads(run("calibrate", "--runs", "0", "--json", env=env))["rates"] if r["name"] == "fma")
            self.assertEqual(fma["used"], 1)
            self.assertGreater(fma["now"], 1.25)

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

    def test_ops(self):
        ops = json.loads(run("ops", "--json"))
        self.assertTrue(all({"api", "operator", "status", "dtypes"} <= o.keys() for o in ops))
        relu = [o for o in ops if o["api"] == "aclnnRelu"]
        self.assertEqual(relu[0]["status"], "implemented")
        self.assertIn("Softmax", run("ops", "Softmax"))

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
            (("run", self.model, "--policy", "fast"), "allowed: exact, excess"),
            (("run", "a" * 5000), "unknown operator"),
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
            (("explain", self.model, "--profile", ""), "--profile"),
            (("run", self.model, "--output", f"{a_file}/out"), "file"),
            (("run", self.model, "--threads", "0"), "threads"),
            (("run", self.model, "--threads", "-3"), "threads"),
            (("run", self.model, "--policy", "fast"), "policy"),
            (("run", self.model, "--passes-off", "no_such_pass"), "no_such_pass"),
            (("bench", "matmul", "--m", "3"), "--n"),
            (("bench", "no_such_operator"), "no_such_operator"),
            (("bench", "matmul", "--m", "-1", "--n", "2", "--k", "3"), "-1"),
            (("bench", "matmul", "--m", "1", "--n", "2", "--k", "3", "--epilogue", "frob"), "frob"),
            (("bench", "matmul", "--m", "1", "--n", "2", "--k", "3", "--dtype", "f99"), "f99"),
            (("bench", "conv2d", "--x", "1,8,4,4", "--w", "8,8,9,9"), "onv"),
            (("explain", "matmul", "--m", "1", "--n", "2", "--k", "3", "--epilogue", "relu", "--profile", "TPU"), "TPU"),
            (("ops", "NoSuchThing"), "NoSuchThing"),
            (("frobnicate",), "frobnicate"),
            ((), "no command given"),
        ]
        for args, word in cases:
            with self.subTest(args=args):
                self.assertIn(word, run(*args, ok=False))

    def test_errors_are_json_too(self):
        for args in (("run", self.model, "--shape", "image=1,2"), ("frob",), ("run", self.model, "--seed", "x"),
                     ("verify", str(self.dir / "none.onnx"))):
            with self.subTest(args=args):
                p = subprocess.run([TOOL, *args, "--json"], capture_output=True, text=True, timeout=60)
                self.assertEqual(p.returncode, 1)
                error = json.loads(p.stdout)
                self.assertFalse(error["ok"])
                self.assertEqual(error["status"], 161002)
                self.assertIn(error["error"], p.stderr)

    def test_dims_that_become_1_are_noted(self):
        p = subprocess.run([TOOL, "run", self.model, "--json"], capture_output=True, text=True, timeout=60)
        self.assertIn('note: input "image" [N,3,H,W]', p.stderr)
        self.assertIn("--shape image=1,3,1,1", json.loads(p.stdout)["notes"][0])
        self.assertEqual(json.loads(run("run", self.model, "--shape", "image=1,3,8,8", "--json"))["notes"], [])

    def test_shape_may_repeat_what_the_file_says(self):
        npy(self.dir / "a=b.npy", [0.5] * (3 * 16), (1, 3, 4, 4))
        given = ("run", self.model, "--input", f"image={self.dir}/a=b.npy", "--shape")
        run(*given, "image=1,3,4,4")
        self.assertIn("allowed: 1,3,4,4", run(*given, "image=1,3,4,5", ok=False))

    def test_explain_needs_no_memory_for_weights(self):
        edges = json.loads(run("explain", "matmul", "--m", "1000000", "--n", "1000000", "--k", "1000000", "--epilogue",
                               "bias,relu", "--json"))
        self.assertGreater(len(edges), 0)
        # The answer does not depend on whether the weights have values.
        chains = [[(e["chain"], e["verdict"]) for e in json.loads(
            run("explain", "matmul", "--m", "512", "--n", size, "--k", size, "--epilogue", "bias,relu", "--json"))]
            for size in ("2800", "3000")]
        self.assertEqual(chains[0], chains[1])

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

    def test_ops_has_a_header(self):
        self.assertRegex(run("ops", "Softmax"), "^C function +operator +status +element types")

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
                p = subprocess.run([TOOL, *args], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
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
    TOOL = sys.argv.pop(1)
    unittest.main(verbosity=1)
