// Sampling of tokens, steps of decoding, deformable attention, waiting: functions that are an operator of
// their own.
#include <limits>

#include "capi/adapters/common.h"

namespace opsnn::capi {
namespace {

// Dense tensors of `count` values in any dims, as one dim.
Status ReadFlat(const Call& call, std::initializer_list<const char*> names, int64_t count,
                std::vector<Operand>* to) {
  for (const char* name : names) {
    const Operand o = Arg(call, name);
    if (NumElements(o.desc.dims) != count || !o.desc.IsContiguous()) {
      return InvalidArgument("%s: %s has shape %s; allowed: %lld elements, dense", call.function().api, name,
                             ToString(o.desc.dims).c_str(), static_cast<long long>(count));
    }
    to->push_back(Reshaped(o, {count}));
  }
  return OkStatus();
}

Operand Wide(const Operand& o) { return o.given() && IsHalf(o.desc.dtype) ? WithDType(o, DType::kF32) : o; }
Operand Whole(const Operand& o) { return o.given() ? WithDType(o, DType::kS64) : o; }

}  // namespace

Status Adapt_ApplyTopKTopP(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "logits"), p = Arg(call, "p"), k = Arg(call, "k"), y = Arg(call, "out");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 2, 2));
  if (!p.given() && !k.given())
    return Errorf(Code::kNull, "%s: p and k are null; one of them is required", call.function().api);
  const Dims rows = {x.desc.dims[0]};
  for (const Operand* o : {&p, &k}) OPSNN_RETURN_IF_ERROR(RequireShape(call, *o, rows, "one value per row"));
  for (const Operand* o : {&p, &y})
    if (o->given()) OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, x.desc.dtype, "logits"));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, x));
  Take(CallOf("ApplyTopKTopP", {Wide(x), Wide(p), Whole(k)}, {Wide(y)}), &out);
  return OkStatus();
}

Status Adapt_TopKTopPSample(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "logits"), k = Arg(call, "topK"), p = Arg(call, "topP"), q = Arg(call, "q");
  const Operand index = Arg(call, "logitsSelectIdx"), kept = Arg(call, "logitsTopKPSelect");
  const bool keeps = call.Int("isNeedLogits") != 0;
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 2, 2));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, p, x.desc.dtype, "logits"));
  const Dims rows = {x.desc.dims[0]};
  if (NumElements(x.desc.dims) == 0) return BadValue(call, "logits", "empty", "one value per row or more");
  for (const Operand* o : {&p, &k, &index})
    OPSNN_RETURN_IF_ERROR(RequireShape(call, *o, rows, "one value per row of logits"));
  if (q.given()) OPSNN_RETURN_IF_ERROR(RequireSameShape(call, q, x));
  if (call.Int("topKGuess") < 1)
    return BadValue(call, "topKGuess", std::to_string(call.Int("topKGuess")), "1 and above");
  std::vector<Operand> outputs = {index};
  if (keeps) {
    if (!kept.given())
      return Errorf(Code::kNull, "%s: logitsTopKPSelect is null; isNeedLogits asks for it",
                    call.function().api);
    OPSNN_RETURN_IF_ERROR(RequireSameShape(call, kept, x));
    outputs.push_back(kept);
  }
  Take(CallOf("TopKTopPSample", {WithDType(x, DType::kF32), Whole(k), WithDType(p, DType::kF32), q},
              std::move(outputs)),
       &out);
  out.attrs.Set("eps", call.Double("eps"));
  return OkStatus();
}

constexpr int kMaxBlock = 1 << 30;  // positions are far below, and products with them fit

Status Adapt_AdvanceStep(const Call& call, OpCall& out) {
  const int64_t seqs = call.Int("numSeqs"), queries = call.Int("numQueries"), block = call.Int("blockSize");
  if (seqs < 1) return BadValue(call, "numSeqs", std::to_string(seqs), "1 and above");
  if (queries < 1 || queries > seqs)
    return BadValue(call, "numQueries", std::to_string(queries), "1 to numSeqs");
  if (block < 1 || block > kMaxBlock)
    return BadValue(call, "blockSize", std::to_string(block), StrFormat("1 to %d", kMaxBlock));
  const Operand sampled = Arg(call, "sampledTokenIds"), blocks = Arg(call, "blockTables");
  OPSNN_RETURN_IF_ERROR(RequireShape(call, sampled, {queries, 1}, "one token per query"));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, blocks, 2, 2));
  OPSNN_RETURN_IF_ERROR(
      RequireShape(call, blocks, {seqs, blocks.desc.dims[1]}, "one row of blocks per sequence"));
  std::vector<Operand> outputs;
  OPSNN_RETURN_IF_ERROR(
      ReadFlat(call, {"inputTokens", "inputPositions", "seqLens", "slotMapping"}, seqs, &outputs));
  const Operand tokens = WithView(sampled, {queries}, {StridesOf(sampled.desc)[0]});
  Take(CallOf("AdvanceStep", {tokens, outputs[2], blocks}, outputs), &out);
  out.attrs.Set("block_size", block);
  return OkStatus();
}

