// What stands behind Model: a session, a lazily made unfused twin for verify, and how both are made again.
#ifndef OPSNN_API_MODEL_IMPL_H_
#define OPSNN_API_MODEL_IMPL_H_

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "api/model_buckets.h"
#include "base/parallel.h"
#include "graph/session.h"
#include "opsnn/model.h"

namespace opsnn {

struct Model::Impl {
  Result<graph::RunResult> Run(const Feeds& feeds, const graph::RunOptions& options) const;

  // Reads the imported graph again; sessions own their graphs.
  std::function<Result<graph::Graph>()> import;
  std::unique_ptr<graph::Session> session;
  std::vector<ValueInfo> inputs, outputs;
  double import_us = 0, load_us = 0;
  std::unique_ptr<api::BucketedRuns> buckets;  // null: sizes are taken as they come
  std::mutex twin_mutex;
  std::unique_ptr<graph::Session> unfused;  // made by the first Verify
};

namespace api {

struct ModelAccess {
  static Result<Model> Make(std::function<Result<graph::Graph>()> import, const ModelOptions& options);
  // Every part of the model as planned for these inputs: one, unless it had to be cut.
  static Status ForEachPlan(Model& model, const Shapes& shapes, const Feeds& values,
                            FunctionRef<void(const graph::Prepared&)> visit);
};

}  // namespace api
}  // namespace opsnn

#endif  // OPSNN_API_MODEL_IMPL_H_
