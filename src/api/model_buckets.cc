#include "api/model_buckets.h"

#include <algorithm>
#include <cstring>

namespace opsnn::api {
namespace {

// `t` with dims[axis] = size: the front of it, or all of it with zeros behind.
Result<Tensor> Resized(const Tensor& t, int axis, int64_t size) {
  std::vector<int64_t> dims = t.dims();
  const auto at = static_cast<size_t>(axis);
  const int64_t given = dims[at];
  dims[at] = size;
  OPSNN_ASSIGN_OR_RETURN(Tensor out, Tensor::Make(t.dtype(), dims));
  int64_t outer = 1;
  size_t inner = SizeOf(t.dtype());
  for (size_t i = 0; i < at; ++i) outer *= dims[i];
  for (size_t i = at + 1; i < dims.size(); ++i) inner *= static_cast<size_t>(dims[i]);
  const size_t from_bytes = inner * static_cast<size_t>(given), to_bytes = inner * static_cast<size_t>(size);
  const size_t bytes = std::min(from_bytes, to_bytes);
  const char* from = static_cast<const char*>(t.raw());
  char* to = static_cast<char*>(out.raw());
  for (int64_t i = 0; i < outer; ++i, from += from_bytes, to += to_bytes) {
    if (bytes) std::memcpy(to, from, bytes);
    if (to_bytes > bytes) std::memset(to + bytes, 0, to_bytes - bytes);
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<BucketedRuns>> BucketedRuns::Make(const SizeBuckets& b,
                                                         const graph::Session& session) {
  std::unique_ptr<BucketedRuns> r(new BucketedRuns);
  r->input_ = b.input;
  r->dim_ = b.dim;
  r->sizes_ = b.sizes;
  if (r->sizes_.empty()) r->sizes_.assign(std::begin(graph::kPresetBuckets), std::end(graph::kPresetBuckets));
  for (size_t i = 0; i < r->sizes_.size(); ++i)
    if (r->sizes_[i] < 1 || (i > 0 && r->sizes_[i] <= r->sizes_[i - 1]))
      return InvalidArgument("buckets: got %lld; allowed: ascending sizes from 1",
                             static_cast<long long>(r->sizes_[i]));
  const auto inputs = session.inputs();
  const auto it =
      std::find_if(inputs.begin(), inputs.end(), [&](const graph::Value* v) { return v->name == b.input; });
  if (it == inputs.end() || b.dim < 0 || b.dim >= (*it)->desc.dims.rank())
    return InvalidArgument("buckets: got dim %d of input \"%s\"; allowed: a dim of an input of the model",
                           b.dim, b.input.c_str());
  if ((*it)->desc.dims[b.dim] >= 0)
    return InvalidArgument("buckets: dim %d of input \"%s\" is %lld for every run; allowed: an open dim",
                           b.dim, b.input.c_str(), static_cast<long long>((*it)->desc.dims[b.dim]));
  const auto name_of = [](const graph::Value& v, int dim) {
    return dim < static_cast<int>(v.dim_names.size()) ? v.dim_names[static_cast<size_t>(dim)] : std::string();
  };
  const std::string name = name_of(**it, b.dim);
  for (const graph::Value* v : inputs) {
    int axis = v == *it ? b.dim : -1;
    for (int i = 0; axis < 0 && !name.empty() && i < v->desc.dims.rank(); ++i)
      if (name_of(*v, i) == name) axis = i;
    r->axes_.push_back(axis);
  }
  return r;
}

Result<std::vector<graph::BucketAxis>> BucketedRuns::Crops(const graph::Session& session, const Feeds& padded,
                                                           int64_t size) {
  graph::Shapes shapes;
  std::vector<std::vector<int64_t>> key;
  for (const graph::Value* v : session.inputs()) {
    key.push_back(padded.at(v->name).dims());
    shapes[v->name] = Dims(key.back());
  }
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = crops_.find(key); it != crops_.end()) return it->second;
  }
  auto crops = session.OwnRows(shapes, axes_, size);
  if (!crops.ok())
    return crops.status().WithContext(
        StrFormat("buckets: dim %d of input \"%s\" cannot be padded", dim_, input_.c_str()));
  const std::lock_guard lock(mutex_);
  constexpr size_t kMost = 64;  // sizes of the other dims; proving again takes a fraction of a plan
  if (crops_.size() >= kMost) crops_.clear();
  crops_[key] = *crops;
  return crops;
}

Result<std::vector<Tensor>> BucketedRuns::Run(const graph::Session& session, const Feeds& feeds,
                                              const RunModel& run) {
  const auto given = feeds.find(input_);
  const auto dim = static_cast<size_t>(dim_);
  if (given == feeds.end() || !given->second.valid() || given->second.dims().size() <= dim) return run(feeds);
  const int64_t size = given->second.dims()[dim], bucket = graph::BucketOf(sizes_, size);
  if (bucket == size) return run(feeds);
  Feeds padded = feeds;
  const auto inputs = session.inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto it = padded.find(inputs[i]->name);
    if (it == padded.end()) return run(feeds);  // the run says what is missing
    if (axes_[i] < 0) continue;
    const auto at = static_cast<size_t>(axes_[i]);
    if (it->second.dims().size() <= at || it->second.dims()[at] != size) return run(feeds);
    OPSNN_ASSIGN_OR_RETURN(it->second, Resized(it->second, axes_[i], bucket));
  }
  OPSNN_ASSIGN_OR_RETURN(const std::vector<graph::BucketAxis> crops, Crops(session, padded, bucket));
  OPSNN_ASSIGN_OR_RETURN(std::vector<Tensor> outputs, run(padded));
  for (size_t i = 0; i < outputs.size() && i < crops.size(); ++i) {
    if (crops[i].axis < 0) continue;
    OPSNN_ASSIGN_OR_RETURN(outputs[i], Resized(outputs[i], crops[i].axis, crops[i].factor * size));
  }
  return outputs;
}

}  // namespace opsnn::api
