#include "ops/einsum/equation.h"

#include <algorithm>
#include <cctype>
#include <optional>

namespace opsnn::ops {
namespace {

constexpr Label kDots = -1;  // "..." before it is expanded

Status Bad(const std::string& text, const std::string& why) {
  return InvalidArgument("Einsum: attribute equation is \"%s\": %s", text.c_str(), why.c_str());
}

Result<Labels> ReadTerm(const std::string& text, const std::string& term) {
  Labels labels;
  for (size_t i = 0; i < term.size(); ++i) {
    const auto ch = static_cast<unsigned char>(term[i]);
    if (ch == '.') {
      if (term.compare(i, 3, "...") != 0) return Bad(text, "a dot that is no ellipsis");
      if (std::find(labels.begin(), labels.end(), kDots) != labels.end())
        return Bad(text, "a second ellipsis in one term");
      labels.push_back(kDots);
      i += 2;
    } else if (std::isalpha(ch)) {
      labels.push_back(ch);
    } else {
      return Bad(text, std::string("allowed are letters, commas, \"...\" and \"->\", not '") + term[i] + "'");
    }
  }
  return labels;
}

void ExpandDots(Labels* labels, int dims) {
  const auto at = std::find(labels->begin(), labels->end(), kDots);
  if (at == labels->end()) return;
  const auto where = labels->erase(at);
  Labels dots;
  for (int k = dims; k > 0; --k) dots.push_back(kEllipsis + k);
  labels->insert(where, dots.begin(), dots.end());
}

Status AddSize(const std::string& text, Label label, int64_t n, std::map<Label, int64_t>* sizes) {
  const auto [it, fresh] = sizes->emplace(label, n);
  if (fresh || it->second == n || n == 1) return OkStatus();
  if (it->second == 1 || it->second == kUnknownDim) {
    it->second = it->second == 1 || n != kUnknownDim ? n : it->second;
    return OkStatus();
  }
  if (n == kUnknownDim) return OkStatus();
  const std::string name = label < kEllipsis ? std::string(1, static_cast<char>(label)) : "...";
  return Bad(text, StrFormat("dims %lld and %lld of \"%s\" disagree", static_cast<long long>(it->second),
                             static_cast<long long>(n), name.c_str()));
}

// All ellipsis dims, then the letters that appear once, in alphabetical order.
Labels ImplicitOutput(const std::vector<Labels>& operands, int dots) {
  std::map<Label, int> count;
  for (const Labels& labels : operands)
    for (const Label l : labels) ++count[l];
  Labels out;
  for (int k = dots; k > 0; --k) out.push_back(kEllipsis + k);
  for (const auto& [label, n] : count)
    if (n == 1 && label < kEllipsis) out.push_back(label);
  return out;
}

}  // namespace

Dims Equation::OutputDims() const {
  Dims d;
  for (const Label l : output) d.push_back(size.at(l));
  return d;
}

Result<Equation> ParseEquation(const std::string& text, const std::vector<Dims>& operands) {
  std::string compact;
  for (const char ch : text)
    if (!std::isspace(static_cast<unsigned char>(ch))) compact += ch;
  const size_t arrow = compact.find("->");
  const std::string left = compact.substr(0, arrow);
  Equation e;
  for (size_t begin = 0; begin <= left.size();) {
    const size_t end = std::min(left.find(',', begin), left.size());
    OPSNN_ASSIGN_OR_RETURN(Labels labels, ReadTerm(text, left.substr(begin, end - begin)));
    e.operands.push_back(std::move(labels));
    begin = end + 1;
  }
  if (e.operands.size() != operands.size()) {
    return Bad(text, StrFormat("%zu terms for %zu inputs", e.operands.size(), operands.size()));
  }
  int most = 0;  // dims that an ellipsis stands for
  for (size_t i = 0; i < operands.size(); ++i) {
    Labels& labels = e.operands[i];
    const bool dots = std::find(labels.begin(), labels.end(), kDots) != labels.end();
    const int rest = operands[i].rank() - static_cast<int>(labels.size()) + (dots ? 1 : 0);
    if (rest < 0 || (!dots && rest > 0)) {
      return Bad(text, StrFormat("term %zu does not fit the shape %s of its input", i + 1,
                                 ToString(operands[i]).c_str()));
    }
    ExpandDots(&labels, rest);
    most = std::max(most, rest);
    for (int d = 0; d < operands[i].rank(); ++d)
      OPSNN_RETURN_IF_ERROR(AddSize(text, labels[static_cast<size_t>(d)], operands[i][d], &e.size));
  }
  if (arrow == std::string::npos) {
    e.output = ImplicitOutput(e.operands, most);
  } else {
    OPSNN_ASSIGN_OR_RETURN(e.output, ReadTerm(text, compact.substr(arrow + 2)));
    ExpandDots(&e.output, most);
  }
  Labels sorted = e.output;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    return Bad(text, "a letter appears twice in the output");
  for (const Label l : e.output)
    if (e.size.count(l) == 0) return Bad(text, "the output has a letter that no input has");
  if (e.output.size() > kMaxRank)
    return Bad(text, StrFormat("the result has rank %zu; allowed: 8", e.output.size()));
  return e;
}

}  // namespace opsnn::ops
