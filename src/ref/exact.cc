// Integers computed as integers: modulo 2^bits; division toward zero, x / 0 = x mod 0 = 0, INT_MIN / -1 =
// INT_MIN; floats saturate on the way to integers. Doubles hold integers up to 2^53 only.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "ref/internal.h"

namespace opsnn::ref {
namespace {

int64_t IntAt(const Tensor& t, int64_t i) {
  return t.exact.empty() ? static_cast<int64_t>(t.v[static_cast<size_t>(i)])
                         : t.exact[static_cast<size_t>(i)];
}

int64_t WrapTo(uint64_t v, DType t) {
  switch (t) {
    case DType::kBool:
      return v != 0;
    case DType::kU8:
      return static_cast<uint8_t>(v);
    case DType::kS8:
      return static_cast<int8_t>(v);
    case DType::kS16:
      return static_cast<int16_t>(v);
    case DType::kS32:
      return static_cast<int32_t>(v);
    default:
      return static_cast<int64_t>(v);
  }
}

uint64_t U(int64_t v) { return static_cast<uint64_t>(v); }

// Takes the values as they are.
Tensor FromInts(DType dtype, const Dims& dims, std::vector<int64_t> values) {
  Tensor y = Tensor::Make(dtype, dims);
  bool large = false;
  for (size_t i = 0; i < values.size(); ++i) {
    y.v[i] = static_cast<double>(values[i]);
    large |= std::fabs(y.v[i]) >= kExactBelow;
  }
  if (large) y.exact = std::move(values);
  return y;
}

void Give(Call& c, const Dims& dims, std::vector<uint64_t> values) {
  std::vector<int64_t> wrapped(values.size());
  for (size_t i = 0; i < values.size(); ++i) wrapped[i] = WrapTo(values[i], c.output_dtype);
  c.outputs.push_back(FromInts(c.output_dtype, dims, std::move(wrapped)));
}

template <typename F>
Status Each(Call& c, F f) {
  std::vector<uint64_t> y(c.in(0).v.size());
  for (size_t i = 0; i < y.size(); ++i) y[i] = U(f(IntAt(c.in(0), static_cast<int64_t>(i))));
  Give(c, c.in(0).dims, std::move(y));
  return OkStatus();
}

// Left fold of all operands; intermediate results wrap like the last one.
template <typename F>
Status Fold(Call& c, F f) {
  Tensor acc = c.in(0);
  for (size_t k = 1; k < c.inputs.size(); ++k) {
    const Tensor& b = c.in(static_cast<int>(k));
    OPSNN_ASSIGN_OR_RETURN(const Dims dims, BroadcastDims(acc.dims, b.dims));
    std::vector<int64_t> y(static_cast<size_t>(NumElements(dims))),
        index(static_cast<size_t>(dims.rank()), 0);
    for (size_t i = 0; i < y.size(); ++i, Next(index, dims))
      y[i] =
          WrapTo(U(f(IntAt(acc, BroadcastOffset(index, acc.dims)), IntAt(b, BroadcastOffset(index, b.dims)))),
                 c.output_dtype);
    acc = FromInts(c.output_dtype, dims, std::move(y));
  }
  c.outputs.push_back(std::move(acc));
  return OkStatus();
}

int64_t Divide(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? static_cast<int64_t>(0 - U(a)) : a / b;
}

int64_t Remainder(int64_t a, int64_t b, bool sign_of_dividend) {
  if (b == 0 || b == -1) return 0;
  const int64_t r = a % b;
  return !sign_of_dividend && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

// x^y mod 2^64; a negative exponent truncates toward zero.
int64_t Power(int64_t x, int64_t y) {
  if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
  uint64_t result = 1;
  for (uint64_t base = U(x), e = U(y); e; e >>= 1, base *= base)
    if (e & 1) result *= base;
  return static_cast<int64_t>(result);
}

Status Clip(Call& c) {
  const int64_t lo = c.has(1) ? IntAt(c.in(1), 0) : INT64_MIN, hi = c.has(2) ? IntAt(c.in(2), 0) : INT64_MAX;
  return Each(c, [=](int64_t x) { return std::min(std::max(x, lo), hi); });
}

Status Mod(Call& c) {
  const bool fmod = c.attrs->Int("fmod", 0) != 0;
  return Fold(c, [=](int64_t a, int64_t b) { return Remainder(a, b, fmod); });
}

Status BitShift(Call& c) {
  const bool left = c.attrs->String("direction", "LEFT") == "LEFT";
  const int64_t width = SizeOf(c.output_dtype) == 8 ? 64 : 32;
  return Fold(c, [=](int64_t x, int64_t n) {
    if (n < 0 || n >= width) return int64_t{0};
    return left ? static_cast<int64_t>(U(x) << n) : x >> n;
  });
}

// To integers only: floats get the nearest float of the value, which a double holds well enough.
Status Cast(Call& c) {
  const Tensor& x = c.in(0);
  const DType to = c.output_dtype;
  const int bits = static_cast<int>(SizeOf(to)) * 8;
  const bool is_signed = Info(to).is_signed;
  const int64_t hi = static_cast<int64_t>(~uint64_t{0} >> (64 - bits + (is_signed ? 1 : 0)));
  const int64_t lo = is_signed ? -hi - 1 : 0;
  std::vector<int64_t> y(x.v.size());
  for (size_t i = 0; i < y.size(); ++i) {
    const double v = x.v[i];
    if (to == DType::kBool)
      y[i] = v != 0;
    else if (!IsFloat(x.dtype))
      y[i] = WrapTo(U(IntAt(x, static_cast<int64_t>(i))), to);
    else if (v >= static_cast<double>(hi))
      y[i] = hi;
    else
      y[i] = std::isnan(v) ? 0 : v <= static_cast<double>(lo) ? lo : static_cast<int64_t>(v);
  }
  c.outputs.push_back(FromInts(to, x.dims, std::move(y)));
  return OkStatus();
}

Status Range(Call& c) {
  const int64_t start = IntAt(c.in(0), 0), limit = IntAt(c.in(1), 0), delta = IntAt(c.in(2), 0);
  const __int128 gap = static_cast<__int128>(limit) - start;
  const __int128 n = delta == 0 ? 0 : (gap + delta - (delta > 0 ? 1 : -1)) / delta;
  std::vector<uint64_t> y(static_cast<size_t>(std::max<__int128>(n, 0)));
  for (size_t i = 0; i < y.size(); ++i) y[i] = U(start) + i * U(delta);
  const Dims dims{static_cast<int64_t>(y.size())};
  Give(c, dims, std::move(y));
  return OkStatus();
}

Status ConstantOfShape(Call& c) {
  const ConstTensor value = c.attrs->Tensor("value");
  const Dims dims(Ints(c.in(0)));
  const int64_t fill = value ? IntAt(FromHost(*value), 0) : 0;
  c.outputs.push_back(FromInts(c.output_dtype, dims, std::vector<int64_t>(NumElements(dims), fill)));
  return OkStatus();
}

template <typename F>
Status Reduce(Call& c, uint64_t first, F f) {
  const Tensor& x = c.in(0);
  Dims kept, out;
  ReducedDims(c, &kept, &out);
  std::vector<uint64_t> y(static_cast<size_t>(NumElements(kept)), first);
  std::vector<int64_t> index(static_cast<size_t>(x.dims.rank()), 0);
  for (int64_t i = 0; i < x.size(); ++i, Next(index, x.dims)) {
    uint64_t& acc = y[static_cast<size_t>(BroadcastOffset(index, kept))];
    acc = f(acc, IntAt(x, i));
  }
  Give(c, out, std::move(y));
  return OkStatus();
}

Status CumSum(Call& c) {
  const Tensor& x = c.in(0);
  const int axis = NormAxis(IntAt(c.in(1), 0), x.dims.rank());
  const bool exclusive = c.attrs->Int("exclusive", 0), reverse = c.attrs->Int("reverse", 0);
  int64_t inner = 1;
  for (int i = axis + 1; i < x.dims.rank(); ++i) inner *= x.dims[i];
  const int64_t n = x.dims[axis], lines = n ? x.size() / n : 0;
  std::vector<uint64_t> y(x.v.size());
  for (int64_t l = 0; l < lines; ++l) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = l / inner * n * inner + l % inner + (reverse ? n - 1 - i : i) * inner;
      const uint64_t before = sum;
      sum += U(IntAt(x, at));
      y[static_cast<size_t>(at)] = exclusive ? before : sum;
    }
  }
  Give(c, x.dims, std::move(y));
  return OkStatus();
}

constexpr Entry kTable[] = {
    {"Add", [](Call& c) { return Fold(c, [](int64_t a, int64_t b) { return U(a) + U(b); }); }},
    {"Sum", [](Call& c) { return Fold(c, [](int64_t a, int64_t b) { return U(a) + U(b); }); }},
    {"Sub", [](Call& c) { return Fold(c, [](int64_t a, int64_t b) { return U(a) - U(b); }); }},
    {"Mul", [](Call& c) { return Fold(c, [](int64_t a, int64_t b) { return U(a) * U(b); }); }},
    {"Div", [](Call& c) { return Fold(c, Divide); }},
    {"Mod", Mod},
    {"Pow", [](Call& c) { return Fold(c, Power); }},
    {"Max", [](Call& c) { return Fold(c, [](int64_t a, int64_t b) { return std::max(a, b); }); }},
    {"Min", [](Call& c) { return Fold(c, [](int64_t a, int64_t b) { return std::min(a, b); }); }},
    {"Equal", [](Call& c) { return Fold(c, [](int64_t a, int64_t b) { return int64_t{a == b}; }); }},
    {"Less", [](Call& c) { return Fold(c, [](int64_t a, int64_t b) { return int64_t{a < b}; }); }},
    {"LessOrEqual", [](Call& c) { return Fold(c, [](int64_t a, int64_t b) { return int64_t{a <= b}; }); }},
    {"Greater", [](Call& c) { return Fold(c, [](int64_t a, int64_t b) { return int64_t{a > b}; }); }},
    {"GreaterOrEqual", [](Call& c) { return Fold(c, [](int64_t a, int64_t b) { return int64_t{a >= b}; }); }},
    {"BitwiseAnd", [](Call& c) { return Fold(c, [](int64_t a, int64_t b) { return a & b; }); }},
    {"BitwiseOr", [](Call& c) { return Fold(c, [](int64_t a, int64_t b) { return a | b; }); }},
    {"BitwiseXor", [](Call& c) { return Fold(c, [](int64_t a, int64_t b) { return a ^ b; }); }},
    {"BitwiseNot", [](Call& c) { return Each(c, [](int64_t x) { return ~x; }); }},
    {"BitShift", BitShift},
    {"Neg", [](Call& c) { return Each(c, [](int64_t x) { return 0 - U(x); }); }},
    {"Abs", [](Call& c) { return Each(c, [](int64_t x) { return x < 0 ? 0 - U(x) : U(x); }); }},
    {"Sign", [](Call& c) { return Each(c, [](int64_t x) { return int64_t{x > 0} - int64_t{x < 0}; }); }},
    {"Relu", [](Call& c) { return Each(c, [](int64_t x) { return std::max<int64_t>(x, 0); }); }},
    {"Clip", Clip},
    {"Range", Range},
    {"ConstantOfShape", ConstantOfShape},
    {"CumSum", CumSum},
    {"ReduceSum", [](Call& c) { return Reduce(c, 0, [](uint64_t a, int64_t x) { return a + U(x); }); }},
    {"ReduceProd", [](Call& c) { return Reduce(c, 1, [](uint64_t a, int64_t x) { return a * U(x); }); }},
    {"ReduceSumSquare",
     [](Call& c) { return Reduce(c, 0, [](uint64_t a, int64_t x) { return a + U(x) * U(x); }); }},
    {"ReduceL1",
     [](Call& c) {
       return Reduce(c, 0, [](uint64_t a, int64_t x) { return a + (x < 0 ? 0 - U(x) : U(x)); });
     }},
};

// ---- operators that move or order elements, through their references in doubles

// Which operands hold the elements: one bit each.
struct Mover {
  std::string_view op;
  uint32_t operands;
};
constexpr uint32_t kFirst = 1, kAll = ~uint32_t{0};
constexpr Mover kMovers[] = {
    {"Transpose", kFirst}, {"Reshape", kFirst},        {"Flatten", kFirst},      {"Squeeze", kFirst},
    {"Unsqueeze", kFirst}, {"Concat", kAll},           {"Split", kFirst},        {"Slice", kFirst},
    {"Expand", kFirst},    {"Tile", kFirst},           {"Pad", 0b101},           {"Gather", kFirst},
    {"GatherND", kFirst},  {"GatherElements", kFirst}, {"DepthToSpace", kFirst}, {"Identity", kFirst},
    {"Dropout", kFirst},   {"SpaceToDepth", kFirst},   {"Trilu", kFirst},        {"ReverseSequence", kFirst},
    {"Where", 0b110},      {"OneHot", 0b100},          {"ScatterND", 0b101},     {"ScatterElements", 0b101},
    {"Compress", kFirst},  {"CenterCropPad", kFirst}};

// Runs the reference on the upper and on the lower halves of the elements.
Status Move(const Entry& e, uint32_t operands, Call& c) {
  std::vector<Tensor> result;
  for (const bool upper : {true, false}) {
    std::vector<Tensor> halves;
    halves.reserve(c.inputs.size());
    std::vector<const Tensor*> inputs(c.inputs.begin(), c.inputs.end());
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (!inputs[k] || !(operands >> k & 1)) continue;
      Tensor half = *inputs[k];
      half.exact.clear();
      for (int64_t i = 0; i < half.size(); ++i) {
        const int64_t v = IntAt(*inputs[k], i);
        half.v[static_cast<size_t>(i)] = static_cast<double>(upper ? v >> 32 : v & 0xffffffff);
      }
      halves.push_back(std::move(half));
      inputs[k] = &halves.back();
    }
    Call part = c;
    part.inputs = inputs;
    part.outputs.clear();
    OPSNN_RETURN_IF_ERROR(e.run(part));
    if (upper) {
      result = std::move(part.outputs);
      continue;
    }
    for (size_t o = 0; o < result.size(); ++o) {
      std::vector<int64_t> whole(result[o].v.size());
      for (size_t i = 0; i < whole.size(); ++i)
        whole[i] = static_cast<int64_t>(U(static_cast<int64_t>(result[o].v[i])) << 32 |
                                        U(static_cast<int64_t>(part.outputs[o].v[i])));
      c.outputs.push_back(FromInts(DType::kS64, result[o].dims, std::move(whole)));
    }
  }
  return OkStatus();
}

