// Index and IndexPutImpl: lists of index tensors and masks. Entry i of the list belongs to dim i of self, a
// mask of m dims to the m dims from there on; an empty tensor takes its dim whole.
#include <algorithm>

#include "capi/adapters/common.h"

namespace opsnn::capi {
namespace {

struct Entry {
  Operand index;
  int dim = 0, dims = 1;  // the dims of self that it names
  bool mask = false;
};

struct IndexList {
  std::vector<Entry> entries;  // those that name something
  Dims shape;  // what index tensors broadcast to; with a mask the count of its elements comes in
  // Index tensors say the shape. Beside masks those of one value do not: it goes with all that masks name.
  bool has_shape = false, has_mask = false;
  int named = 0;           // dims of self in the tuples
  std::vector<int> order;  // dims of self: the named ones first
  int at = 0;              // dims of the result in front of the broadcast shape
  Dims rest;               // the dims that are taken whole
};

Status BadShape(const Call& call, const Operand& o, const std::string& allowed) {
  return InvalidArgument("%s: %s has shape %s; allowed: %s", call.function().api, NameOf(call, o).c_str(),
                         ToString(o.desc.dims).c_str(), allowed.c_str());
}

Status Broadcast(const Call& call, const Operand& o, const Dims& dims, IndexList* list) {
  const auto both = BroadcastDims(list->shape, dims);
  if (!both.ok() || both->rank() == kMaxRank)
    return BadShape(call, o, "shapes that broadcast with " + ToString(list->shape));
  list->shape = *both;
  list->has_shape = true;
  return OkStatus();
}

Status ReadEntry(const Call& call, const Operand& self, const Operand& o, int* dim, IndexList* list) {
  const Dims &whole = self.desc.dims, &own = o.desc.dims;
  Entry e = {o, *dim, 1, o.desc.dtype == DType::kBool};
  if (NumElements(own) == 0 && !e.mask) {
    ++*dim;
    return OkStatus();
  }
  if (e.mask) {
    bool fits = own.rank() > 0 && *dim + own.rank() <= whole.rank();
    for (int i = 0; fits && i < own.rank(); ++i) fits = own[i] == whole[*dim + i];
    if (!fits) return BadShape(call, o, StrFormat("that of self from dim %d on, as it is a mask", *dim));
    e.dims = own.rank();
    list->has_mask = true;
  } else {
    OPSNN_RETURN_IF_ERROR(RequireIndex(call, o));
    OPSNN_RETURN_IF_ERROR(Broadcast(call, o, own, list));
  }
  *dim += e.dims;
  list->entries.push_back(e);
  return OkStatus();
}

Result<IndexList> ReadList(const Call& call, const Operand& self) {
  IndexList list;
  const std::vector<Operand> members = Members(call, "indices");
  const int rank = self.desc.dims.rank();
  int dim = 0;
  for (const Operand& o : members) {
    if (dim >= rank) break;
    OPSNN_RETURN_IF_ERROR(ReadEntry(call, self, o, &dim, &list));
  }
  if (members.empty() || static_cast<int>(members.size()) > rank) {
    return BadValue(call, "indices", StrFormat("a list of %zu", members.size()),
                    StrFormat("1 to %d tensors", rank));
  }
  if (list.entries.empty()) {  // indices that name nothing
    list.entries.push_back({members[0], 0, 1, false});
    list.shape = members[0].desc.dims;
    list.has_shape = true;
  }
  if (list.has_mask && list.shape.rank() <= 1 && NumElements(list.shape) == 1) list.has_shape = false;
  std::vector<bool> named(static_cast<size_t>(rank), false);
  for (const Entry& e : list.entries) {
    for (int i = e.dim; i < e.dim + e.dims; ++i) {
      named[static_cast<size_t>(i)] = true;
      list.order.push_back(i);
    }
  }
  list.named = static_cast<int>(list.order.size());
  // Dims that lie side by side are replaced where they are; else the result of the indices comes first.
  const bool together = list.order.back() - list.order[0] + 1 == list.named;
  if (together) list.at = list.order[0];
  for (int i = 0; i < rank; ++i) {
    if (named[static_cast<size_t>(i)]) continue;
    list.order.push_back(i);
    list.rest.push_back(self.desc.dims[i]);
  }
  // Masks alone bring one dim, their count; the tuples of indices need one more than the shape.
  const int shape = list.has_shape ? list.shape.rank() : 1;
  if (shape >= kMaxRank || shape + list.rest.rank() > kMaxRank) {
    return BadValue(call, "indices",
                    StrFormat("%d dims beside %d that they leave of self", shape, list.rest.rank()),
                    StrFormat("at most %d of both, and less than %d of the indices", kMaxRank, kMaxRank));
  }
  return list;
}

// The dims of self[indices].
Dims ResultDims(const IndexList& list) {
  Dims dims;
  for (int i = 0; i < list.at; ++i) dims.push_back(list.rest[i]);
  for (int64_t d : list.shape) dims.push_back(d);
  for (int i = list.at; i < list.rest.rank(); ++i) dims.push_back(list.rest[i]);
  return dims;
}

// A view of what has ResultDims with the dims of the indices first.
Operand ShapeFirst(const IndexList& list, const Operand& o) {
  std::vector<int> order;
  for (int i = 0; i < list.shape.rank(); ++i) order.push_back(list.at + i);
  for (int i = 0; i < list.rest.rank(); ++i) order.push_back(i < list.at ? i : i + list.shape.rank());
  return Permuted(o, order);
}

// How many elements the masks name, as the result or the values say: their size where the indices' come in.
Status TakeCount(const Call& call, const Operand& o, IndexList* list) {
  if (!list->has_mask || list->has_shape) return OkStatus();
  const int rank = list->rest.rank() + 1;
  if (o.desc.dims.rank() != rank)
    return BadShape(call, o, StrFormat("%d dims, one of them for the elements that the masks name", rank));
  list->shape = {o.desc.dims[list->at]};
  return OkStatus();
}

// [shape.., named], s64.
Operand Tuples(const IndexList& list, OpCall* out) {
  Dims dims = list.shape;
  dims.push_back(list.named);
  const Operand tuples = out->Temp(DType::kS64, dims);
  Dims strides = ContiguousStrides(dims);
  strides.resize(list.shape.rank());
  int column = 0;
  const auto put = [&](const Operand& from) {
    Operand to = WithView(tuples, list.shape, strides);
    to.offset = column++;
    out->first.push_back(CallOf("Identity", {WithDType(BroadcastView(from, list.shape), DType::kS64)}, {to}));
  };
  for (const Entry& e : list.entries) {
    if (!e.mask) {
      put(e.index);
      continue;
    }
    // Element after element that the mask names: as many as the last dim of the shape has.
    const int64_t count = list.shape.rank() == 0 ? 1 : list.shape.back();
    const Operand found = out->Temp(DType::kS64, {count, e.dims});
    OpCall scan = CallOf("CountedNonZero", {e.index}, {found, out->Temp(DType::kS64, {})});
    scan.attrs.Set("room", count);
    scan.attrs.Set("exact", int64_t{1});
    out->first.push_back(std::move(scan));
    for (int i = 0; i < e.dims; ++i) {
      Operand places = WithView(found, {count}, {e.dims});
      places.offset = i;
      put(places);
    }
  }
  return tuples;
}

// The mask of `size` places that names the only one of `index`.
Result<Operand> MaskOfOne(const Call& call, const Operand& index, int64_t size, OpCall* out) {
  OPSNN_ASSIGN_OR_RETURN(const auto none, NewConstant(call, DType::kBool, {size}));
  OPSNN_ASSIGN_OR_RETURN(const auto one, NewConstant(call, DType::kBool, {1}));
  std::fill_n(static_cast<uint8_t*>(none->data()), size, uint8_t{0});
  *static_cast<uint8_t*>(one->data()) = 1;
  const Operand mask = out->Temp(DType::kBool, {size});
  OpCall put = CallOf("ScatterND", {Constant(none), WithView(index, {1, 1}, {0, 0}), Constant(one)}, {mask});
  put.attrs.Set("reduction", std::string("none"));
  out->first.push_back(std::move(put));
  return mask;
}

// What all masks of the list name, and the indices beside them, as one mask over their dims.
Result<Operand> OneMask(const Call& call, const IndexList& list, const Dims& whole_dims, OpCall* out) {
  if (list.entries.size() == 1) return list.entries[0].index;
  std::vector<Operand> masks;
  Dims dims;
  for (const Entry& e : list.entries) {
    Operand mask = e.index;
    if (!e.mask) {
      OPSNN_ASSIGN_OR_RETURN(mask, MaskOfOne(call, e.index, whole_dims[e.dim], out));
    }
    masks.push_back(mask);
    for (const int64_t d : mask.desc.dims) dims.push_back(d);
  }
  const Operand whole = out->Temp(DType::kBool, dims);
  out->first.push_back(CallOf("PairedMasks", std::move(masks), {whole}));
  return whole;
}

}  // namespace

Status Adapt_Index(const Call& call, OpCall& out) {
  const Operand self = Arg(call, "self"), y = Arg(call, "out");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, self, 1, kMaxRank));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, self.desc.dtype, "self"));
  OPSNN_ASSIGN_OR_RETURN(IndexList list, ReadList(call, self));
  OPSNN_RETURN_IF_ERROR(TakeCount(call, y, &list));
  OPSNN_RETURN_IF_ERROR(RequireShape(call, y, ResultDims(list), "what the indices name"));
  const Operand tuples = Tuples(list, &out);
  Take(CallOf("GatherND", {Permuted(self, list.order), tuples}, {ShapeFirst(list, y)}), &out);
  return OkStatus();
}

