// Where a tensor argument lies: the bytes of its view, held to the allocation that its address belongs to.
#ifndef OPSNN_CAPI_FOOTPRINT_H_
#define OPSNN_CAPI_FOOTPRINT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "capi/objects.h"
#include "tensor/tensor_view.h"

namespace opsnn::capi {

struct Footprint {
  int64_t low = 0, high = 0;  // first and one-past-last byte, counted from the tensor's address
  uint64_t block = 0;         // serial of the allocation; 0: not allocated by the runtime, or nothing touched
};

// Bytes that the view touches; block stays 0. False when they are not within 63 bits.
bool TouchedBytes(const Tensor& t, Footprint* f);

// Finds the block of `address` and refuses a view that leaves it. `api`, `param` and `member` (-1: no list)
// are for the message. A null address and memory of the caller's own are taken as they are.
Status HoldToBlock(const char* api, const char* param, int member, const void* address, Footprint* f);

// Refuses a tensor whose block was freed since HoldToBlock.
Status CheckStillLive(const char* api, const char* param, int member, const void* address,
                      const Footprint& f);

// The elements of a tensor whose first one lies at `data`.
TensorView ViewOf(const Tensor& t, const void* data);

// How outputs lie to the other tensors of a call: refuses those that overlap one partly, and two outputs in
// one memory; fills same_memory[i] with the input that output i is (itself if none), or leaves it empty where
// nothing is shared. Tensors without an address overlap nothing. `All` tells api(), size(), and of each
// tensor data, object, IsOutput and Name.
template <typename All>
Status FindAliases(const All& all, std::vector<int>* same_memory) {
  same_memory->clear();
  const int n = all.size();
  // More dims than a view can have are refused elsewhere.
  const auto lies = [&](int i) { return all.data(i) && all.object(i).dims.size() <= kMaxRank; };
  for (int i = 0; i < n; ++i) {
    if (!all.IsOutput(i) || !lies(i)) continue;
    const TensorView mine = ViewOf(all.object(i), all.data(i));
    const ByteRange touched = opsnn::TouchedBytes(mine);
    if (touched.begin == touched.end) continue;
    for (int j = 0; j < n; ++j) {
      if (j == i || !lies(j)) continue;
      const TensorView other = ViewOf(all.object(j), all.data(j));
      const ByteRange range = opsnn::TouchedBytes(other);
      if (range.begin >= touched.end || touched.begin >= range.end) continue;
      const Overlap overlap = CheckOverlap(mine, other);
      if (overlap == Overlap::kNone) continue;
      const bool two_outputs = all.IsOutput(j);
      if (overlap == Overlap::kPartial || two_outputs) {
        return InvalidArgument("%s: %s overlaps %s in memory; allowed: %s", all.api(), all.Name(i).c_str(),
                               all.Name(j).c_str(),
                               two_outputs ? "outputs that are apart" : "the same view, or no common memory");
      }
      if (same_memory->empty()) {
        for (int k = 0; k < n; ++k) same_memory->push_back(k);
      }
      (*same_memory)[static_cast<size_t>(i)] = j;
    }
  }
  return OkStatus();
}

// "param" or "param[member]"; -1: no list.
std::string NameOf(const char* param, int member);

}  // namespace opsnn::capi

#endif  // OPSNN_CAPI_FOOTPRINT_H_
