// Running a model with one dim padded to size buckets and its results cropped.
#ifndef OPSNN_API_MODEL_BUCKETS_H_
#define OPSNN_API_MODEL_BUCKETS_H_

#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "graph/buckets.h"
#include "graph/session.h"
#include "opsnn/model.h"

namespace opsnn::api {

class BucketedRuns {
 public:
  // Checks input, dim and sizes against the session's inputs.
  static Result<std::unique_ptr<BucketedRuns>> Make(const SizeBuckets& b, const graph::Session& session);

  using RunModel = std::function<Result<std::vector<Tensor>>(const Feeds&)>;
  // `run` on padded feeds, and its results cropped. An error names the node that forbids padding.
  Result<std::vector<Tensor>> Run(const graph::Session& session, const Feeds& feeds, const RunModel& run);

 private:
  BucketedRuns() = default;
  Result<std::vector<graph::BucketAxis>> Crops(const graph::Session& session, const Feeds& padded,
                                               int64_t size);
  std::string input_;
  int dim_ = 0;
  std::vector<int64_t> sizes_;
  std::vector<int> axes_;  // by input of the model: which dim grows with it, -1 none
  std::mutex mutex_;
  std::map<std::vector<std::vector<int64_t>>, std::vector<graph::BucketAxis>>
      crops_;  // by padded shapes; guarded
};

}  // namespace opsnn::api

#endif  // OPSNN_API_MODEL_BUCKETS_H_
