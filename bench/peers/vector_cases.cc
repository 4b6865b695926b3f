// The list of cases, and each as an ONNX model where ONNX has the operator.
#include <functional>
#include <numeric>

#include "bench/peers/onnx_bytes.h"
#include "bench/peers/vector_case.h"

namespace opsnn::peers {
namespace {

constexpr DType kF32 = DType::kF32, kBF16 = DType::kBF16, kS64 = DType::kS64;

VectorCase Map(const char* name, VectorOp op, const Shape& dims, DType t = kF32) {
  VectorCase c{name, op, {{"x", t, dims}}, {{"y", t, dims}}};
  if (op == VectorOp::kAdd) c.in.push_back({"x2", t, dims});
  return c;
}
VectorCase LayerNorm(const char* name, int64_t rows, int64_t cols, DType t) {
  VectorCase c = Map(name, VectorOp::kLayerNorm, {rows, cols}, t);
  c.in.push_back({"gamma", t, {cols}});
  c.in.push_back({"beta", t, {cols}});
  return c;
}
VectorCase BatchNormRelu(const char* name, const Shape& x) {
  VectorCase c = Map(name, VectorOp::kBatchNormRelu, x);
  for (const char* p : {"gamma", "beta", "mean", "variance"}) {
    c.in.push_back({p, kF32, {x[1]}, true});
    if (*p == 'v') c.in.back().low = 0.5, c.in.back().high = 2;
  }
  return c;
}
VectorCase Pool(const char* name, VectorOp op, const Shape& x, int64_t kernel, int64_t stride, int64_t pad) {
  const auto out = [&](int64_t s) { return (s + 2 * pad - kernel) / stride + 1; };
  VectorCase c{name, op, {{"x", kF32, x}}, {{"y", kF32, {x[0], x[1], out(x[2]), out(x[3])}}}};
  c.kernel = kernel, c.stride = stride, c.pad = pad;
  return c;
}
// The gradient of the output comes first, then what the forward pass saw.
VectorCase PoolGrad(const char* name, VectorOp op, const Shape& x, int64_t kernel, int64_t stride,
                    int64_t pad) {
  VectorCase c = Pool(name, op, x, kernel, stride, pad);
  std::swap(c.in[0], c.out[0]);
  c.in[0].name = "dy", c.out[0].name = "dx";
  c.in.push_back({"x", kF32, x});
  c.read = static_cast<double>(c.in[0].bytes());
  if (op == VectorOp::kMaxPoolGrad) c.in.push_back({"indices", DType::kS32, c.in[0].dims}), c.read *= 2;
  return c;
}
VectorCase Transpose(const char* name, const Shape& x, const Shape& perm) {
  Shape y;
  for (const int64_t p : perm) y.push_back(x[static_cast<size_t>(p)]);
  VectorCase c{name, VectorOp::kTranspose, {{"x", kF32, x}}, {{"y", kF32, y}}};
  c.perm = perm;
  return c;
}
VectorCase Gather(const char* name, int64_t rows, int64_t cols, int64_t count) {
  VectorCase c{name,
               VectorOp::kGather,
               {{"x", kF32, {rows, cols}}, {"i", kS64, {count}, false, rows}},
               {{"y", kF32, {count, cols}}}};
  c.read = c.written = static_cast<double>(c.out[0].bytes());
  return c;
}
VectorCase CrossEntropy(const char* name, VectorOp op, int64_t rows, int64_t classes) {
  VectorCase c{name, op, {{"x", kF32, {rows, classes}}, {"labels", kS64, {rows}, false, classes}}, {}};
  c.in[0].low = -8, c.in[0].high = 8;
  if (op == VectorOp::kCrossEntropy)
    c.out.push_back({"loss", kF32, {}});
  else
    c.out.push_back({"dx", kF32, {rows, classes}});
  return c;
}
VectorCase LayerNormGrad(const char* name, int64_t rows, int64_t cols) {
  return {name,
          VectorOp::kLayerNormGrad,
          {{"dy", kF32, {rows, cols}},
           {"x", kF32, {rows, cols}},
           {"mean", kF32, {rows, 1}, false, 0, -0.1, 0.1},
           {"rstd", kF32, {rows, 1}, false, 0, 1.5, 2},
           {"gamma", kF32, {cols}},
           {"beta", kF32, {cols}}},
          {{"dx", kF32, {rows, cols}}, {"dgamma", kF32, {cols}}, {"dbeta", kF32, {cols}}}};
}
VectorCase BatchNormGrad(const char* name, const Shape& x) {
  const Shape c{x[1]};
  return {name,
          VectorOp::kBatchNormGrad,
          {{"dy", kF32, x},
           {"x", kF32, x},
           {"gamma", kF32, c},
           {"mean", kF32, c, false, 0, -0.1, 0.1},
           {"rstd", kF32, c, false, 0, 1.5, 2}},
          {{"dx", kF32, x}, {"dgamma", kF32, c}, {"dbeta", kF32, c}}};
}
VectorCase ColumnSum(const char* name, VectorOp op, int64_t rows, int64_t cols) {
  return {name, op, {{"x", kF32, {rows, cols}}}, {{"y", kF32, {op == VectorOp::kColumnSum ? cols : rows}}}};
}

}  // namespace

int64_t Operand::size() const {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

// Sizes: "beyond" ones exceed what a core can expect of the last-level cache many times; "small" ones stay in
// a core's own.
std::vector<VectorCase> VectorCases() {
  using Op = VectorOp;
  std::vector<VectorCase> all = {
      Map("gelu_erf 16M f32", Op::kGeluErf, {1 << 24}),
      Map("gelu_tanh 16M f32", Op::kGeluTanh, {1 << 24}),
      Map("softmax 64x32000 f32", Op::kSoftmax, {64, 32000}),
      Map("softmax 64x32000 bf16", Op::kSoftmax, {64, 32000}, kBF16),
      LayerNorm("layernorm 65536x768 f32", 65536, 768, kF32),
      LayerNorm("layernorm 65536x768 bf16", 65536, 768, kBF16),
      BatchNormRelu("bn+relu NCHW 16x256x56x56", {16, 256, 56, 56}),
      Pool("max pool 3x3 s2 NCHW 16x64x112", Op::kMaxPool, {16, 64, 112, 112}, 3, 2, 1),
      Transpose("transpose 4096x4096", {4096, 4096}, {1, 0}),
      Transpose("NCHW to NHWC 16x256x56x56", {16, 256, 56, 56}, {0, 2, 3, 1}),
      Transpose("NHWC to NCHW 16x56x56x256", {16, 56, 56, 256}, {0, 3, 1, 2}),
      ColumnSum("column sums 4096x4096", Op::kColumnSum, 4096, 4096),
      Gather("gather 64k rows of 768", 50257, 768, 65536),
      CrossEntropy("cross entropy 256x50257", Op::kCrossEntropy, 256, 50257),
      CrossEntropy("cross entropy grad 256x50257", Op::kCrossEntropyGrad, 256, 50257),
      LayerNormGrad("layernorm grad 16384x768", 16384, 768),
      BatchNormGrad("batchnorm grad 32x64x56x56", {32, 64, 56, 56}),
      PoolGrad("max pool grad 3x3 s2 16x64x112", Op::kMaxPoolGrad, {16, 64, 112, 112}, 3, 2, 1),
      PoolGrad("avg pool grad 2x2 s2 16x64x112", Op::kAvgPoolGrad, {16, 64, 112, 112}, 2, 2, 0),
      Map("beyond relu 64M f32", Op::kRelu, {1 << 26}),
      Map("beyond relu 64M bf16", Op::kRelu, {1 << 26}, kBF16),
      Map("beyond add 64M f32", Op::kAdd, {1 << 26}),
      Map("beyond gelu_tanh 64M bf16", Op::kGeluTanh, {1 << 26}, kBF16),
      Map("beyond softmax 65536x1024 f32", Op::kSoftmax, {65536, 1024}),
      Map("beyond softmax 2Mx32 f32 (short)", Op::kSoftmax, {1 << 21, 32}),
      LayerNorm("beyond layernorm 87381x768 f32", 87381, 768, kF32),
      LayerNorm("beyond layernorm 1Mx64 f32 (short)", 1 << 20, 64, kF32),
      BatchNormRelu("beyond bn+relu 64x64x128x128", {64, 64, 128, 128}),
      Pool("beyond max pool 3x3 s2 64x64x128", Op::kMaxPool, {64, 64, 128, 128}, 3, 2, 1),
      Pool("beyond avg pool 2x2 s2 64x64x128", Op::kAvgPool, {64, 64, 128, 128}, 2, 2, 0),
      Transpose("beyond transpose 8192x8192", {8192, 8192}, {1, 0}),
      ColumnSum("beyond column sums 16384x4096", Op::kColumnSum, 16384, 4096),
      ColumnSum("beyond row sums 16384x4096", Op::kRowSum, 16384, 4096),
      Map("small relu 64K f32", Op::kRelu, {1 << 16}),
      Map("small add 64K f32", Op::kAdd, {1 << 16}),
      Map("small gelu_erf 64K f32", Op::kGeluErf, {1 << 16}),
      Map("small softmax 128x512 f32", Op::kSoftmax, {128, 512}),
      LayerNorm("small layernorm 128x768 f32", 128, 768, kF32),
      BatchNormRelu("small bn+relu 1x64x56x56", {1, 64, 56, 56}),
      Pool("small max pool 3x3 s2 1x64x56", Op::kMaxPool, {1, 64, 56, 56}, 3, 2, 1),
      Pool("small avg pool 2x2 s2 1x64x56", Op::kAvgPool, {1, 64, 56, 56}, 2, 2, 0),
      Transpose("small transpose 256x256", {256, 256}, {1, 0}),
      ColumnSum("small column sums 256x256", Op::kColumnSum, 256, 256),
  };
  for (VectorCase& c : all) {
    double in = 0, out = 0;
    for (const Operand& o : c.in) in += static_cast<double>(o.bytes());
    for (const Operand& o : c.out) out += static_cast<double>(o.bytes());
    if (c.read == 0) c.read = in;
    if (c.written == 0) c.written = out;
  }
  return all;
}

std::string OnnxBytes(const VectorCase& c, const VectorMemory& m) {
  std::vector<std::string> in;
  for (const Operand& o : c.in) in.push_back(o.name);
  const char* y = c.out[0].name;
  Message graph;
  const auto node = [&](const char* op, const std::vector<Message>& attributes = {}) {
    graph.Sub(1, Node(op, in, y, attributes));
  };
  const auto pool = [&](const char* op) {
    node(op, {Attribute("kernel_shape", Shape{c.kernel, c.kernel}),
              Attribute("strides", Shape{c.stride, c.stride}), Attribute("pads", Shape(4, c.pad))});
  };
  const auto sum = [&](int64_t axis) {
    graph.Sub(5, Tensor("axes", 7, {1}, &axis, sizeof axis));
    in.push_back("axes");
    node("ReduceSum", {Attribute("keepdims", int64_t{0})});
  };
  switch (c.op) {
    case VectorOp::kRelu:
      node("Relu");
      break;
    case VectorOp::kAdd:
      node("Add");
      break;
    case VectorOp::kGeluErf:
      node("Gelu");
      break;
    case VectorOp::kGeluTanh:
      node("Gelu", {Attribute("approximate", "tanh")});
      break;
    case VectorOp::kSoftmax:
      node("Softmax", {Attribute("axis", -1)});
      break;
    case VectorOp::kLayerNorm:
      node("LayerNormalization", {Attribute("axis", -1)});
      break;
    case VectorOp::kBatchNormRelu:
      graph.Sub(1, Node("BatchNormalization", in, "normal"));
      graph.Sub(1, Node("Relu", {"normal"}, y));
      break;
    case VectorOp::kMaxPool:
      pool("MaxPool");
      break;
    case VectorOp::kAvgPool:
      pool("AveragePool");
      break;
    case VectorOp::kTranspose:
      node("Transpose", {Attribute("perm", c.perm)});
      break;
    case VectorOp::kColumnSum:
      sum(0);
      break;
    case VectorOp::kRowSum:
      sum(1);
      break;
    case VectorOp::kGather:
      node("Gather");
      break;
    case VectorOp::kCrossEntropy:
      node("SoftmaxCrossEntropyLoss");
      break;
    default:
      return "";
  }
  graph.Text(2, "g");
  for (size_t i = 0; i < c.in.size(); ++i) {
    const Operand& o = c.in[i];
    const int type = kDTypeInfo[static_cast<int>(o.dtype)].onnx;
    if (o.constant)
      graph.Sub(5, Tensor(o.name, type, o.dims, m.in[i], o.bytes()));
    else
      graph.Sub(11, ValueInfo(o.name, type, o.dims));
  }
  graph.Sub(12, ValueInfo(y, kDTypeInfo[static_cast<int>(c.out[0].dtype)].onnx, c.out[0].dims));
  return OnnxModel(graph).bytes;
}

}  // namespace opsnn::peers
