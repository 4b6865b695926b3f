// What the reference files share: their tables and index helpers.
#ifndef OPSNN_REF_INTERNAL_H_
#define OPSNN_REF_INTERNAL_H_

#include <cstdint>
#include <vector>

#include "ref/ref.h"

namespace opsnn::ref {

struct Entry {
  std::string_view op;
  Status (*run)(Call&);
};
// One table per file.
std::span<const Entry> PointwiseTable();
std::span<const Entry> PointwiseMathTable();
std::span<const Entry> ContractionTable();
std::span<const Entry> PoolTable();
std::span<const Entry> NormTable();
std::span<const Entry> ReduceTable();
std::span<const Entry> DataTable();
std::span<const Entry> IndexTable();
std::span<const Entry> ResizeTable();
std::span<const Entry> QuantTable();
std::span<const Entry> LossTable();
std::span<const Entry> EinsumTable();
std::span<const Entry> SelectTable();
std::span<const Entry> ImageTable();

// Integers below this are exact in a double, and so are sums of two.
inline constexpr double kExactBelow = 0x1p53;
// The reference on integers as such (exact.cc), or null where doubles do.
const Entry* FindExact(const Call& call);
bool HasExact(std::string_view op);
// After a reference in doubles: where integers were too large for it, computes the call again, exactly.
Status MakeExact(const Entry& e, Call& call);

// Of a reduction: the dims with 1 for reduced axes, and those of the output.
void ReducedDims(const Call& call, Dims* kept, Dims* out);

// Steps a multi-index through `dims` in row-major order; false after the last one.
bool Next(std::vector<int64_t>& index, const Dims& dims);
int64_t Offset(const std::vector<int64_t>& index, const Dims& dims);           // row-major
int64_t BroadcastOffset(const std::vector<int64_t>& index, const Dims& dims);  // right-aligned, 1s repeat
int NormAxis(int64_t axis, int rank);
std::vector<int64_t> Ints(const Tensor& t);

}  // namespace opsnn::ref

#endif  // OPSNN_REF_INTERNAL_H_