// Runs the reference on the ranks of the elements; `values` says whether output 0 holds elements.
Status Order(const Entry& e, bool values, Call& c) {
  std::vector<int64_t> sorted(c.in(0).v.size());
  for (size_t i = 0; i < sorted.size(); ++i) sorted[i] = IntAt(c.in(0), static_cast<int64_t>(i));
  Tensor ranks = c.in(0);
  ranks.exact.clear();
  std::sort(sorted.begin(), sorted.end());
  for (int64_t i = 0; i < ranks.size(); ++i)
    ranks.v[static_cast<size_t>(i)] = static_cast<double>(
        std::lower_bound(sorted.begin(), sorted.end(), IntAt(c.in(0), i)) - sorted.begin());
  std::vector<const Tensor*> inputs(c.inputs.begin(), c.inputs.end());
  inputs[0] = &ranks;
  Call part = c;
  part.inputs = inputs;
  part.outputs.clear();
  OPSNN_RETURN_IF_ERROR(e.run(part));
  c.outputs = std::move(part.outputs);
  if (!values || c.outputs.empty()) return OkStatus();
  std::vector<int64_t> back;
  for (double r : c.outputs[0].v) back.push_back(sorted[static_cast<size_t>(r)]);
  c.outputs[0] = FromInts(DType::kS64, c.outputs[0].dims, std::move(back));
  return OkStatus();
}

