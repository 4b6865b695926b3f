// Batch normalisation in parts: statistics gathered from several devices, and the form between quantised
// images.
#include <limits>

#include "capi/adapters/norm/norm_args.h"

namespace opsnn::capi {
namespace {

// A program over rows that are the devices of a channel, computed in f64: mean squares minus squared means
// cancel, and there is one row per channel only.
class ChannelRows {
 public:
  ChannelRows(int64_t devices, int64_t channels)
      : devices_(devices), channels_(channels), f_(b_, none_, kType) {}

  // Inputs: values per device and channel, per device, per channel. All before the first term.
  size_t PerDeviceAndChannel(const Operand& o) { return Add(Permuted(o, {1, 0}), false); }
  size_t PerDevice(const Operand& o) {
    return Add(WithView(o, {channels_, devices_}, {0, StridesOf(o.desc)[0]}), false);
  }
  size_t PerChannel(const Operand& o) { return Add(Each(o), true); }
  Term In(size_t i) {
    for (; converted_ < slots_.size(); ++converted_) {
      SlotId& s = slots_[converted_];
      if (types_[converted_] != kType) s = b_.Convert(s, kType);
    }
    return {&f_, slots_[i]};
  }
  void Output(Term t, const Operand& o) {
    if (!o.given()) return;
    b_.Output(t.slot);
    outputs_.push_back(Each(o));
  }
  // A number beside values per channel.
  Term Number(double v) { return {&f_, b_.Const(v, kType, true)}; }
  OpCall Call() && { return ProgramCall(std::move(b_).Build(), std::move(inputs_), std::move(outputs_), 1); }

 private:
  static constexpr ComputeType kType = ComputeType::kF64;
  Operand Each(const Operand& o) const { return WithView(o, {channels_, 1}, {StridesOf(o.desc)[0], 0}); }
  size_t Add(Operand o, bool per_row) {
    types_.push_back(ComputeTypeOf(o.desc.dtype));
    slots_.push_back(b_.Input(types_.back(), per_row));
    inputs_.push_back(std::move(o));
    return slots_.size() - 1;
  }

  int64_t devices_, channels_;
  ProgramBuilder b_;
  op::ProgramContext none_{};
  Formula f_;
  std::vector<SlotId> slots_;
  std::vector<ComputeType> types_;
  size_t converted_ = 0;
  std::vector<Operand> inputs_, outputs_;
};

// What the batch of all devices gives, stored and merged into the running statistics, whose variance is that
// of the sample.
struct Gathered {
  Term mean, variance, count;
  Operand mean_out, rstd_out, running_mean, running_variance;
  double momentum, eps;
};

void Store(ChannelRows* rows, const Gathered& g, size_t old_mean, size_t old_variance) {
  rows->Output(g.mean, g.mean_out);
  rows->Output(Rsqrt(Plus(g.variance, g.eps)), g.rstd_out);
  auto merge = [&](size_t old, Term fresh, const Operand& o) {
    if (o.given()) rows->Output(Times(rows->In(old), 1 - g.momentum) + Times(fresh, g.momentum), o);
  };
  merge(old_mean, g.mean, g.running_mean);
  merge(old_variance, g.variance * (g.count / Plus(g.count, -1)), g.running_variance);
}

Status RequireDevices(const Call& call, const Operand& o, int64_t devices, int64_t channels) {
  return RequireShape(call, o, {devices, channels}, "one row per device and one column per channel");
}

}  // namespace

// From sums and sums of squares.
Status Adapt_SyncBatchNormGatherStats(const Call& call, OpCall& out) {
  const Operand sum = Arg(call, "totalSum"), squares = Arg(call, "totalSquareSum"),
                count = Arg(call, "sampleCount"), mean = Arg(call, "mean"), variance = Arg(call, "variance"),
                batch_mean = Arg(call, "batchMean"), rstd = Arg(call, "batchInvstd");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, sum, 2, 2));
  const int64_t devices = sum.desc.dims[0], channels = sum.desc.dims[1];
  if (devices < 1)
    return BadValue(call, "totalSum", "of shape " + ToString(sum.desc.dims), "one row or more");
  OPSNN_RETURN_IF_ERROR(RequireLike(call, squares, sum));
  OPSNN_RETURN_IF_ERROR(RequireShape(call, count, {devices}, "one value per device"));
  OPSNN_RETURN_IF_ERROR(RequireChannels(call, {&mean, &variance, &batch_mean, &rstd}, channels));
  for (const Operand* o : {&mean, &variance})
    OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, sum.desc.dtype, "totalSum"));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, rstd, batch_mean.desc.dtype, "batchMean"));
  ChannelRows rows(devices, channels);
  const size_t sums = rows.PerDeviceAndChannel(sum), of_squares = rows.PerDeviceAndChannel(squares),
               counts = rows.PerDevice(count), old_mean = rows.PerChannel(mean),
               old_variance = rows.PerChannel(variance);
  const Term total = RowSum(rows.In(counts)), average = RowSum(rows.In(sums)) / total;
  const Term spread = Max(RowSum(rows.In(of_squares)) / total - Square(average), rows.Number(0));
  Store(
      &rows,
      {average, spread, total, batch_mean, rstd, mean, variance, call.Double("momentum"), call.Double("eps")},
      old_mean, old_variance);
  Take(std::move(rows).Call(), &out);
  return OkStatus();
}

