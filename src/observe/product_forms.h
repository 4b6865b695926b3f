// The forms of a product with a pointwise chain, ready to be run and timed: fused, split, by regions, and the
// split form's two parts. What the judge's benches measure.
#ifndef OPSNN_OBSERVE_PRODUCT_FORMS_H_
#define OPSNN_OBSERVE_PRODUCT_FORMS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/status.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/regions.h"
#include "plan/judge.h"
#include "vector/run.h"

namespace opsnn::observe {

struct Chain {
  std::string name;
  Program program;
  int full_operands = 0;
};
// relu, gelu, add + relu, and one long enough to strain a block's slots.
std::vector<Chain> JudgedChains();

struct Point {
  int64_t m = 0, n = 0, k = 0, batch = 1;
};
plan::ContractionEdge EdgeOf(const Chain& chain, const Point& s, int threads);
std::string ShapeText(const Point& s);

double Median(std::vector<double> v);
// Medians of `runs` runs of each form in microseconds, measured in turns after one run each. Short ones are
// repeated within a run.
std::vector<double> MedianMicroseconds(const std::vector<std::function<void()>>& forms, int runs);

class ProductForms {
 public:
  ProductForms(const Chain& chain, const Point& s) : chain_(chain), s_(s) {}
  // Out of memory is an error: the largest of the judge's points takes 400 MiB.
  Status Prepare();
  Status SetRegions(const std::vector<plan::Region>& regions);  // before Hybrid

  void Fused() { gemm::Run(fused_); }
  void Hybrid() { gemm::RunRegions(hybrid_, {whole_.get(), chain_args_}, regions_, c_.as<float>()); }
  void Product() { gemm::Run(split_); }
  void Pass();
  void Split() {
    Product();
    Pass();
  }

 private:
  vector::EpilogueArg Whole(const AlignedBuffer& b) const {
    return {const_cast<void*>(b.data()), DType::kF32, s_.m * s_.n, 0, s_.n, 1};
  }
  Status Bind();

  const Chain& chain_;
  Point s_;
  // Each form has an output of its own: streaming stores would push the other's out of the caches.
  AlignedBuffer a_, b_, c_, out_, split_out_, hybrid_out_, other_;
  gemm::Params fused_, split_, hybrid_;
  std::shared_ptr<const vector::CompiledProgram> whole_, rest_;
  std::vector<vector::EpilogueArg> args_, hybrid_args_, chain_args_;
  std::vector<gemm::RowRegion> regions_;
};

}  // namespace opsnn::observe

#endif  // OPSNN_OBSERVE_PRODUCT_FORMS_H_
