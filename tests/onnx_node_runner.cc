// Runs many small ONNX models with their inputs and expected outputs in one process.
//
// usage: onnx_node_runner FOLDER
// FOLDER/cases.txt has a line per case: its name, the relative and the absolute tolerance, whether values are
// compared (0: shape and dtype only), the numbers of inputs and outputs. FOLDER/<name>/ holds model.onnx,
// in_<k>.npy and out_<k>.npy in the order of the model. Prints a line per case: its name, a tab, then "ok"
// or "failed: <why>".
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "opsnn/model.h"

namespace {

using opsnn::Code;
using opsnn::DType;
using opsnn::Feeds;
using opsnn::Model;
using opsnn::Status;
using opsnn::Tensor;

struct Case {
  std::string name, folder;
  double rtol = 0, atol = 0;
  bool values = true;
  size_t inputs = 0, outputs = 0;
};

std::string Text(const std::vector<int64_t>& dims) {
  std::string s = "[";
  for (size_t i = 0; i < dims.size(); ++i) s += (i ? "," : "") + std::to_string(dims[i]);
  return s + "]";
}

// bf16 has no NumPy type: files hold it as f32, whose upper half it is.
opsnn::Result<Tensor> Load(const std::string& path, DType want) {
  opsnn::Result<Tensor> t = opsnn::LoadNpy(path);
  if (!t.ok() || want != DType::kBF16 || t->dtype() != DType::kF32) return t;
  opsnn::Result<Tensor> half = Tensor::Make(DType::kBF16, t->dims());
  if (!half.ok()) return half;
  for (int64_t i = 0; i < t->size(); ++i) half->data<uint16_t>()[i] = t->data<uint16_t>()[2 * i + 1];
  return half;
}

Status Differs(size_t output, const std::string& what) {
  return Status(Code::kInvalid, "output " + std::to_string(output) + " " + what);
}

Status Compare(const Case& c, size_t k, const Tensor& got, const Tensor& want) {
  if (got.dims() != want.dims()) {
    return Differs(k, "has shape " + Text(got.dims()) + ", expected " + Text(want.dims()));
  }
  if (got.dtype() != want.dtype()) {
    return Differs(k, std::string("has dtype ") + Name(got.dtype()) + ", expected " + Name(want.dtype()));
  }
  if (!c.values) return opsnn::OkStatus();
  const std::vector<double> a = got.ToDoubles(), b = want.ToDoubles();
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (std::fabs(a[i] - b[i]) <= c.atol + c.rtol * std::fabs(b[i])) continue;
    return Differs(k, "element " + std::to_string(i) + " is " + std::to_string(a[i]) + ", expected " +
                          std::to_string(b[i]));
  }
  return opsnn::OkStatus();
}

Status RunCase(const Case& c) {
  opsnn::Result<Model> model = Model::Load(c.folder + "/model.onnx");
  if (!model.ok()) return model.status();
  if (model->inputs().size() != c.inputs) return Status(Code::kInvalid, "the model lost an input");
  Feeds feeds;
  for (size_t k = 0; k < c.inputs; ++k) {
    const opsnn::ValueInfo& info = model->inputs()[k];
    opsnn::Result<Tensor> t = Load(c.folder + "/in_" + std::to_string(k) + ".npy", info.dtype);
    if (!t.ok()) return t.status();
    feeds.emplace(info.name, *t);
  }
  opsnn::Result<std::vector<Tensor>> got = model->Run(feeds);
  if (!got.ok()) return got.status();
  if (got->size() != c.outputs) return Status(Code::kInvalid, "the model lost an output");
  for (size_t k = 0; k < c.outputs; ++k) {
    opsnn::Result<Tensor> want = Load(c.folder + "/out_" + std::to_string(k) + ".npy", (*got)[k].dtype());
    if (!want.ok()) return want.status();
    if (Status s = Compare(c, k, (*got)[k], *want); !s.ok()) return s;
  }
  return opsnn::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: onnx_node_runner FOLDER\n"), 1;
  std::ifstream list(std::string(argv[1]) + "/cases.txt");
  Case c;
  while (list >> c.name >> c.rtol >> c.atol >> c.values >> c.inputs >> c.outputs) {
    c.folder = std::string(argv[1]) + "/" + c.name;
    const Status s = RunCase(c);
    std::printf("%s\t%s\n", c.name.c_str(), s.ok() ? "ok" : ("failed: " + s.message()).c_str());
    std::fflush(stdout);  // a crash then names the case behind the last line
  }
  return 0;
}