// The same where a small model proposes tokens behind the sampled one.
Status Adapt_AdvanceStepSpec(const Call& call, OpCall& out) {
  const int64_t seqs = call.Int("numSeqs"), block = call.Int("blockSize");
  if (seqs < 1) return BadValue(call, "numSeqs", std::to_string(seqs), "1 and above");
  if (call.Int("numQueries") != seqs)
    return BadValue(call, "numQueries", std::to_string(call.Int("numQueries")), "numSeqs");
  if (block < 1 || block > kMaxBlock)
    return BadValue(call, "blockSize", std::to_string(block), StrFormat("1 to %d", kMaxBlock));
  const Operand sampled = Arg(call, "sampledTokenIds"), blocks = Arg(call, "blockTables");
  const Operand proposed = Arg(call, "specToken"), accepted = Arg(call, "acceptedNum");
  for (const Operand* o : {&sampled, &blocks, &proposed}) OPSNN_RETURN_IF_ERROR(RequireRank(call, *o, 2, 2));
  const int64_t each = proposed.desc.dims[1] + 1;
  OPSNN_RETURN_IF_ERROR(RequireShape(call, proposed, {seqs, each - 1}, "one row per sequence"));
  OPSNN_RETURN_IF_ERROR(RequireShape(call, sampled, {seqs, each}, "one token more than specToken"));
  OPSNN_RETURN_IF_ERROR(
      RequireShape(call, blocks, {seqs, blocks.desc.dims[1]}, "one row of blocks per sequence"));
  OPSNN_RETURN_IF_ERROR(RequireShape(call, accepted, {seqs}, "one count per sequence"));
  std::vector<Operand> outputs;
  OPSNN_RETURN_IF_ERROR(
      ReadFlat(call, {"inputTokens", "inputPositions", "seqLens", "slotMapping"}, seqs * each, &outputs));
  Take(CallOf("AdvanceStepSpec", {sampled, outputs[1], blocks, proposed, accepted}, outputs), &out);
  out.attrs.Set("block_size", block);
  return OkStatus();
}

Status Adapt_DeformableAttention(const Call& call, OpCall& out) {
  const bool gradient = call.function().Find("gradOutput") >= 0;
  std::vector<Operand> inputs, outputs;
  const DType type = Arg(call, "value").desc.dtype;
  const auto read = [&](std::initializer_list<const char*> names, std::vector<Operand>* to) -> Status {
    for (const char* name : names) {
      const Operand o = Arg(call, name);
      if (IsFloat(o.desc.dtype)) OPSNN_RETURN_IF_ERROR(RequireDType(call, o, type, "value"));
      to->push_back(IsFloat(o.desc.dtype) ? Wide(o) : Whole(o));
    }
    return OkStatus();
  };
  OPSNN_RETURN_IF_ERROR(
      read({"value", "spatialShape", "levelStartIndex", "location", "attnWeight"}, &inputs));
  if (gradient) {
    OPSNN_RETURN_IF_ERROR(read({"gradOutput"}, &inputs));
    OPSNN_RETURN_IF_ERROR(read({"gradValue", "gradLocation", "gradAttnWeight"}, &outputs));
  } else {
    OPSNN_RETURN_IF_ERROR(read({"output"}, &outputs));
  }
  Take(CallOf(gradient ? "DeformableAttentionGrad" : "DeformableAttention", std::move(inputs),
              std::move(outputs)),
       &out);
  return OkStatus();
}

Status Adapt_Sleep(const Call& call, OpCall& out) {
  constexpr int64_t kMost = int64_t{1} << 40;  // eleven minutes
  const std::vector<int64_t>& cycles = call.Ints("cycles");
  if (cycles.size() != 1 || cycles[0] < 0 || cycles[0] > kMost) {
    return BadValue(
        call, "cycles",
        cycles.size() == 1 ? std::to_string(cycles[0]) : StrFormat("a list of %zu", cycles.size()),
        StrFormat("one value from 0 to %lld", static_cast<long long>(kMost)));
  }
  Take(CallOf("Sleep", {}, {out.Temp(DType::kS64, {})}), &out);
  out.attrs.Set("cycles", cycles[0]);
  return OkStatus();
}

}  // namespace opsnn::capi