// From the means and 1 / sqrt(variance + eps) of the devices: variances within plus that of the means.
Status Adapt_BatchNormGatherStatsWithCounts(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "input"), mean = Arg(call, "mean"), rstd = Arg(call, "invstd"),
                count = Arg(call, "counts"), running_mean = Arg(call, "runningMean"),
                running_variance = Arg(call, "runningVar"), mean_all = Arg(call, "meanAll"),
                rstd_all = Arg(call, "invstdAll");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 2, kMaxRank));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, mean, 2, 2));
  const int64_t devices = mean.desc.dims[0], channels = x.desc.dims[1];
  for (const Operand* o : {&mean, &rstd}) OPSNN_RETURN_IF_ERROR(RequireDevices(call, *o, devices, channels));
  OPSNN_RETURN_IF_ERROR(RequireShape(call, count, {devices}, "one value per device"));
  OPSNN_RETURN_IF_ERROR(
      RequireChannels(call, {&running_mean, &running_variance, &mean_all, &rstd_all}, channels));
  const double eps = call.Double("eps");
  ChannelRows rows(devices, channels);
  const size_t means = rows.PerDeviceAndChannel(mean), factors = rows.PerDeviceAndChannel(rstd),
               counts = rows.PerDevice(count);
  const size_t old_mean = running_mean.given() ? rows.PerChannel(running_mean) : 0,
               old_variance = running_variance.given() ? rows.PerChannel(running_variance) : 0;
  const Term n = rows.In(counts), m = rows.In(means), total = RowSum(n), average = RowSum(m * n) / total;
  const Term within = Plus(Square(1.0 / rows.In(factors)), -eps);
  const Term spread = RowSum((within + Square(m - average)) * n) / total;
  Store(&rows,
        {average, spread, total, mean_all, rstd_all, running_mean, running_variance, call.Double("momentum"),
         eps},
        old_mean, old_variance);
  Take(std::move(rows).Call(), &out);
  return OkStatus();
}

namespace {

// A zero point must be a value of the image's dtype.
Result<double> ZeroPoint(const Call& call, const char* param, DType t) {
  OPSNN_ASSIGN_OR_RETURN(const double zero, NumberOf(call, param));
  const double lowest = t == DType::kU8 ? 0 : t == DType::kS8 ? -128 : std::numeric_limits<int32_t>::min();
  const double most = t == DType::kU8 ? 255 : t == DType::kS8 ? 127 : std::numeric_limits<int32_t>::max();
  if (zero >= lowest && zero <= most) return zero;
  return BadValue(call, param, StrFormat("%g", zero), StrFormat("%g to %g", lowest, most));
}

}  // namespace

Status Adapt_QuantizedBatchNorm(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "input"), y = Arg(call, "output"), mean = Arg(call, "mean"),
                variance = Arg(call, "var"), weight = Arg(call, "weight"), bias = Arg(call, "bias");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 4, 4));
  OPSNN_RETURN_IF_ERROR(RequireLike(call, y, x));
  OPSNN_RETURN_IF_ERROR(RequireChannels(call, {&mean, &variance, &weight, &bias}, x.desc.dims[1]));
  OPSNN_RETURN_IF_ERROR(RequireEpsilon(call, "epsilon"));
  OPSNN_ASSIGN_OR_RETURN(const double scale_in, NumberOf(call, "inputScale"));
  OPSNN_ASSIGN_OR_RETURN(const double zero_in, ZeroPoint(call, "inputZeroPoint", x.desc.dtype));
  OPSNN_ASSIGN_OR_RETURN(const double scale_out, NumberOf(call, "outputScale"));
  OPSNN_ASSIGN_OR_RETURN(const double zero_out, ZeroPoint(call, "outputZeroPoint", x.desc.dtype));
  const double eps = call.Double("epsilon");
  // f32 holds 8-bit values, but not those of 32 bits: there a factor in f64 makes everything compute in f64.
  const DType type = x.desc.dtype == DType::kS32 ? DType::kF64 : DType::kF32;
  auto per_channel = [](const Operand& o) {
    return WithView(o, {o.desc.dims[0], 1, 1}, {StridesOf(o.desc)[0], 0, 0});
  };
  std::vector<Operand> inputs = {x, ConstantFloat(scale_in, type), per_channel(mean), per_channel(variance)};
  for (const Operand* o : {&weight, &bias}) {
    if (o->given()) inputs.push_back(per_channel(*o));
  }
  Take(FormulaCall(std::move(inputs), {y}, 0,
                   [&](ProgramBuilder&, Formula& f) {
                     const Term real = (f.In(0) - zero_in) * f.In(1);
                     Term z = (real - f.In(2)) * Rsqrt(f.In(3) + eps);
                     if (weight.given()) z = z * f.In(4);
                     if (bias.given()) z = z + f.In(weight.given() ? 5 : 4);
                     return std::vector<Term>{Round(z / scale_out + zero_out)};
                   }),
       &out);
  return OkStatus();
}

}  // namespace opsnn::capi
