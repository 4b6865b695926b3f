// A small model that the project writes itself: what `opsnn selftest` runs, and the demo where no other model
// can be had. Convolution with relu, depthwise convolution with hard-swish, a residual 1x1 convolution,
// global pooling, a fully connected layer and softmax; input "image" N x 3 x H x W.
#ifndef OPSNN_SELFTEST_H_
#define OPSNN_SELFTEST_H_

#include <string>

#include "opsnn/export.h"

namespace opsnn {

// The bytes of the ONNX file; the same on every machine.
OPSNN_API std::string SelftestModel();

}  // namespace opsnn

#endif  // OPSNN_SELFTEST_H_
