#include "vector/canonical_programs.h"

#include "program/moments.h"

namespace opsnn::vector {

using enum StageOp;

Program LayerNormProgram(const NormOptions& o) {
  ProgramBuilder b;
  const SlotId x = b.Input();
  const SlotId gamma = o.gamma ? b.Input() : kNoSlot;
  const SlotId beta = o.beta ? b.Input() : kNoSlot;
  const auto [mean, centred, variance] = o.narrow ? AddNarrowRowMoments(b, x) : AddRowMoments(b, x);
  const SlotId rstd = b.Unary(kRsqrt, b.Unary(kAffine, variance, 1, o.eps));
  SlotId y = b.Binary(kMul, centred, rstd);
  if (o.gamma) y = b.Binary(kMul, y, gamma);
  if (o.beta) y = b.Binary(kAdd, y, beta);
  b.Output(y);
  if (o.statistics) b.Output(mean), b.Output(rstd);
  return std::move(b).Build();
}

Program RmsNormProgram(const NormOptions& o) {
  ProgramBuilder b;
  const SlotId x = b.Input();
  const SlotId gamma = o.gamma ? b.Input() : kNoSlot;
  const SlotId mean_square = b.Unary(kRowMean, b.Unary(kSquare, x));
  const SlotId rstd = b.Unary(kRsqrt, b.Unary(kAffine, mean_square, 1, o.eps));
  SlotId y = b.Binary(kMul, x, rstd);
  if (o.gamma) y = b.Binary(kMul, y, gamma);
  b.Output(y);
  if (o.statistics) b.Output(rstd);
  return std::move(b).Build();
}

Program SoftmaxProgram() {
  ProgramBuilder b;
  const SlotId x = b.Input();
  const SlotId e = b.Unary(kExp, b.Binary(kSub, x, b.Unary(kRowMax, x)));
  b.Output(b.Binary(kMul, e, b.Unary(kReciprocal, b.Unary(kRowSum, e))));
  return std::move(b).Build();
}

Program LogSoftmaxProgram() {
  ProgramBuilder b;
  const SlotId x = b.Input();
  const SlotId d = b.Binary(kSub, x, b.Unary(kRowMax, x));
  b.Output(b.Binary(kSub, d, b.Unary(kLog, b.Unary(kRowSum, b.Unary(kExp, d)))));
  return std::move(b).Build();
}

RowTemplate RecogniseRowTemplate(const Program& p) {
  RowTemplate t;
  if (!p.HasRowReduction()) return t;  // most programs: building the others to compare with takes a while
  if (p == SoftmaxProgram()) return {RowFamily::kSoftmax, {}};
  if (p == LogSoftmaxProgram()) return {RowFamily::kLogSoftmax, {}};
  for (const Stage& s : p.stages) {
    if (s.op == kAffine) t.norm.eps = s.imm[1];
  }
  // The options decide the inputs and outputs; try the few combinations.
  for (int bits = 0; bits < 16; ++bits) {
    NormOptions o{t.norm.eps, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0};
    if (p == LayerNormProgram(o)) return {RowFamily::kLayerNorm, o};
    if (!o.beta && !o.narrow && p == RmsNormProgram(o)) return {RowFamily::kRmsNorm, o};
  }
  return {};
}

}  // namespace opsnn::vector
