// The arguments of one phase-one call, looked up once and held alive while it lasts.
#ifndef OPSNN_CAPI_CALL_H_
#define OPSNN_CAPI_CALL_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "capi/footprint.h"
#include "capi/function.h"
#include "capi/objects.h"
#include "op/operator.h"

namespace opsnn::capi {

struct Argument {
  bool given = false;     // false: an optional pointer that is null
  int first_tensor = -1;  // position of its (first) tensor in tensors()
  int num_tensors = 0;
  std::shared_ptr<const void> object;  // the scalar or array
  OpsnnArg raw{};
};

struct TensorArgument {
  std::shared_ptr<const Tensor> object;
  int param = 0;
  int member = -1;       // position in its list
  void* base = nullptr;  // the address
  void* data = nullptr;  // first element of the view: address + offset; null where the address is
  bool tiles = false;    // a view of FRACTAL_NZ blocks, made by StoredTiles
  Footprint footprint;
};

class Call {
 public:
  // Nulls and handles that are not live are refused here.
  static Status Make(const OpsnnFunction& function, const OpsnnArg* args, int num_args, Call* call);
  // Fills the footprints and refuses views that leave the block of their address. Comes before anything that
  // reckons with the bytes of a view.
  Status FindFootprints();

  const OpsnnFunction& function() const { return *function_; }
  const std::vector<Argument>& arguments() const { return arguments_; }
  const std::vector<TensorArgument>& tensors() const { return tensors_; }

  // By parameter name; the name must exist and have the kind.
  int Index(std::string_view param) const;
  bool Given(std::string_view param) const { return arguments_[Index(param)].given; }
  // Position in tensors() of a tensor parameter; -1 when it was not given.
  int TensorIndex(std::string_view param) const;
  int64_t Int(std::string_view param) const { return arguments_[Index(param)].raw.i; }
  double Double(std::string_view param) const { return arguments_[Index(param)].raw.d; }
  const std::vector<int64_t>& Ints(std::string_view param) const;
  const Scalar& ScalarOf(std::string_view param) const;

  // "self", "tensors[2]": how messages name a tensor.
  std::string NameOf(int tensor) const;
  // dtype, dims and strides of a tensor that passed CheckTensors.
  op::TensorDesc Desc(int tensor) const;

  // What a declaration alone can say: allowed dtypes, at most eight dims, formats, views inside their memory.
  Status CheckTensors() const;
  // Everything a plan may depend on, as bytes: dtypes, dims, strides, formats, values of attributes. No
  // addresses.
  void AppendKey(std::string* key) const;

 private:
  const OpsnnFunction* function_ = nullptr;
  std::vector<Argument> arguments_;
  std::vector<TensorArgument> tensors_;
};

}  // namespace opsnn::capi

#endif  // OPSNN_CAPI_CALL_H_
