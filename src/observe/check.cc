#include "observe/check.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "observe/compare.h"

namespace opsnn::observe {
namespace {

std::string OpName(const graph::Node& n, const graph::Graph& imported) {
  std::string name;
  for (graph::NodeId id : n.origins) name += (name.empty() ? "" : "+") + imported.nodes[id].op->name;
  return name.empty() ? n.op->name : name;
}

double LargestOf(DType t) {
  return t == DType::kF16 ? 65504.0 : t == DType::kF64 ? HUGE_VAL : std::numeric_limits<float>::max();
}

// Integers that doubles do not hold: equal or not.
NodeCheck CheckIntegers(const HostTensor& got, const std::vector<int64_t>& want) {
  NodeCheck check;
  const int64_t* values = got.as<int64_t>();
  for (size_t i = 0; i < want.size(); ++i) {
    if (values[i] == want[i]) continue;
    check.max_abs =
        std::fmax(check.max_abs, std::fabs(static_cast<double>(values[i]) - static_cast<double>(want[i])));
    if (!check.ok) continue;
    check.ok = false;
    check.share = std::numeric_limits<double>::infinity();
    check.note = StrFormat("element %zu is %lld, the reference has %lld", i,
                           static_cast<long long>(values[i]), static_cast<long long>(want[i]));
  }
  return check;
}

}  // namespace

int WinogradTile(const graph::Node& node) { return static_cast<int>(node.attrs.Int("winograd", 0)); }

NodeCheck CheckValue(const HostTensor& got, const Bounded& want, bool own_only) {
  NodeCheck check;
  if (got.size() != want.value.size()) {
    check.ok = false;
    check.share = std::numeric_limits<double>::infinity();
    check.note = StrFormat("%lld elements, the reference has %lld", static_cast<long long>(got.size()),
                           static_cast<long long>(want.value.size()));
    return check;
  }
  if (got.dtype() == DType::kS64 && !want.value.exact.empty()) return CheckIntegers(got, want.value.exact);
  std::vector<double> bound(want.value.v.size(), 0), values = ToDoubles(got), expected = want.value.v;
  if (!IsFloat(got.dtype()) && !want.error.empty()) bound = want.error;
  if (IsFloat(got.dtype())) {
    const double store = UnitRoundoff(got.dtype()), largest = LargestOf(got.dtype());
    for (size_t i = 0; i < bound.size(); ++i) {
      const double v = std::isfinite(expected[i]) ? std::fabs(expected[i]) : 0;
      const double passed = own_only && !want.passed.empty() ? want.passed[i] : 0;
      const double error = want.error.empty() ? 0 : want.error[i] - passed;
      bound[i] = kBoundFactor * error + 2 * store * v + SmallestStep(got.dtype());
      // What overflows the compute type may come out as an infinity or NaN: there is nothing to compare then.
      const double reach = std::fabs(expected[i]) + error / (4 * UnitRoundoff(DType::kF32));
      if (!std::isfinite(values[i]) && !(reach < largest)) values[i] = expected[i] = 0;
    }
  }
  const Comparison c = Compare(values, expected, bound);
  check.cosine = c.cosine;
  check.max_abs = c.max_abs;
  check.max_rel = c.max_rel;
  check.share = c.share;
  check.bound = c.bound;
  check.ok = !(c.share > 1);
  return check;
}

std::vector<NodeCheck> CheckStep(const graph::Node& node, const std::vector<std::string>& values,
                                 const Form& form, const graph::Graph& imported, Recomputer& recomputer) {
  if (node.origins.empty()) return {};
  const Status s = recomputer.Evaluate(node.origins, WinogradTile(node), form.OfModel(values));
  return CheckEvaluated(node, values, form, imported, recomputer, s, false);
}

std::vector<NodeCheck> CheckEvaluated(const graph::Node& node, const std::vector<std::string>& values,
                                      const Form& form, const graph::Graph& imported,
                                      const Recomputer& recomputer, const Status& s, bool own_only) {
  std::vector<NodeCheck> checks;
  for (const std::string& value : values) {
    const Bounded* want = s.ok() ? recomputer.Local(form.OfModel(value)) : nullptr;
    NodeCheck check;
    if (want) {
      check = CheckValue(*form.captured.at(value), *want, own_only);
    } else {
      check.checked = false;
      check.note = s.ok() ? "no reference for value \"" + value + "\"" : s.message();
    }
    check.node = node.name + (node.outputs.size() > 1 ? ":" + value : "");
    check.op = OpName(node, imported);
    checks.push_back(std::move(check));
  }
  return checks;
}

std::vector<NodeCheck> CheckOutputs(const Form& form, const graph::Graph& imported, Recomputer& recomputer) {
  std::vector<NodeCheck> checks;
  for (size_t i = 0; i < imported.outputs.size(); ++i) {
    const std::string& name = imported.values[imported.outputs[i]].name;
    NodeCheck check;
    if (const auto it = form.captured.find(name); it != form.captured.end()) {
      const HostTensor& got = *form.outputs[i];
      check.ok =
          got.bytes() == it->second->bytes() && std::memcmp(got.data(), it->second->data(), got.bytes()) == 0;
      if (check.ok) continue;  // checked where it was produced
      check.share = std::numeric_limits<double>::infinity();
      check.note = "the result is not the value that its node produced";
    } else {
      const Result<const Bounded*> want = recomputer.Read(name);
      if (want.ok()) {
        check = CheckValue(*form.outputs[i], **want);
      } else {
        check.checked = false;
        check.note = want.status().message();
      }
    }
    check.node = "output " + name;
    check.op = "Output";
    checks.push_back(std::move(check));
  }
  return checks;
}

}  // namespace opsnn::observe
