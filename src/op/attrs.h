// Attrs: the named attributes of an operator call.
#ifndef OPSNN_OP_ATTRS_H_
#define OPSNN_OP_ATTRS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tensor/host_tensor.h"

namespace opsnn::op {

using AttrValue = std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                               std::vector<std::string>, ConstTensor>;

class Attrs {
 public:
  void Set(std::string name, AttrValue v) { values_[std::move(name)] = std::move(v); }
  void Erase(std::string_view name) {
    if (auto it = values_.find(name); it != values_.end()) values_.erase(it);
  }
  bool Has(std::string_view name) const { return values_.find(name) != values_.end(); }
  // The value, or `fallback` when absent or of another type (types were checked against the declaration).
  int64_t Int(std::string_view name, int64_t fallback) const { return Get<int64_t>(name, fallback); }
  double Float(std::string_view name, double fallback) const;  // also from an int attribute
  std::string String(std::string_view name, std::string fallback) const {
    return Get<std::string>(name, std::move(fallback));
  }
  std::vector<int64_t> Ints(std::string_view name) const { return Get<std::vector<int64_t>>(name, {}); }
  std::vector<double> Floats(std::string_view name) const { return Get<std::vector<double>>(name, {}); }
  ConstTensor Tensor(std::string_view name) const { return Get<ConstTensor>(name, nullptr); }
  const std::map<std::string, AttrValue, std::less<>>& all() const { return values_; }

 private:
  template <typename T>
  T Get(std::string_view name, T fallback) const {
    auto it = values_.find(name);
    if (it == values_.end()) return fallback;
    const T* v = std::get_if<T>(&it->second);
    return v ? *v : fallback;
  }
  std::map<std::string, AttrValue, std::less<>> values_;
};

}  // namespace opsnn::op

#endif  // OPSNN_OP_ATTRS_H_
