// Mean and variance of a row, for normalisations.
//
// The rounding of the mean is as large as the spread of data that lie far from 0 (10000 + i / 1024 in f32),
// so its error is measured and taken out: with d = x - mean, s = mean(d) is what the mean misses,
//   centred = d - s,   variance = mean(d^2) - s^2.
// s is at most half an ulp of the mean, so nothing cancels in the difference. Where s^2 is not below
// mean(d^2) (an overflow, or rows constant but for rounding) mean(d^2) stands, and the variance is never
// negative.
//
// Values of 11 bits (f16, bf16) do without: wherever they lie, their steps are 2^13 times the rounding of an
// f32 mean, and sums of values that have one exponent are exact. Their centred values are d, their variance
// is mean(d^2).
#ifndef OPSNN_PROGRAM_MOMENTS_H_
#define OPSNN_PROGRAM_MOMENTS_H_

#include "program/program.h"

namespace opsnn {

struct RowMoments {
  SlotId mean;      // as rounded
  SlotId centred;   // x - mean, without the mean's rounding
  SlotId variance;  // of the population
};

// Of f16 or bf16 values.
inline RowMoments AddNarrowRowMoments(ProgramBuilder& b, SlotId x) {
  RowMoments m;
  m.mean = b.Unary(StageOp::kRowMean, x);
  m.centred = b.Binary(StageOp::kSub, x, m.mean);
  m.variance = b.Unary(StageOp::kRowMean, b.Unary(StageOp::kSquare, m.centred));
  return m;
}
// missed_by_mean, if asked for: the mean without its rounding is mean + *missed_by_mean.
inline RowMoments AddRowMoments(ProgramBuilder& b, SlotId x, SlotId* missed_by_mean = nullptr) {
  RowMoments m;
  m.mean = b.Unary(StageOp::kRowMean, x);
  const SlotId d = b.Binary(StageOp::kSub, x, m.mean);
  const SlotId squares = b.Unary(StageOp::kRowMean, b.Unary(StageOp::kSquare, d));
  const SlotId missed = b.Unary(StageOp::kRowMean, d);
  const SlotId excess = b.Unary(StageOp::kSquare, missed);
  m.variance = b.Ternary(StageOp::kSelect, b.Binary(StageOp::kLess, excess, squares),
                         b.Binary(StageOp::kSub, squares, excess), squares);
  m.centred = b.Binary(StageOp::kSub, d, missed);
  if (missed_by_mean) *missed_by_mean = missed;
  return m;
}

}  // namespace opsnn

#endif  // OPSNN_PROGRAM_MOMENTS_H_