Status Adapt_IndexPut(const Call& call, OpCall& out) {
  const Operand self = Arg(call, "selfRef"), values = Arg(call, "values");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, self, 1, kMaxRank));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, values, self.desc.dtype, "selfRef"));
  OPSNN_ASSIGN_OR_RETURN(IndexList list, ReadList(call, self));
  const Operand data = Permuted(self, list.order);
  const std::string reduction = call.Int("accumulate") != 0 ? "add" : "none";
  const bool masked = list.has_mask && !list.has_shape;
  if (masked) {  // as many values as are named, or one for all of them
    list.shape = {1};
    const int place = values.desc.dims.rank() - (list.rest.rank() - list.at) - 1;
    if (place >= 0) list.shape = {values.desc.dims[place]};
  }
  const Dims want = ResultDims(list);
  const auto both = BroadcastDims(values.desc.dims, want);
  if (!both.ok() || !(*both == want)) {
    return InvalidArgument(
        "%s: values has shape %s; allowed: shapes that broadcast to %s, what the indices name",
        call.function().api, ToString(values.desc.dims).c_str(), ToString(want).c_str());
  }
  const Operand updates = ShapeFirst(list, BroadcastView(values, want));
  if (masked && (list.entries.size() == 1 || list.shape[0] == 1)) {
    OPSNN_ASSIGN_OR_RETURN(const Operand mask, OneMask(call, list, self.desc.dims, &out));
    Take(CallOf("MaskedPut", {data, mask, updates}, {data}), &out);
  } else {
    const Operand tuples = Tuples(list, &out);
    Take(CallOf("ScatterND", {data, tuples, updates}, {data}), &out);
  }
  out.attrs.Set("reduction", reduction);
  out.in_place = true;
  return OkStatus();
}

}  // namespace opsnn::capi
