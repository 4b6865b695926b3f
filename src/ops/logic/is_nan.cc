#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(IsNaN) {
  DefineUnary(def, StageOp::kIsNan);
  def.out_dtype = [](const op::ProgramContext&) { return DType::kBool; };
}
