// What the adapters share: operands, constants, views, and checks that name function, argument, what came and
// what is allowed.
#ifndef OPSNN_CAPI_ADAPTERS_COMMON_H_
#define OPSNN_CAPI_ADAPTERS_COMMON_H_

#include <initializer_list>
#include <string>
#include <vector>

#include "capi/plan.h"

namespace opsnn::capi {

// ---- operands --------------------------------------------------------------------------------------------
// A tensor parameter as it is; absent where it was not given.
Operand Arg(const Call& call, const char* param);
// The same for a parameter that in-place functions call otherwise: the first name that the function has.
Operand Arg(const Call& call, std::initializer_list<const char*> params);
// The members of a list parameter; none where it was not given.
std::vector<Operand> Members(const Call& call, const char* param);
const char* FirstOf(const Call& call, std::initializer_list<const char*> params);

// Memory for a constant of these dims, not filled. Dims need no memory behind them, so a call may name more
// than there is: that is refused.
Result<std::shared_ptr<HostTensor>> NewConstant(const Call& call, DType dtype, const Dims& dims);
// A bound for what an adapter lists while it plans: a moment of time and 256 MiB.
Status RequireRoom(const Call& call, int64_t values, size_t bytes_each);
Operand Constant(ConstTensor t);
Operand ConstantInts(const std::vector<int64_t>& values);  // s64, one dim
Operand ConstantInt(int64_t value);                        // s64, one value in one dim
Operand ConstantFloat(double value, DType dtype);          // no dims
// The scalar parameter in a dtype, without dims; an integer scalar keeps its bits.
Result<Operand> ConstantScalar(const Call& call, const char* param, DType dtype);
Result<Operand> ConstantFrom(const Call& call, const char* param, const Scalar& s, DType dtype);
Result<double> NumberOf(const Call& call, const char* param);

// ---- views -----------------------------------------------------------------------------------------------
Dims StridesOf(const op::TensorDesc& d);  // explicit also where the desc leaves them out
Operand WithView(Operand o, const Dims& dims, const Dims& strides);
Operand Permuted(const Operand& o, const std::vector<int>& order);  // dim i of the result is dim order[i]
Operand Reshaped(Operand o, const Dims& dims);                      // contiguous operands only
Operand BroadcastView(const Operand& o, const Dims& dims);          // o must broadcast to dims
Operand WithDType(Operand o, DType t);                              // converted on the way
Operand AsTuples(const Operand& index);                             // [d..] as [d.., 1]
std::vector<int> MoveToFront(int dim, int rank);                    // an order for Permuted
// 0-d tensors are treated as those of one element in one dim.
Operand AtLeast1d(const Operand& o);

// ---- checks ----------------------------------------------------------------------------------------------
// A dim of a tensor of `rank` dims; negative ones count from the end. A rank of 0 counts as 1.
Result<int> DimOf(const Call& call, const char* param, int64_t dim, int rank);
// Dims of an int array, each at most once.
Result<std::vector<int64_t>> DimsOf(const Call& call, const char* param, int rank);
Status RequireRank(const Call& call, const Operand& o, int lowest, int highest);
Status RequireDType(const Call& call, const Operand& o, DType want, const char* whose);
Status RequireShape(const Call& call, const Operand& o, const Dims& want, const char* why);
Status RequireSameShape(const Call& call, const Operand& o, const Operand& other);
Status RequireLike(const Call& call, const Operand& o, const Operand& like);  // shape and dtype, if given
// `part` must be the last dims of x; how many they are. `whose` names it in the message.
Result<int> LastDims(const Call& call, const Operand& x, const Dims& part, const char* whose);
// An int array with a value per axis, one for all, or none where there is a fallback.
Result<std::vector<int64_t>> PerAxis(const Call& call, const char* param, size_t axes, int64_t lowest,
                                     const std::vector<int64_t>* fallback = nullptr);
Status RequireIndex(const Call& call, const Operand& index);  // s64 or s32
Status RequireCast(const Call& call, DType from, const Operand& out);
// aclDataType parameter that must be one of ours.
Result<DType> DTypeParam(const Call& call, const char* param);
// A text parameter; `fallback` where it is null.
std::string TextOf(const Call& call, const char* param, const char* fallback = "");
Status RequireCubeMathType(const Call& call, int64_t highest);
// "aclnnX: param is got; allowed: text"
Status BadValue(const Call& call, const char* param, const std::string& got, const std::string& allowed);
std::string NameOf(const Call& call, const Operand& o);

// ---- programs --------------------------------------------------------------------------------------------
// The call of a vector program over inputs that broadcast to the outputs; row_rank > 0 for row programs.
OpCall ProgramCall(Program program, std::vector<Operand> inputs, std::vector<Operand> outputs,
                   int row_rank = 0);
// Makes `call` the last step of `out`; what `out` runs first stays.
void Take(OpCall call, OpCall* out);
// The last becomes `out`, the others run before it. There must be one.
Status TakeAll(std::vector<OpCall> calls, OpCall* out);

// The call of an operator without attributes.
OpCall CallOf(const char* op, std::vector<Operand> inputs, std::vector<Operand> outputs);
// The same for an operator with an axis: attribute `axis`.
OpCall Along(const char* op, int axis, std::vector<Operand> inputs, const Operand& y);
// o itself where it is contiguous, or a temporary that a copy fills before.
Operand Contiguously(const Operand& o, OpCall* out);

// ---- calls of several adapters ----------------------------------------------------------------------------
// The shape after a reduction over dims; none means all.
Dims ReducedDims(const Dims& x, const std::vector<int64_t>& dims, bool keep);
// y = op over dims of self, read as `as`; the result is stored in the type of y.
void Reduce(const char* op, const Operand& self, DType as, const Operand& y, const std::vector<int64_t>& dims,
            bool keep, OpCall* c);
// y = (sum of |x|^p)^(1/p) over dims; y has the shape of the result. Temporaries are those of `out`.
void AppendNorm(const Operand& x, double p, const std::vector<int64_t>& dims, bool keep, const Operand& y,
                OpCall* out, std::vector<OpCall>* calls);

}  // namespace opsnn::capi

#endif  // OPSNN_CAPI_ADAPTERS_COMMON_H_
