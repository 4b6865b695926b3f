#include "op/traits.h"

#include "op/declaration.h"

namespace opsnn::op {

const Traits& TraitsOf(const OpDef& def) {
  static const Traits none;
  const std::span<const OperatorEntry> all = OperatorTable();
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].declaration == def.declaration) return TraitsTable()[i];
  return none;
}

}  // namespace opsnn::op
