// What a model declares of its values, held against what inference finds.
#ifndef OPSNN_GRAPH_DECLARED_H_
#define OPSNN_GRAPH_DECLARED_H_

#include <vector>

#include "graph/ir/graph.h"

namespace opsnn::graph {

// "[N,3,?]"
std::string DimsText(const Dims& dims, const std::vector<std::string>& names);

// A dtype, rank or size that contradicts the declaration is an error that names value, node and dims. Sizes
// that follow from what was fed (sizes_fixed is false) may outgrow a declaration that an exporter took from
// one example: they are logged, and an error in strict mode.
Status CheckDeclared(const Graph& g, const Declared& d, ValueId v, bool sizes_fixed);
// By declaration: the value that it is about, kNoValue where there is none.
std::vector<ValueId> DeclaredValues(const Graph& g);
// The same check for all declarations of g, about these values.
Status CheckAllDeclared(const Graph& g, const std::vector<ValueId>& values);

// Dims of one name must be equal: those of all inputs, by position, `dims` being what they were fed with.
Status CheckDimNames(const Graph& g, const std::vector<Dims>& dims);

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_DECLARED_H_
