// From nodes to the edges that the judge decides on, and the verdicts by rule.
#ifndef OPSNN_GRAPH_FUSION_EDGES_H_
#define OPSNN_GRAPH_FUSION_EDGES_H_

#include <optional>
#include <string>
#include <vector>

#include "graph/fusion/chain_builder.h"
#include "graph/pass_manager.h"
#include "graph/passes/rewriter.h"
#include "graph/plan_template.h"
#include "plan/judge.h"
#include "plan/pair.h"

namespace opsnn::graph {

// The contraction of a Conv, ConvTranspose, MatMul or Gemm node as the judge sees it (without its tail);
// nullopt for operators it has no model of. `text`: with its place and shape in words.
std::optional<plan::ContractionEdge> AsContraction(const Graph& g, NodeId n, bool text = true);

// "8x16x24x24": the shape of a node's first output, for people.
std::string ShapeText(const Graph& g, NodeId n);
std::string ShapeText(const Dims& dims);

// The judge's answer alone, as the passes take it while a run is planned.
Answer AskJudge(const PassContext& c, plan::ContractionEdge e);
Answer AskJudge(const PassContext& c, plan::PairEdge e);
Answer AskJudge(const PassContext& c, plan::PointwiseEdge e);

// Asks the judge; under FusionMode::kForce the verdict becomes "fuse" and says so. Sets where and shape, and
// appends the decision to the graph.
bool Judge(Graph& g, const PassContext& c, plan::ContractionEdge e);
bool Judge(Graph& g, const PassContext& c, const plan::ChainedEdge& e);
bool Judge(Graph& g, const PassContext& c, plan::PairEdge e);
bool JudgeRows(Graph& g, const PassContext& c, const plan::ContractionEdge& e);  // a row reduction behind
// Softmax or a norm behind a product of one matrix, which the row_chain pass decides about.
bool MayHoldRows(const Graph& g, NodeId product, NodeId row);
bool Judge(Graph& g, const PassContext& c, plan::PointwiseEdge e);
bool Judge(Graph& g, const PassContext& c, const plan::RowEdge& e);
bool Judge(Graph& g, const PassContext& c, const plan::ConversionEdge& e);
void Refuse(Graph& g, const PassContext& c, std::string chain, NodeId where, DType dtype, std::string reason);

// Records, for the readers of value v that the group behind `seed` did not take, why not. Only readers that
// could fuse in principle: pointwise and row operators.
void RecordBoundary(Rewriter& r, const PassContext& c, NodePrograms& programs, NodeId seed,
                    const std::vector<NodeId>& group, ValueId v);

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_FUSION_EDGES_H_
