#include "vector/pass_tables.h"

namespace opsnn::vector {

TierPasses FindPass(const PassKey& key) {
  switch (key.shape) {
    case PassShape::kSingle: {
      const TierPasses unary = UnaryPasses(key.root);
      return unary ? unary : BinaryPasses(key.root);
    }
    case PassShape::kBinUn:
      return BinUnPasses(key.root, key.child);
    case PassShape::kBinBin:
      return BinBinPasses(key.root, key.child);
    case PassShape::kUnBin:
      return UnBinPasses(key.root, key.child);
    case PassShape::kTriple:
      if (key.root == StageOp::kAdd && key.child == StageOp::kMul && key.grand == StageOp::kMul)
        return ScaleShiftPasses();
      return {};
    case PassShape::kTernUn:
      return key.child == StageOp::kMulAdd ? MulAddUnPasses(key.root) : TierPasses{};
  }
  return {};
}

}  // namespace opsnn::vector
