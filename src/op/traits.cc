#include "op/traits.h"

#include <unordered_map>
#include <vector>

#include "op/advice.h"
#include "op/declaration.h"

namespace opsnn::op {
namespace {

// Where the operator stands in the tables; their length where it does not.
size_t PlaceOf(const OpDef& def) {
  static const auto& places = *[] {
    auto* all = new std::unordered_map<const Declaration*, size_t>;
    const std::span<const OperatorEntry> table = OperatorTable();
    for (size_t i = 0; i < table.size(); ++i) all->emplace(table[i].declaration, i);
    return all;
  }();
  const auto it = places.find(def.declaration);
  return it == places.end() ? places.size() : it->second;
}

}  // namespace

const Traits& TraitsOf(const OpDef& def) {
  static const Traits none;
  const size_t place = PlaceOf(def);
  return place < TraitsTable().size() ? TraitsTable()[place] : none;
}

const Advice& AdviceOf(const OpDef& def) {
  static const Advice none;
  static const auto& given = *[] {
    auto* all = new std::vector<Advice>(TraitsTable().size());
    for (size_t i = 0; i < all->size(); ++i)
      if (TraitsTable()[i].advise) TraitsTable()[i].advise((*all)[i]);
    return all;
  }();
  const size_t place = PlaceOf(def);
  return place < given.size() ? given[place] : none;
}

}  // namespace opsnn::op
