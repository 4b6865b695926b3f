#include "op/exact.h"

#include "base/knobs.h"

namespace opsnn::op {
namespace {
constexpr int kUnset = -1;
thread_local int planned_exactly = kUnset;
}  // namespace

bool PlansExactly() {
  if (planned_exactly != kUnset) return planned_exactly != 0;
  return GetKnobs().policy == NumericsPolicy::kExact;
}

ScopedExact::ScopedExact(bool exact) : before_(planned_exactly) { planned_exactly = exact ? 1 : 0; }
ScopedExact::~ScopedExact() { planned_exactly = before_; }

}  // namespace opsnn::op
