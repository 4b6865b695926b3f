#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Pow) {
  op::DefineBinary(def, StageOp::kPow);
  def.out_dtype = [](const op::ProgramContext& c) { return c.input_dtypes[0]; };
}
