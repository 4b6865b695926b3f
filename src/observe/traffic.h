// What each step of a planned model computes and moves, by unit and by memory level of a device profile.
#ifndef OPSNN_OBSERVE_TRAFFIC_H_
#define OPSNN_OBSERVE_TRAFFIC_H_

#include <vector>

#include "device/profile.h"
#include "graph/prepared.h"
#include "opsnn/model.h"

namespace opsnn::observe {

// The counters follow from shapes, tiles and levels alone; nothing runs. Views are left out.
std::vector<NodeTraffic> TrafficOf(const graph::Prepared& prepared, const device::DeviceProfile& profile);
// Operations of one node, its chain included; below 0: not known.
double OperationsOf(const graph::Graph& g, graph::NodeId n);
// Of a node that is neither one contraction nor one program, without its chain; below 0: not known.
double OtherOperations(const graph::Graph& g, const graph::Node& n);

}  // namespace opsnn::observe

#endif  // OPSNN_OBSERVE_TRAFFIC_H_
