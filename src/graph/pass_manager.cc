#include "graph/pass_manager.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "graph/ir/known_ops.h"
#include "graph/passes/passes.h"
#include "graph/stopwatch.h"

namespace opsnn::graph {
namespace {

bool IsTranspose(const Node& n) { return n.op == Known().Transpose; }
bool IsReshape(const Node& n) {
  const KnownOps& k = Known();
  return n.op == k.Reshape || n.op == k.Flatten || n.op == k.Squeeze || n.op == k.Unsqueeze;
}
bool ReducesRows(const Node& n) {
  const KnownOps& k = Known();
  return n.op == k.Softmax || n.op == k.LayerNormalization || n.op == k.RMSNormalization;
}
bool IsBatchStatistics(const Node& n) { return n.op == Known().BatchNormalizationTraining; }
bool IsDequantising(const Node& n) { return n.op == Known().DequantizeLinear; }
bool IsTransData(const Node& n) { return n.op == Known().TransData; }
bool IsConv(const Node& n) { return n.op == Known().Conv; }
bool MakesParts(const Node& n) {
  const KnownOps& k = Known();
  return n.op == k.Split || n.op == k.Transpose || n.op == k.Concat;
}

constexpr Pass kLoadPasses[] = {
    // Before constant folding, which dequantises weights.
    {"integer_products", true, true, IntegerProducts, IsDequantising},
    {"byte_pools", true, false, BytePools, IsDequantising},
    {"constant_folding", false, false, ConstantFolding},
    {"identity_removal", false, false, IdentityRemoval},
    {"cse", false, false, CommonSubexpressions},
    {"conv_bn_folding", true, true, ConvBnFolding},
    {"batch_norm", true, true, BatchNorm},
    {"hardswish", true, true, HardSwish},
    {"swish", true, true, Swish},
    {"softplus", true, true, Softplus},
    {"gelu", true, true, Gelu},
    {"layernorm", true, true, LayerNorm},
    {"transposed_conv", true, true, TransposedConv},
    // Changes no bits, but pays only where parts are read in place, which do.
    {"merged_products", true, true, MergedProducts},
    {"dead_code", false, false, DeadCode},
};

constexpr Pass kPreparePasses[] = {
    {"identity_removal", false, false, IdentityRemoval},
    {"cse", false, false, CommonSubexpressions},
    {"transpose_placement", true, false, TransposePlacement, IsTranspose},
    {"transposes", true, false, TransposeSimplification, IsTranspose},
    {"reshapes", true, false, ReshapeSimplification, IsReshape},
    {"dead_code", false, false, DeadCode},
    // Statistics are summed by rows.
    {"conv_batch_norm", true, true, ConvBatchNorm, IsBatchStatistics},
    {"epilogue_fusion", true, false, EpilogueFusion},
    {"chained_products", true, false, ChainedProducts},
    {"depthwise_pairs", true, false, DepthwisePairs, IsConv},
    {"pointwise_chain", true, false, PointwiseChain},
    {"row_chain", true, false, RowChain, ReducesRows},
    {"layout", false, false, AssignLayouts},
    {"transdata_merge", false, false, TransDataMerge, IsTransData},
    {"image_order", true, false, ImageOrderInConversions, IsTranspose},
    {"winograd", false, true, WinogradTiles},
    // A product by few rows adds in another order where its operand lies transposed.
    {"parts_in_place", true, true, PartsInPlace, MakesParts},
};

struct PassFault {
  std::string pass;
  std::function<void(Graph&)> fault;
};
PassFault& Fault() {
  static auto* f = new PassFault;
  return *f;
}

void Count(std::vector<PassStat>* stats, const char* name, int matches, int effects, double us) {
  const auto it =
      std::find_if(stats->begin(), stats->end(), [&](const PassStat& s) { return s.name == name; });
  if (it == stats->end()) {
    stats->push_back({name, matches, effects, us});
  } else {
    it->matches += matches;
    it->effects += effects;
    it->us += us;
  }
}

}  // namespace

void SetPassFaultForTest(const std::string& pass, std::function<void(Graph&)> fault) {
  Fault() = {pass, std::move(fault)};
}

std::span<const Pass> LoadPasses() { return kLoadPasses; }
std::span<const Pass> PreparePasses() { return kPreparePasses; }

std::vector<std::string> PassNames() {
  std::vector<std::string> names;
  for (std::span<const Pass> list : {LoadPasses(), PreparePasses()})
    for (const Pass& p : list)
      if (std::find(names.begin(), names.end(), p.name) == names.end()) names.push_back(p.name);
  return names;
}

bool ListHas(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    if (list.substr(0, comma) == name) return true;
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return false;
}

Status CheckPassNames(const std::string& list) {
  const std::vector<std::string> names = PassNames();
  std::string all;
  for (const std::string& n : names) all += (all.empty() ? "" : ", ") + n;
  std::string_view rest = list;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string name(rest.substr(0, comma));
    if (std::find(names.begin(), names.end(), name) == names.end())
      return InvalidArgument("there is no graph pass \"%s\"; allowed: %s.", name.c_str(), all.c_str());
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return OkStatus();
}

namespace {

// These ask the judge about every edge and do what it says: where fusion is off they do nothing, but tell
// which edges there would be.
constexpr std::string_view kJudged[] = {"conv_batch_norm", "epilogue_fusion", "chained_products",
                                        "depthwise_pairs", "pointwise_chain", "row_chain"};

bool Runs(const Pass& p, const PassContext& c) {
  const bool judged = std::find(std::begin(kJudged), std::end(kJudged), p.name) != std::end(kJudged);
  if (p.is_fusion && c.fusion == FusionMode::kOff && !(c.record && judged)) return false;
  return !p.changes_bits || c.policy != NumericsPolicy::kExact;
}

}  // namespace

Status RunPasses(std::span<const Pass> passes, const std::string& off, Graph& g, PassContext& c,
                 std::vector<PassStat>* stats) {
  for (const Pass& p : passes) {
    if (ListHas(off, p.name) || !Runs(p, c)) continue;
    c.matches = c.effects = 0;
    const Stopwatch watch;
    if (!p.starts_at || std::any_of(g.nodes.begin(), g.nodes.end(), p.starts_at)) {
      const Status s = p.run(g, c);
      if (!s.ok()) return s.WithContext(std::string("graph pass ") + p.name);
    }
    if (Fault().pass == p.name) Fault().fault(g);
    const Status s = c.effects > 0 ? g.Sort() : OkStatus();
    if (!s.ok()) return s.WithContext(std::string("graph pass ") + p.name);
    Count(stats, p.name, c.matches, c.effects, watch.us());
  }
  return OkStatus();
}

}  // namespace opsnn::graph
