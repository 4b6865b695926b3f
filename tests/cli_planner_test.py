#!/usr/bin/env python3
"""The commands that show what the planner does and what that costs: explain, bench, tile, map, ops, calibrate.
usage: cli_planner_test.py PATH_TO_OPSNN"""
import json
import pathlib
import re
import tempfile

import cli_tool
from cli_tool import run, run_json


class CliPlanner(cli_tool.ToolTest):
    def test_bench_json(self):
        b = json.loads(run("bench", self.model, "--shape", "image=1,3,32,32", "--runs", "3", "--json"))
        keys = {"model", "threads", "runs", "first_ms", "fused_ms", "unfused_ms", "peak_bytes", "bytes_moved"}
        self.assertTrue(keys <= b.keys())
        self.assertTrue({"min", "median"} <= b["fused_ms"].keys())
        self.assertGreater(b["peak_bytes"], 0)
        self.assertGreater(b["bytes_moved"], 0)

    def test_bench_tells_plans_and_verdicts(self):
        args = ("bench", self.model, "--shape", "image=1,3,32,32", "--runs", "3")
        b = json.loads(run(*args, "--json"))
        self.assertGreater(b["plans"]["made"], 0)
        self.assertGreaterEqual(b["plans"]["found"], 3)
        self.assertGreater(b["verdict_cache"]["misses"], 0)
        self.assertGreater(b["verdict_cache"]["bytes"], 0)
        self.assertEqual(set(b["regions"]), {"calls", "blocks_fused", "blocks_split"})
        self.assertGreater(b["unfused_bytes_moved"], b["bytes_moved"])
        text = run(*args)
        for words in ("plans made by runs", "verdicts by shape class", "moved unfused"):
            self.assertIn(words, text)
        p = json.loads(run("bench", "plan", "--json"))
        self.assertGreater(p["hits"], p["misses"])
        self.assertIn("look-ups in the cache", run("bench", "plan"))
        self.assertRegex(run("explain", self.model, "--shape", "image=1,3,32,32"), "[0-9]+ decided, [0-9]+ found in the cache")
        points = json.loads(run("scan", self.model, "--shape", "image=1,3,32,32", "--vary", "image:0=1..2", "--json"))["points"]
        self.assertGreater(points[-1]["plans_found"], 0)

    def test_regions_are_counted(self):
        product = ("matmul", "--m", "8200", "--n", "512", "--k", "16", "--epilogue", "add,relu", "--threads", "1")
        # A host whose memory is slow beside its caches cuts these rows into regions.
        slow = ("explain", *product, "--profile", "host:hbm_rate=0.5")
        edge = json.loads(run(*slow, "--expect", "hybrid", "--json"))[0]
        for region in edge["regions"]:
            self.assertEqual(region["blocks"], -(-region["rows"] // region["block"]))
        blocks = {v: sum(r["blocks"] for r in edge["regions"] if r["verdict"] == v) for v in ("fuse", "split")}
        self.assertIn(f"{blocks['fuse']} blocks fused, {blocks['split']} split", run(*slow))
        # What runs is planned for this one, which need not do so.
        hybrid = json.loads(run("explain", *product, "--json"))[0]["verdict"] == "hybrid"
        regions = json.loads(run("bench", *product, "--runs", "2", "--json"))["regions"]
        self.assertEqual(regions["calls"] > 0, hybrid)
        self.assertEqual(regions["blocks_fused"] + regions["blocks_split"] > regions["calls"], hybrid)

    def test_conversions_in_one_pass(self):
        args = ("bench", "transpose", "--x", "2,64,48,16", "--perm", "0,3,1,2", "--epilogue", "to_f16", "--runs", "1")
        b = json.loads(run(*args, "--json"))
        self.assertEqual((b["nodes_imported"], b["nodes_run"]), (2, 1))
        # 4 + 2 bytes an element instead of 4 + 4 and 4 + 2.
        self.assertEqual(b["bytes_moved"] * 14, b["unfused_bytes_moved"] * 6)
        self.assertRegex(run(*args), "moved unfused .* in 2 nodes: fusing and merging leave 43 %")
        self.assertIn("to_f32, to_f16, to_bf16", run("bench", "relu", "--x", "4", "--epilogue", "to_s4", ok=False))

    def test_a_graph_is_written_and_read_back(self):
        text = self.dir / "selftest.txt"
        run("explain", self.model, "--shape", "image=1,3,16,16", "--save", str(text))
        lines = text.read_text().splitlines()
        self.assertEqual(lines[0], "opsnn-graph 1")
        self.assertTrue(any(line.startswith('node "Conv"') for line in lines))
        again = self.dir / "again.txt"
        run("explain", str(text), "--shape", "image=1,3,16,16", "--save", str(again))
        self.assertEqual(again.read_text(), text.read_text())
        for model, out in ((self.model, "onnx_out"), (str(text), "text_out")):
            run("run", model, "--shape", "image=2,3,33,31", "--seed", "5", "--output", str(self.dir / out))
        same = json.loads(run("compare", str(self.dir / "onnx_out"), str(self.dir / "text_out"), "--json"))
        self.assertEqual(same["tensors"][0]["max_abs"], 0)
        text.write_text(text.read_text().replace('node "Conv"', 'node "Konv"', 1))
        self.assertRegex(run("run", str(text), ok=False), "line [0-9]+, .*allowed: the name of an operator")
        self.assertIn("none/x.txt", run("explain", self.model, "--save", f"{self.dir}/none/x.txt", ok=False))
        product = self.dir / "product.txt"
        args = ("explain", "matmul", "--m", "4", "--n", "5", "--k", "6", "--epilogue", "bias,gelu")
        run(*args, "--save", str(product))
        run("verify", str(product))

    def test_ffn(self):
        args = ("--m", "4096", "--k", "32", "--n", "128", "--threads", "1")
        run("verify", "ffn", "--m", "300", "--k", "32", "--n", "128", "--fusion", "force")
        fused = json.loads(run("explain", "ffn", *args, "--fusion", "force", "--traffic", "--json"))
        apart = json.loads(run("explain", "ffn", *args, "--fusion", "force", "--passes-off", "chained_products", "--traffic", "--json"))
        self.assertEqual((fused["units"]["cube"]["kernels"], apart["units"]["cube"]["kernels"]), (1, 2))
        self.assertEqual(fused["units"]["cube"]["operations"], apart["units"]["cube"]["operations"])
        self.assertIn("--k", run("bench", "ffn", "--m", "3", "--n", "4", ok=False))

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
        f = m["fragmentation"]
        self.assertEqual(f["lost_bytes"], m["arena_bytes"] - m["live_peak_bytes"])
        for holes in (f["at_peak"], f["most_scattered"]):
            self.assertGreaterEqual(holes["bytes"], holes["largest_bytes"])
            self.assertIn(holes["node"], [n["node"] for n in m["curve"]])
        self.assertEqual(f["at_peak"]["bytes"], f["lost_bytes"])
        self.assertGreaterEqual(m["idle_bytes"], m["idle_largest_bytes"])
        for words in ("fragmentation:", "holes of", "freed blocks that wait"):
            self.assertIn(words, run(*args))

    def test_bench_convolutions_by_rank(self):
        for op, x, w in (("conv1d", "1,4,9", "8,4,3"), ("conv2d", "1,4,9,9", "8,4,3,3"), ("conv3d", "1,4,5,6,7", "8,4,3,3,3")):
            self.assertIn(op, run("bench", op, "--x", x, "--w", w, "--pad", "1", "--epilogue", "bias,relu", "--runs", "1"))
        self.assertIn("--x", run("bench", "conv2d", "--x", "1,4,5,6,7", "--w", "8,4,3,3,3", ok=False))

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

    def test_verdicts_move_with_the_device(self):
        # A row of 32,000 logits with its mask fits 256 KiB of UB and not 192.
        args = ("explain", "add", "--x", "64,32000", "--epilogue", "softmax", "--profile", "910B1")
        d = json.loads(run(*args, "--diff", "910B1:ub_bytes=256K", "--json"))["different"]
        self.assertEqual([[e["verdict"] for e in edge["decisions"]] for edge in d], [["split", "fuse"]])
        # The buffers of A3's dies are those of A2, and so are its verdicts; 950's are others.
        conv = ("explain", "conv2d", "--x", "1,384,20,20", "--w", "384,1,5,5", "--groups", "384", "--pad", "2", "--epilogue",
                "bias,hardswish", "--profile", "A2")
        self.assertEqual(json.loads(run(*conv, "--diff", "A3", "--json"))["different"], [])
        self.assertNotEqual(json.loads(run(*conv, "--diff", "950PR", "--json"))["different"], [])

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

    def test_ops_has_a_text_for_every_function(self):
        text = run("ops", "aclnnFlashAttentionScore")
        self.assertIn("Attention for training without the matrix of scores", text)
        self.assertIn("built on the operator", text)
        self.assertNotIn("Empty tensors", text)
        self.assertIn("Solve a triangular linear system", run("ops", "aclnnTriangularSolve"))
        self.assertNotIn("\n    ", run("ops"))  # of all of them the table alone
        rows = json.loads(run("ops", "--json"))
        functions = {o["api"]: o["doc"] for o in rows if o["api"]}
        self.assertEqual([api for api, doc in functions.items() if not doc], [])
        for one, other in (("aclnnClampMax", "aclnnClampTensor"), ("aclnnIsInf", "aclnnIsPosInf"), ("aclnnSubs", "aclnnRsub"),
                           ("aclnnLeftShift", "aclnnRightShift"), ("aclnnLayerNorm", "aclnnLayerNormBackward")):
            self.assertNotEqual(functions[one], functions[other])
        forward = [o for o in rows if o["operator"] == "FeedForward" and not o["api"]][0]
        self.assertEqual([v["name"] for v in forward["variants"]], ["blocks of rows", "one product behind the other"])

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

    def test_tile_buckets(self):
        args = ("tile", "--buckets", "--profile", "910B1", "--dtype", "f16", "--pools")
        t = json.loads(run(*args, "--json"))
        self.assertEqual([b["size"] for b in t["buckets"]], [256, 512, 1024, 2048])
        self.assertTrue(all(b["fits"] for b in t["buckets"]))
        self.assertNotIn("bucket", t)
        t = json.loads(run(*args, "--m", "300", "--n", "257", "--k", "200", "--json"))
        self.assertEqual(t["bucket"], [512, 512, 256])
        same = json.loads(run(*args, "--m", "512", "--n", "512", "--k", "256", "--json"))
        self.assertEqual([same["found"][s] for s in ("tile_m", "tile_n", "tile_k")], [t["found"][s] for s in ("tile_m", "tile_n", "tile_k")])
        self.assertEqual(same["found"], same["own"])
        # One look-up beside those of the table is solved for, and one of the table's sizes is found.
        self.assertEqual((t["cache"]["hits"], t["cache"]["misses"], t["cache"]["entries"]), (0, 5, 5))
        cube = json.loads(run(*args, "--m", "1000", "--n", "800", "--k", "600", "--json"))
        self.assertEqual((cube["cache"]["hits"], cube["cache"]["misses"]), (1, 4))
        text = run(*args, "--m", "5000", "--n", "300", "--k", "64")
        self.assertIn("counts as 2048x512x256", text)
        self.assertIn("tiles solved for", text)
        self.assertIn("allowed with buckets", run(*args, "--m", "300", ok=False))
        self.assertIn("allowed: one of them", run(*args, "--tile", "1,2,3", ok=False))

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

    def test_map_shows_the_window(self):
        args = ("map", "--n", "1024", "--from", "64", "--to", "4096", "--steps", "1", "--profile", "910B1")
        m = json.loads(run(*args, "--json"))
        self.assertEqual((m["points"], m["file"]), (49, None))
        w = m["window"]
        self.assertTrue(0 < w["points"] < 49)
        self.assertTrue(w["m"][0] <= w["best"]["m"] <= w["m"][1])
        self.assertGreaterEqual(w["best"]["gain_percent"], 5)
        text = run(*args)
        rows = re.findall(r"^ +[0-9]+ ([-+x~#]+)$", text, flags=re.M)
        self.assertEqual([len(r) for r in rows], [7] * 7)
        self.assertEqual(sum(r.count("#") for r in rows), w["points"])
        self.assertIn(f"window: fusing gains 5 % or more in {w['points']} of 49 points", text)
        self.assertIn("fusing gains 100 % nowhere", run(*args, "--gain", "100"))
        self.assertGreater(json.loads(run(*args, "--gain", "1", "--json"))["window"]["points"], w["points"])
        out = self.dir / "window.svg"
        run(*args, "--out", str(out))
        self.assertEqual(out.read_text().count("<circle"), w["points"])
        self.assertIn("--gain", run(*args, "--gain", "-1", ok=False))

    def test_bench_with_fusion_off_has_one_form(self):
        args = ("bench", "matmul", "--m", "16", "--n", "16", "--k", "16", "--epilogue", "relu", "--runs", "1", "--phases")
        for more, env in ((("--fusion", "off"), {}), ((), {"OPSNN_FUSION": "off"})):
            text = run(*args, *more, env=env)
            self.assertEqual(re.findall(r"^  (fused|unfused) +median", text, flags=re.M), ["unfused"])
            b = json.loads(run(*args, *more, "--json", env=env))
            self.assertIsNone(b["fused_ms"])
            self.assertEqual(len(b["before_us"]), 1)
        self.assertNotIn("takes -", run(*args))

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

    def test_ops(self):
        ops = json.loads(run("ops", "--json"))
        self.assertTrue(all({"api", "operator", "status", "dtypes"} <= o.keys() for o in ops))
        relu = [o for o in ops if o["api"] == "aclnnRelu"]
        self.assertEqual(relu[0]["status"], "implemented")
        self.assertIn("Softmax", run("ops", "Softmax"))

    def test_explain_needs_no_memory_for_weights(self):
        edges = json.loads(run("explain", "matmul", "--m", "1000000", "--n", "1000000", "--k", "1000000", "--epilogue",
                               "bias,relu", "--json"))
        self.assertGreater(len(edges), 0)
        # The answer does not depend on whether the weights have values.
        chains = [[(e["chain"], e["verdict"]) for e in json.loads(
            run("explain", "matmul", "--m", "512", "--n", size, "--k", size, "--epilogue", "bias,relu", "--json"))]
            for size in ("2800", "3000")]
        self.assertEqual(chains[0], chains[1])

    def test_ops_has_a_header(self):
        self.assertRegex(run("ops", "Softmax"), "^C function +operator +status +element types")


if __name__ == "__main__":
    cli_tool.main()
