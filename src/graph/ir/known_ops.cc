#include "graph/ir/known_ops.h"

namespace opsnn::graph {

const KnownOps& Known() {
  static const KnownOps ops = [] {
    KnownOps k;
#define OPSNN_FIND_KNOWN_OP(name) k.name = op::FindOperator(#name);
    OPSNN_KNOWN_OPS(OPSNN_FIND_KNOWN_OP)
#undef OPSNN_FIND_KNOWN_OP
    return k;
  }();
  return ops;
}

}  // namespace opsnn::graph
