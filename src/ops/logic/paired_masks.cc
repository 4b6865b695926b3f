#include <cstring>

#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "PairedMasks";

Status Infer(op::InferContext& c) {
  Dims dims;
  for (const op::TensorDesc* mask : c.inputs) {
    OPSNN_RETURN_IF_ERROR(CheckMaxRank(kOp, dims.rank() + mask->dims.rank()));
    for (const int64_t d : mask->dims) dims.push_back(d);
  }
  return SetOutput(c, Desc(DType::kBool, dims));
}

// One mask, read from front to back.
struct Reader {
  const uint8_t* mask;
  int64_t size;
  int64_t count = 0;  // positions that it names
  int64_t at = -1;    // the last that was read

  void Next() {
    while (mask[++at] == 0) {
    }
  }
};

// How many positions there are in common; below 0 where the masks do not go together.
int64_t CommonCount(const std::vector<Reader>& masks) {
  int64_t common = 1;
  for (const Reader& m : masks) {
    if (m.count == 1 || m.count == common) continue;
    if (common != 1) return -1;
    common = m.count;
  }
  return common;
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  std::vector<int64_t> sizes;
  for (const op::TensorDesc* mask : c.inputs) sizes.push_back(NumElements(mask->dims));
  const int64_t all = NumElements(c.outputs[0].dims);
  const auto run = [sizes, all](const op::RunArgs& args) -> Status {
    std::vector<Reader> masks;
    std::string counts;
    for (size_t i = 0; i < sizes.size(); ++i) {
      Reader m{static_cast<const uint8_t*>(args.inputs[i]), sizes[i]};
      for (int64_t k = 0; k < m.size; ++k) m.count += m.mask[k] != 0;
      counts += (i ? ", " : "") + std::to_string(m.count);
      masks.push_back(m);
    }
    const int64_t common = CommonCount(masks);
    if (common < 0) {
      return InvalidArgument("%s: the masks name %s elements; allowed: as many each, or one", kOp,
                             counts.c_str());
    }
    auto* y = static_cast<uint8_t*>(args.outputs[0]);
    if (all > 0) std::memset(y, 0, static_cast<size_t>(all));
    for (int64_t k = 0; k < common; ++k) {
      int64_t place = 0;
      for (Reader& m : masks) {
        if (k == 0 || m.count != 1) m.Next();
        place = place * m.size + m.at;
      }
      y[place] = 1;
    }
    return OkStatus();
  };
  return Staged(c, MakeKernel("scan", run));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(PairedMasks) {
  def.infer = Infer;
  def.plan = Plan;
}
