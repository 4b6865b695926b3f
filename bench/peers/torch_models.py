#!/usr/bin/env python3
"""Times ONNX models under PyTorch, in the fastest of its forms.

    torch_models.py MODEL.onnx --shape x=1,3,640,640 [--threads 1] [--runs 7] [--forms freeze,nhwc,mkldnn,compile]

The model is rebuilt from PyTorch's functions for these shapes (decomposed HardSwish as the one function it is), then
traced and frozen, which folds batch norms and constants into convolutions:
  freeze   as traced           nhwc     channels last
  mkldnn   optimize_for_inference, blocked layouts of oneDNN
  compile  torch.compile with frozen weights, which needs a C++ compiler
Prints one line per form: name, median and minimum in ms; forms that fail print why. The forms run in turns.
"""
import argparse
import statistics
import time

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper


def attributes(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def pair_pads(pads, rank):
    """ONNX pads (all begins, all ends) as symmetric ones, or as the list F.pad wants."""
    pads = list(pads or [0] * 2 * rank)
    begins, ends = pads[:rank], pads[rank:]
    if begins == ends:
        return begins, None
    flat = []
    for b, e in zip(reversed(begins), reversed(ends)):
        flat += [b, e]
    return [0] * rank, flat


class Rebuilt(torch.nn.Module):
    """Walks the ONNX graph; while it is traced, sizes and shape arithmetic are numpy and thus constants."""

    def __init__(self, path):
        super().__init__()
        graph = onnx.load(path).graph
        self.nodes = list(graph.node)
        self.outputs = [o.name for o in graph.output]
        self.inputs = [i.name for i in graph.input]
        self.numbers = {}  # what nodes may read as numpy
        self.weights = {}
        for t in graph.initializer:
            self.constant(t.name, numpy_helper.to_array(t))
        for n in self.nodes:
            if n.op_type == "Constant":
                self.constant(n.output[0], numpy_helper.to_array(attributes(n)["value"]))
        self.nodes = [n for n in self.nodes if n.op_type != "Constant"]
        self.readers = {}
        for n in self.nodes:
            for i in n.input:
                self.readers.setdefault(i, []).append(n)
        self.swish = self.find_hardswish()

    def constant(self, name, array):
        self.numbers[name] = array
        if array.dtype == np.float32:
            key = "w" + str(len(self.weights))
            self.register_buffer(key, torch.from_numpy(array.copy()))
            self.weights[name] = key

    def find_hardswish(self):
        """Last node of x * clip(x + 3, 0, 6) / 6 -> x, and the nodes before it that are not run."""
        made = {o: n for n in self.nodes for o in n.output}
        found, skip = {}, set()
        for n in self.nodes:
            mul = made.get(n.input[0]) if n.op_type == "Div" else None
            if mul is None or mul.op_type != "Mul" or self.numbers.get(n.input[1], np.zeros(2)).size != 1:
                continue
            for x, c in (mul.input, reversed(list(mul.input))):
                clip = made.get(c)
                add = made.get(clip.input[0]) if clip is not None and clip.op_type == "Clip" else None
                if add is not None and add.op_type == "Add" and x in add.input:
                    found[n.output[0]] = x
                    skip |= {mul.output[0], clip.output[0], add.output[0]}
                    break
        self.skipped = skip
        return found

    def forward(self, *args):
        v = dict(zip(self.inputs, args))

        def tensor(name):
            if name in v:
                return torch.as_tensor(v[name])
            return getattr(self, self.weights[name]) if name in self.weights else torch.as_tensor(self.numbers[name])

        def number(name):
            if name in v:
                return v[name] if isinstance(v[name], np.ndarray) else None
            return self.numbers.get(name)

        for n in self.nodes:
            out = n.output[0]
            if out in self.skipped:
                continue
            if out in self.swish:
                v[out] = F.hardswish(tensor(self.swish[out]))
                continue
            a = attributes(n)
            known = [number(i) for i in n.input if i]
            folded = self.fold(n, a, known, v)
            if folded is not None:
                v[out] = folded
                continue
            result = getattr(self, "do_" + n.op_type)(n, a, tensor, number)
            for name, value in zip(n.output, result if isinstance(result, (list, tuple)) else [result]):
                v[name] = value
        r = [v[o] for o in self.outputs]
        return r[0] if len(r) == 1 else tuple(r)

    def fold(self, n, a, known, v):
        if n.op_type == "Shape" and n.input[0] in v:
            return np.array(list(v[n.input[0]].shape), dtype=np.int64)
        if any(k is None for k in known) or n.op_type not in ("Slice", "Concat", "Cast", "Gather", "Unsqueeze", "Mul"):
            return None
        if n.op_type == "Slice":
            begin, end = (known[1], known[2]) if len(known) > 2 else (a["starts"], a["ends"])
            return known[0][int(begin[0]):int(end[0])]
        if n.op_type == "Concat":
            return np.concatenate([np.atleast_1d(k) for k in known], a["axis"])
        if n.op_type == "Cast":
            return known[0].astype(onnx.helper.tensor_dtype_to_np_dtype(a["to"]))
        return None

    # -- one function per operator

    def do_Conv(self, n, a, t, num):
        x, w = t(n.input[0]), t(n.input[1])
        rank = w.dim() - 2
        pads, flat = pair_pads(a.get("pads"), rank)
        x = F.pad(x, flat) if flat else x
        f = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[rank]
        b = t(n.input[2]) if len(n.input) > 2 and n.input[2] else None
        return f(x, w, b, a.get("strides", [1] * rank), pads, a.get("dilations", [1] * rank), a.get("group", 1))

    def do_ConvTranspose(self, n, a, t, num):
        b = t(n.input[2]) if len(n.input) > 2 and n.input[2] else None
        pads, _ = pair_pads(a.get("pads"), 2)
        return F.conv_transpose2d(t(n.input[0]), t(n.input[1]), b, a.get("strides", [1, 1]), pads,
                                  a.get("output_padding", [0, 0]), a.get("group", 1), a.get("dilations", [1, 1]))

    def do_BatchNormalization(self, n, a, t, num):
        x, g, b, m, s = (t(i) for i in n.input)
        return F.batch_norm(x, m, s, g, b, False, 0, a.get("epsilon", 1e-5))

    def do_Clip(self, n, a, t, num):
        lo = float(num(n.input[1])) if len(n.input) > 1 and n.input[1] else a.get("min")
        hi = float(num(n.input[2])) if len(n.input) > 2 and n.input[2] else a.get("max")
        return F.relu6(t(n.input[0])) if (lo, hi) == (0, 6) else torch.clamp(t(n.input[0]), lo, hi)

    def do_MaxPool(self, n, a, t, num):
        pads, flat = pair_pads(a.get("pads"), 2)
        x = F.pad(t(n.input[0]), flat, value=float("-inf")) if flat else t(n.input[0])
        return F.max_pool2d(x, a["kernel_shape"], a.get("strides"), pads, 1, bool(a.get("ceil_mode", 0)))

    def do_AveragePool(self, n, a, t, num):
        pads, _ = pair_pads(a.get("pads"), 2)
        return F.avg_pool2d(t(n.input[0]), a["kernel_shape"], a.get("strides"), pads, bool(a.get("ceil_mode", 0)),
                            bool(a.get("count_include_pad", 0)))

    def do_Resize(self, n, a, t, num):
        scales = num(n.input[2]) if len(n.input) > 2 else None
        mode = a.get("mode", b"nearest").decode()
        kind = {"nearest": {}, "linear": {"align_corners": a.get("coordinate_transformation_mode") == b"align_corners"}}
        return F.interpolate(t(n.input[0]), scale_factor=[float(s) for s in scales[2:]],
                             mode="bilinear" if mode == "linear" else mode, **kind[mode])

    def do_ReduceMean(self, n, a, t, num):
        return torch.mean(t(n.input[0]), list(a["axes"]), bool(a.get("keepdims", 1)))

    def do_Slice(self, n, a, t, num):
        x = t(n.input[0])
        begins, ends = (num(n.input[1]), num(n.input[2])) if len(n.input) > 2 else (a["starts"], a["ends"])
        axes = num(n.input[3]) if len(n.input) > 3 else a.get("axes", range(len(begins)))
        for b, e, axis in zip(begins, ends, axes):
            size = x.shape[int(axis)]
            b, e = (int(i) + size if i < 0 else min(int(i), size) for i in (b, e))
            x = x.narrow(int(axis), b, e - b)
        return x

    def do_Squeeze(self, n, a, t, num):
        x = t(n.input[0])
        axes = a.get("axes") or num(n.input[1])
        for axis in sorted((int(i) % x.dim() for i in axes), reverse=True):
            x = x.squeeze(axis)
        return x

    def do_Reshape(self, n, a, t, num):
        x = t(n.input[0])
        return x.reshape([x.shape[i] if s == 0 else int(s) for i, s in enumerate(num(n.input[1]))])

    def do_Gemm(self, n, a, t, num):
        x, w = t(n.input[0]), t(n.input[1])
        w = w if a.get("transB", 0) else w.t()
        return F.linear(x, w, t(n.input[2]))

    def do_Softmax(self, n, a, t, num):
        return torch.softmax(t(n.input[0]), a.get("axis", -1))

    def do_HardSigmoid(self, n, a, t, num):
        x, alpha, beta = t(n.input[0]), a.get("alpha", 0.2), a.get("beta", 0.5)
        if abs(alpha - 1 / 6) < 1e-4 and beta == 0.5:
            return F.hardsigmoid(x)
        return torch.clamp(x * alpha + beta, 0, 1)

    def do_Concat(self, n, a, t, num):
        return torch.cat([t(i) for i in n.input], a["axis"])

    def do_Transpose(self, n, a, t, num):
        return t(n.input[0]).permute(a["perm"])

    def do_GlobalAveragePool(self, n, a, t, num):
        return F.adaptive_avg_pool2d(t(n.input[0]), 1)

    def do_Flatten(self, n, a, t, num):
        return torch.flatten(t(n.input[0]), a.get("axis", 1))

    def do_Cast(self, n, a, t, num):
        kind = onnx.helper.tensor_dtype_to_np_dtype(a["to"])
        return t(n.input[0]).to(torch.from_numpy(np.zeros(1, kind)).dtype)

    do_Relu = lambda self, n, a, t, num: F.relu(t(n.input[0]))
    do_Sigmoid = lambda self, n, a, t, num: torch.sigmoid(t(n.input[0]))
    do_Sqrt = lambda self, n, a, t, num: torch.sqrt(t(n.input[0]))
    do_Add = lambda self, n, a, t, num: t(n.input[0]) + t(n.input[1])
    do_Sub = lambda self, n, a, t, num: t(n.input[0]) - t(n.input[1])
    do_Mul = lambda self, n, a, t, num: t(n.input[0]) * t(n.input[1])
    do_Div = lambda self, n, a, t, num: t(n.input[0]) / t(n.input[1])
    do_Pow = lambda self, n, a, t, num: torch.pow(t(n.input[0]), t(n.input[1]))
    do_MatMul = lambda self, n, a, t, num: torch.matmul(t(n.input[0]), t(n.input[1]))


def build(form, model, x):
    if form == "nhwc":
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    if form == "compile":
        import torch._inductor.config as config
        config.freezing = True
        compiled = torch.compile(model)
        return lambda: compiled(x)
    traced = torch.jit.trace(model, x, check_trace=False)
    frozen = torch.jit.freeze(traced)
    if form == "mkldnn":
        frozen = torch.jit.optimize_for_inference(frozen)
    return lambda: frozen(x)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model")
    p.add_argument("--shape", required=True)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--runs", type=int, default=7)
    p.add_argument("--forms", default="freeze,nhwc,mkldnn")
    p.add_argument("--out", help="writes the first form's output as .npy, its input as OUT.in.npy")
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    torch._C._jit_set_texpr_fuser_enabled(False)  # without LLVM its kernels are interpreted
    torch.manual_seed(0)
    dims = [int(d) for d in a.shape.split("=")[1].split(",")]
    x = torch.rand(dims) * 2 - 1
    forms = {}
    with torch.inference_mode():
        for form in a.forms.split(","):
            try:
                f = build(form, Rebuilt(a.model).eval(), x)
                for _ in range(3):
                    y = f()
                forms[form] = f
            except Exception as e:  # a form that PyTorch cannot build is no peer
                print(form, "failed:", str(e).splitlines()[0])
            if a.out and form in forms:
                np.save(a.out, y.numpy())
                np.save(a.out.replace(".npy", ".in.npy"), x.numpy())
                a.out = None
        ms = {form: [] for form in forms}
        for _ in range(a.runs):
            for form, f in forms.items():
                start = time.perf_counter()
                f()
                ms[form].append((time.perf_counter() - start) * 1e3)
    for form, list_ in ms.items():
        print(form, "median %.3f min %.3f" % (statistics.median(list_), min(list_)))


if __name__ == "__main__":
    main()
