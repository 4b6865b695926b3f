// Einsum, as the sum over all labels that the output lacks.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "ref/internal.h"

namespace opsnn::ref {
namespace {

// A label is its letter, or for dim k from the right of an ellipsis kEllipsis + k.
constexpr int kEllipsis = 256;
using Labels = std::vector<int>;

Labels Parse(const std::string& term, int ellipsis_rank) {
  Labels labels;
  for (size_t i = 0; i < term.size(); ++i) {
    if (term[i] == '.') {
      for (int k = ellipsis_rank; k-- > 0;) labels.push_back(kEllipsis + k);
      i += 2;
    } else if (term[i] != ' ') {
      labels.push_back(static_cast<unsigned char>(term[i]));
    }
  }
  return labels;
}

Status Einsum(Call& c) {
  std::string equation = c.attrs->String("equation", "");
  std::erase(equation, ' ');
  const size_t arrow = equation.find("->");
  std::string left = equation.substr(0, arrow);
  std::vector<Labels> terms;
  std::map<int, int64_t> sizes;
  std::map<int, int> uses;
  int ellipsis = 0;
  for (const Tensor* t : c.inputs) {
    const size_t comma = std::min(left.find(','), left.size());
    const std::string term = left.substr(0, comma);
    left.erase(0, comma + 1);
    const bool dots = term.find('.') != std::string::npos;
    const int rank = dots ? t->dims.rank() - (static_cast<int>(term.size()) - 3) : 0;
    ellipsis = std::max(ellipsis, rank);
    terms.push_back(Parse(term, rank));
    for (size_t d = 0; d < terms.back().size(); ++d) {
      int64_t& size = sizes.emplace(terms.back()[d], 1).first->second;
      if (t->dims[static_cast<int>(d)] != 1) size = t->dims[static_cast<int>(d)];
      ++uses[terms.back()[d]];
    }
  }
  Labels out, all;
  if (arrow != std::string::npos) {
    out = Parse(equation.substr(arrow + 2), ellipsis);
  } else {
    for (int k = ellipsis; k-- > 0;) out.push_back(kEllipsis + k);
    for (const auto& [label, n] : uses)
      if (label < kEllipsis && n == 1) out.push_back(label);
  }
  all = out;
  Dims dims, every;
  for (int l : out) dims.push_back(sizes.at(l)), every.push_back(sizes.at(l));
  c.reduction_length = 1;
  std::vector<int64_t> extents(dims.begin(), dims.end());
  for (const auto& [label, size] : sizes) {
    if (std::find(out.begin(), out.end(), label) != out.end()) continue;
    all.push_back(label);
    extents.push_back(size);
    c.reduction_length *= size;
  }
  std::map<int, size_t> place;
  for (size_t i = 0; i < all.size(); ++i) place[all[i]] = i;
  Tensor y = Tensor::Make(c.in(0).dtype, dims);
  c.abs_sum.assign(y.v.size(), 0);
  std::vector<int64_t> index(all.size(), 0);
  const int64_t total = y.size() * c.reduction_length;
  for (int64_t n = 0; n < total; ++n) {
    double product = 1;
    for (size_t k = 0; k < terms.size(); ++k) {
      const Tensor& t = *c.inputs[k];
      int64_t at = 0;
      for (size_t d = 0; d < terms[k].size(); ++d) {
        const int64_t size = t.dims[static_cast<int>(d)];
        at = at * size + (size == 1 ? 0 : index[place.at(terms[k][d])]);
      }
      product *= t.v[static_cast<size_t>(at)];
    }
    const size_t at = static_cast<size_t>(n / c.reduction_length);
    y.v[at] += product;
    c.abs_sum[at] += std::fabs(product);
    for (size_t i = index.size(); i-- > 0 && ++index[i] == extents[i];) index[i] = 0;
  }
  // Operands are multiplied two at a time: more of them round more often.
  c.reduction_length *= static_cast<int64_t>(terms.size() * terms.size());
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

constexpr Entry kTable[] = {{"Einsum", Einsum}};

}  // namespace

std::span<const Entry> EinsumTable() { return kTable; }

}  // namespace opsnn::ref
