#include "observe/variants.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>

#include "graph/prepared.h"

namespace opsnn::observe {
namespace {

constexpr VariantRow kRows[] = {
    {"MatMul", "gemm plain", "f64 or s32", "f64 64x64 64x64"},
    {"MatMul", "gemm packed", "B is a constant that is worth packing: more rows than are streamed",
     "f32 128x256 256x512c"},
    {"MatMul", "gemm gemv", "at most 8 rows: B is streamed once", "f32 4x512 512x512c"},
    {"MatMul", "gemm direct", "A, B and C stay in a core's own caches", "f32 64x64 64x64"},
    {"MatMul", "gemm stream",
     "9 to 14 rows (to 42 where rows of B are a multiple of 4 KiB apart) against a B beyond the caches",
     "f32 16x2048 2048x2048"},
    {"MatMul", "gemm panel", "everything else: B goes through packed panels", "f32 1024x1024 1024x1024"},
    {"Gemm", "+bias", "C is one row: it joins the store", "f32 128x256 256x512c 512c"},
    {"Gemm", "+program", "C is of another shape, or alpha or beta is not 1",
     "f32 128x256 256x512c 512c beta=0.5"},
    {"Conv", "depthwise", "one input channel per output channel", "f32 1x64x28x28 64x1x3x3c group=64"},
    {"Conv", "first layer", "at most 4 input channels, read as they are",
     "f32 1x3x64x64 32x3x3x3c strides=2,2"},
    {"Conv", "pointwise", "1x1 of stride 1: a product", "f32 1x64x28x28 64x64x1x1c"},
    {"Conv", "grouped", "several groups that do not fill blocks of channels",
     "f32 1x24x28x28 24x6x3x3c group=4"},
    {"Conv", "direct", "everything else: the window slides over blocks of channels",
     "f32 1x64x28x28 64x64x5x5c"},
    {"ConvTranspose", "transposed", "every call", "f32 1x64x14x14 64x32x2x2c strides=2,2"},
    {"Softmax", "row program", "the axis is the innermost one", "f32 64x1000"},
    {"Softmax", "column softmax", "the axis is another one: several columns side by side",
     "f32 64x1000 axis=0"},
    {"ReduceSum", "column accumulator", "the innermost axis stays", "f32 64x1000 2;0"},
    {"ReduceSum", "row program", "the innermost axis is summed", "f32 64x1000 2;1"},
    {"BatchNormalization", "scale and shift per channel", "f32, f16 and bf16",
     "f32 1x16x8x8 16c 16c 16c 16c"},
    {"BatchNormalization", "program", "f64", "f64 1x16x8x8 16 16 16 16"},
    {"Transpose", "runs", "the innermost axis stays: whole runs are copied", "f32 8x9x50 perm=1,0,2"},
    {"Transpose", "tile", "the innermost axis moves: tiles that fit L1", "f32 64x64 perm=1,0"},
    {"GlobalAveragePool", "global average pool", "f32, f16 and bf16", "f32 1x16x8x8"},
    {"GlobalAveragePool", "row program", "f64", "f64 1x16x8x8"},
    {"MaxPool", "max pool 3x3", "windows of any size; the name tells window and stride",
     "f32 1x16x9x9 kernel_shape=3,3"},
    {"MatMulInteger", "packed", "B is a constant", "u8 64x64 s8:64x64c"},
    {"MatMulInteger", "int8", "B is not", "u8 64x64 s8:64x64"},
};

// One operand of an example: "f32", "u8:4x4c", "512", or "2;1", a constant of s64 that holds a 1.
Result<op::TensorDesc> Operand(const std::string& text, DType dtype) {
  op::TensorDesc d;
  d.dtype = dtype;
  if (const size_t semicolon = text.find(';'); semicolon != std::string::npos) {
    const int64_t value = std::atoll(text.c_str() + semicolon + 1);
    d.dtype = DType::kS64;
    d.constant = HostTensor::From<int64_t>({1}, {value});
    d.dims = {1};
    return d;
  }
  std::string dims = text;
  if (const size_t colon = text.find(':'); colon != std::string::npos) {
    const auto type = DTypeFromName(text.substr(0, colon));
    if (!type) return InvalidArgument("example: unknown element type in \"%s\"", text.c_str());
    d.dtype = *type;
    dims = text.substr(colon + 1);
  }
  const bool constant = dims.back() == 'c';
  if (constant) dims.pop_back();
  std::stringstream sizes(dims);
  for (std::string size; std::getline(sizes, size, 'x');) d.dims.push_back(std::atoll(size.c_str()));
  if (!constant) return d;
  auto t = std::make_shared<HostTensor>(d.dtype, d.dims);
  if (!t->ok()) return Errorf(Code::kRuntime, "example: no memory for a constant");
  std::fill_n(t->as<char>(), t->bytes(), char{0});
  d.constant = std::move(t);
  return d;
}

op::AttrValue AttrOf(const std::string& text) {
  if (text.find('.') != std::string::npos) return std::strtod(text.c_str(), nullptr);
  if (text.find(',') == std::string::npos) return static_cast<int64_t>(std::atoll(text.c_str()));
  std::vector<int64_t> ints;
  std::stringstream list(text);
  for (std::string i; std::getline(list, i, ',');) ints.push_back(std::atoll(i.c_str()));
  return ints;
}

}  // namespace

std::span<const VariantRow> VariantRows() { return kRows; }

std::vector<VariantRow> VariantsOf(const op::OpDef& op) {
  std::vector<VariantRow> rows;
  for (const VariantRow& r : kRows) {
    if (op.name == r.op) rows.push_back(r);
  }
  if (!rows.empty()) return rows;
  if (op.program) return {{op.name.c_str(), "program", "every call: one pass over blocks in L1d", ""}};
  return {{op.name.c_str(), "", "every call: one kernel", ""}};
}

Result<std::string> PlanExample(const VariantRow& row) {
  const op::OpDef* def = op::FindOperator(row.op);
  if (!def) return InvalidArgument("example: there is no operator %s", row.op);
  std::stringstream words(row.example);
  std::string word;
  words >> word;
  const auto dtype = DTypeFromName(word);
  if (!dtype) return InvalidArgument("example: unknown element type \"%s\"", word.c_str());
  std::vector<op::TensorDesc> descs;
  op::Attrs attrs;
  while (words >> word) {
    if (const size_t eq = word.find('='); eq != std::string::npos) {
      attrs.Set(word.substr(0, eq), AttrOf(word.substr(eq + 1)));
      continue;
    }
    OPSNN_ASSIGN_OR_RETURN(op::TensorDesc d, Operand(word, *dtype));
    descs.push_back(std::move(d));
  }
  std::vector<const op::TensorDesc*> inputs;
  for (const op::TensorDesc& d : descs) inputs.push_back(&d);
  op::InferContext infer;
  infer.inputs = inputs;
  infer.attrs = &attrs;
  OPSNN_RETURN_IF_ERROR(op::Infer(*def, infer));
  graph::WeightPacks packs;
  op::PlanContext plan;
  plan.inputs = inputs;
  plan.outputs = infer.outputs;
  plan.attrs = &attrs;
  plan.packs = &packs;
  OPSNN_ASSIGN_OR_RETURN(const op::KernelPtr kernel, op::Plan(*def, plan));
  return kernel->variant();
}

}  // namespace opsnn::observe
