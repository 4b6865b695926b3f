// Pointwise programs whose operands all lie one element after the other: what a call of them costs beside the
// work is worked out once, when the operator is planned.
#ifndef OPSNN_VECTOR_FLAT_H_
#define OPSNN_VECTOR_FLAT_H_

#include <cstdint>
#include <span>

#include "tensor/tensor_view.h"
#include "vector/pass.h"

namespace opsnn::vector {

class CompiledProgram;

class FlatRun {
 public:
  FlatRun() = default;
  // Views of equal dims, inputs that repeat one element as a whole aside. Check ok(): programs of rows, views
  // with gaps and very many operands have no such form.
  FlatRun(const CompiledProgram& p, std::span<const TensorView> inputs, std::span<const TensorView> outputs);
  bool ok() const { return n_ > 0; }
  // The operands' addresses, inputs first.
  void Run(const CompiledProgram& p, void* const* data) const;

 private:
  static constexpr int kMaxArgs = 6;
  void Piece(const CompiledProgram& p, void* const* data, int64_t begin, int64_t end, bool stream) const;
  void OnePass(const CompiledProgram& p, void* const* data, int64_t begin, int64_t end, bool stream) const;

  int64_t n_ = 0;
  int num_inputs_ = 0, num_args_ = 0;
  DType types_[kMaxArgs] = {};
  int64_t sizes_[kMaxArgs] = {};          // bytes of an element; 0 where one element repeats
  int64_t bytes_ = 0, result_bytes_ = 0;  // of all operands, of the results
  double cost_ = 0;
  bool one_pass_ = false;  // a single instruction from operands to result
};

// For cheap stages of two operands that both walk along one row, results written past the caches; the bits of
// the common pass. Null where that is all there is.
PassFn FindStreamPass(StageOp op);

}  // namespace opsnn::vector

#endif  // OPSNN_VECTOR_FLAT_H_
