#include "observe/difference.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "observe/compare.h"

namespace opsnn::observe {

namespace {

std::vector<double> WithStore(const Bounded& b, DType stored) {
  std::vector<double> error = b.error;
  error.resize(b.value.v.size(), 0);
  for (size_t i = 0; i < error.size(); ++i) {
    if (std::isfinite(b.value.v[i])) error[i] += UnitRoundoff(stored) * std::fabs(b.value.v[i]);
  }
  return error;
}

}  // namespace

bool Differs(const HostTensor& a, const HostTensor& b, const std::vector<double>& allowed,
             std::string* text) {
  if (a.dtype() != b.dtype() || a.dims() != b.dims()) {
    *text = StrFormat("%s%s and %s%s", Name(a.dtype()), ToString(a.dims()).c_str(), Name(b.dtype()),
                      ToString(b.dims()).c_str());
    return true;
  }
  if (std::memcmp(a.data(), b.data(), a.bytes()) == 0) return false;
  if (!IsFloat(a.dtype()) && allowed.empty()) {
    const size_t size = SizeOf(a.dtype());
    size_t at = 0;
    while (std::memcmp(a.as<char>() + at, b.as<char>() + at, size) == 0) at += size;
    *text = StrFormat("integers differ, the first at element %zu", at / size);
    return true;
  }
  const std::vector<double> got = ToDoubles(a), want = ToDoubles(b);
  if (allowed.empty()) {
    // Signs of NaN and zero are free: they carry no value.
    size_t differ = 0, first = 0;
    for (size_t i = got.size(); i-- > 0;) {
      if (got[i] != want[i] && !(std::isnan(got[i]) && std::isnan(want[i]))) ++differ, first = i;
    }
    if (differ == 0) return false;
    *text = StrFormat(
        "%zu of %zu elements differ, the first at %zu: %.9g and %.9g; the exact policy promises equal bits",
        differ, got.size(), first, got[first], want[first]);
    return true;
  }
  const Comparison c = Compare(got, want, allowed);
  if (!(c.share > 1)) return false;
  const size_t at = static_cast<size_t>(c.worst);
  *text = StrFormat("element %zu is %.9g and %.9g, %.3g apart; its inputs explain %.3g", at, got[at],
                    want[at], std::fabs(got[at] - want[at]), allowed[at]);
  return true;
}

void DifferenceTracker::Step(const graph::Node& node, const std::vector<std::string>& values) {
  for (const std::string& value : values) {
    const auto other = fused_.captured.find(value);
    const HostTensor& mine = *unfused_.captured.at(value);
    const Bounded* local = recomputer_.Local(value);
    const bool carries = policy_ == NumericsPolicy::kExcess && local != nullptr;
    const bool excess = carries && IsFloat(mine.dtype());
    if (other == fused_.captured.end()) {
      // Inside a fused node: what it may be off by is all that is known. Under the exact policy the bits are
      // the same, as long as those of its inputs are.
      // It was stored in this form and need not have been in the other.
      if (!carries) continue;
      std::vector<double> error = excess ? WithStore(*local, mine.dtype()) : local->error;
      if (const std::vector<double>* sums = recomputer_.SumRounding(value))
        for (size_t i = 0; i < std::min(error.size(), sums->size()); ++i) error[i] += (*sums)[i];
      if (!error.empty()) recomputer_.SetError(value, std::move(error));
      continue;
    }
    std::vector<double> allowed;
    // Integers are equal but where a rounding was decided by what the forms may differ by.
    if (carries && !excess && !local->error.empty()) allowed = local->error;
    if (excess) {
      allowed.resize(static_cast<size_t>(mine.size()), 0);
      for (size_t i = 0; i < allowed.size() && i < local->value.v.size(); ++i) {
        const double v = std::isfinite(local->value.v[i]) ? std::fabs(local->value.v[i]) : 0;
        // The node's own rounding counts twice, once for each run.
        allowed[i] = kBoundFactor * 2 * (local->error.empty() ? 0 : local->error[i]) +
                     4 * UnitRoundoff(mine.dtype()) * v + SmallestStep(mine.dtype());
      }
    }
    std::string text;
    if (first_.value.empty() && Differs(*other->second, mine, allowed, &text))
      first_ = {value, node.name, value + " (node " + node.name + "): " + text, allowed};
    if (!carries) continue;
    const std::vector<double> a = ToDoubles(*other->second), b = ToDoubles(mine);
    std::vector<double> error(a.size());
    bool any = false;
    for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
      error[i] = std::isfinite(a[i]) && std::isfinite(b[i]) ? std::fabs(a[i] - b[i]) : 0;
      any |= error[i] != 0;
    }
    if (any) recomputer_.SetError(value, std::move(error));
  }
}

}  // namespace opsnn::observe
