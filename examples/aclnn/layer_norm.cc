// LayerNorm with weight, bias and statistics, timed with events.
//   g++ layer_norm.cc -I P/include -L P/lib64 -lascendcl -lnnopbase -lopapi
#include <cmath>

#include "aclnnop/aclnn_layer_norm.h"
#include "common.h"

int main() {
  constexpr int64_t kRows = 64, kCols = 768;
  const Device device;
  const aclrtStream stream = g_stream;
  aclrtEvent start = nullptr, end = nullptr;
  Check(aclrtCreateEvent(&start), "aclrtCreateEvent");
  Check(aclrtCreateEvent(&end), "aclrtCreateEvent");
  bool right = true;
  {
    DeviceTensor x({kRows, kCols}), weight({kCols}), bias({kCols}), y({kRows, kCols}), mean({kRows, 1}),
        rstd({kRows, 1});
    std::vector<float> values(kRows * kCols);
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(0.1f * static_cast<float>(i));
    x.Upload(values);
    weight.Upload(std::vector<float>(kCols, 2));
    bias.Upload(std::vector<float>(kCols, 1));
    aclIntArray* normalized = aclCreateIntArray(&kCols, 1);

    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    Check(aclnnLayerNormGetWorkspaceSize(x.tensor, normalized, weight.tensor, bias.tensor, 1e-5, y.tensor,
                                         mean.tensor, rstd.tensor, &size, &executor),
          "aclnnLayerNormGetWorkspaceSize");
    Workspace workspace(size);
    Check(aclrtRecordEvent(start, stream), "aclrtRecordEvent");
    Check(aclnnLayerNorm(workspace.address, size, executor, stream), "aclnnLayerNorm");
    Check(aclrtRecordEvent(end, stream), "aclrtRecordEvent");
    Check(aclDestroyIntArray(normalized), "aclDestroyIntArray");  // phase two has taken what it needs
    Check(aclrtSynchronizeStream(stream), "aclrtSynchronizeStream");
    float ms = 0;
    Check(aclrtEventElapsedTime(&ms, start, end), "aclrtEventElapsedTime");

    // Every row now has mean 1 (the bias) and standard deviation 2 (the weight).
    const std::vector<float> got = y.Download();
    double worst = 0;
    for (int64_t r = 0; r < kRows; ++r) {
      double sum = 0, squares = 0;
      for (int64_t c = 0; c < kCols; ++c) sum += got[r * kCols + c];
      for (int64_t c = 0; c < kCols; ++c) squares += std::pow(got[r * kCols + c] - sum / kCols, 2);
      worst = std::fmax(worst, std::fabs(sum / kCols - 1));
      worst = std::fmax(worst, std::fabs(std::sqrt(squares / kCols) - 2));
    }
    right = worst < 1e-3;
    std::printf("layer_norm: %lld rows in %.3f ms, statistics off by at most %.1e\n",
                static_cast<long long>(kRows), ms, worst);
  }
  Check(aclrtDestroyEvent(start), "aclrtDestroyEvent");
  Check(aclrtDestroyEvent(end), "aclrtDestroyEvent");
  return right ? 0 : 1;
}
