// Which algorithm every convolution of a prepared model runs, and why the others do not.
#ifndef OPSNN_OBSERVE_CONV_CHOICES_H_
#define OPSNN_OBSERVE_CONV_CHOICES_H_

#include <vector>

#include "graph/prepared.h"
#include "opsnn/model.h"

namespace opsnn::observe {

std::vector<ConvolutionChoice> ConvolutionChoices(const graph::Prepared& prepared);

}  // namespace opsnn::observe

#endif  // OPSNN_OBSERVE_CONV_CHOICES_H_
