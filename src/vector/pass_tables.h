// What the pass files contribute to FindPass; each is compiled for every tier.
#ifndef OPSNN_VECTOR_PASS_TABLES_H_
#define OPSNN_VECTOR_PASS_TABLES_H_

#include "vector/pass.h"

namespace opsnn::vector {

// Each returns an empty TierPasses where it has no such pass.
TierPasses UnaryPasses(StageOp op);
TierPasses BinaryPasses(StageOp op);                   // also ternary stages
TierPasses BinUnPasses(StageOp root, StageOp child);   // root(child(x, y))
TierPasses BinBinPasses(StageOp root, StageOp child);  // root(child(x, y), z)
TierPasses UnBinPasses(StageOp root, StageOp child);   // root(child(x), y)
TierPasses MulAddUnPasses(StageOp root);               // root(x * y + z)
TierPasses ScaleShiftPasses();                         // (x * y) * z + w

// For a row whose operands all walk along it and lie beyond L1; null where the common pass is better.
// The same bits.
PassFn FindNarrowPass(StageOp op);

template <typename Table, typename... Args>
TierPasses CollectTiers(const Table& table, Args... args) {
  TierPasses t;
  constexpr size_t kTiers = sizeof(Table) / sizeof(table[0]);
  for (size_t i = 0; i < 3; ++i) t.fn[i] = table[i < kTiers ? i : kTiers - 1](args...);
  return t;
}

}  // namespace opsnn::vector

#endif  // OPSNN_VECTOR_PASS_TABLES_H_