bool IsLarge(const Tensor& t) {
  return !t.exact.empty() ||
         std::any_of(t.v.begin(), t.v.end(), [](double v) { return std::fabs(v) >= kExactBelow; });
}

}  // namespace

bool HasExact(std::string_view op) {
  return std::any_of(std::begin(kTable), std::end(kTable), [&](const Entry& e) { return e.op == op; });
}

const Entry* FindExact(const Call& c) {
  const bool cast = c.op == "Cast" && !IsFloat(c.output_dtype);
  for (const Tensor* t : c.inputs)
    if (!cast && t && IsFloat(t->dtype)) return nullptr;
  static constexpr Entry kCast = {"Cast", Cast};
  if (cast) return &kCast;
  if (IsFloat(c.output_dtype)) return nullptr;
  for (const Entry& e : kTable)
    if (e.op == c.op) return &e;
  return nullptr;
}

Status MakeExact(const Entry& e, Call& c) {
  if (IsFloat(c.output_dtype)) return OkStatus();
  bool large = !c.abs_sum.empty() && c.abs_sum.size() == c.outputs[0].v.size() &&
               std::any_of(c.abs_sum.begin(), c.abs_sum.end(), [](double v) { return v >= kExactBelow; });
  for (const Tensor* t : c.inputs) large |= t && !IsFloat(t->dtype) && IsLarge(*t);
  large |= IsLarge(c.outputs[0]);
  if (!large) return OkStatus();
  c.outputs.clear();
  for (const Mover& m : kMovers)
    if (m.op == c.op && c.attrs->String("reduction", "none") == "none") return Move(e, m.operands, c);
  if (c.op == "TopK" || c.op == "Unique" || c.op == "ReduceMax" || c.op == "ReduceMin")
    return Order(e, true, c);
  if (c.op == "ArgMax" || c.op == "ArgMin") return Order(e, false, c);
  return Errorf(Code::kNotImplemented, "%.*s: no reference for integers of 2^53 and more",
                static_cast<int>(c.op.size()), c.op.data());
}

}  // namespace opsnn::ref
