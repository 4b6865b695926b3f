#include "capi/words.h"

#include <cctype>
#include <string_view>
#include <vector>

namespace opsnn::capi {
namespace {

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Lower case, without underscores: "reduceDim" and "reduce_dim" are one name.
std::string Letters(std::string_view name) {
  std::string letters;
  for (const char c : name)
    if (c != '_') letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return letters;
}

// What the functions call the attributes that operators share.
constexpr struct {
  const char *attribute, *param;
} kOtherNames[] = {{"axis", "dim"},        {"axes", "dim"},        {"kernel_shape", "kernelSize"},
                   {"strides", "stride"},  {"pads", "padding"},    {"dilations", "dilation"},
                   {"epsilon", "eps"},     {"k", "topK"},          {"group", "groups"},
                   {"repeats", "repeats"}, {"keepdims", "keepDim"}};

// The parameter from which an operand or attribute of the function's own operator comes; "" for none.
std::string ParamOf(const OpsnnFunction& f, std::string_view word) {
  for (const op::AclnnBind& b : f.declaration->bind)
    if (word == b.operand) return f.params[static_cast<size_t>(b.param)].name;
  std::vector<std::string> names = {Letters(word)};
  for (const auto& other : kOtherNames)
    if (word == other.attribute) names.push_back(Letters(other.param));
  for (const std::string& name : names) {
    for (const Param& p : f.params)
      if (Letters(p.name) == name) return p.name;
  }
  return "";
}

// The name of the operand `word`, of those of one side; "" for none.
std::string NameOf(const OpsnnFunction& f, std::span<const op::OperandDecl> operands,
                   std::span<const std::string> names, std::string_view word) {
  for (size_t i = 0; i < operands.size(); ++i) {
    if (word != operands[i].name) continue;
    return i < names.size() && !names[i].empty() ? names[i] : ParamOf(f, word);
  }
  return "";
}

// X, W1, dY: not a word that a sentence has.
bool IsSymbol(std::string_view word) {
  const auto upper = [&](size_t i) {
    return i < word.size() && std::isupper(static_cast<unsigned char>(word[i]));
  };
  return upper(0) || (word.size() <= 3 && upper(1));
}

}  // namespace

Status InWordsOf(const OpsnnFunction& function, const op::OpDef* op, std::span<const std::string> operands,
                 size_t num_inputs, const Status& status) {
  const std::string api = std::string(function.api) + ": ";
  std::string text = status.message();
  if (text.rfind(api, 0) == 0) return status;
  if (op == nullptr || op->declaration == nullptr) return Status(status.code(), api + text);
  const auto inputs = operands.first(num_inputs), outputs = operands.subspan(num_inputs);
  if (text.rfind(op->name + ": ", 0) == 0) text.erase(0, op->name.size() + 2);
  std::string said = api;
  std::string_view before;  // the word in front, with nothing but a space between
  for (size_t i = 0; i < text.size();) {
    if (!IsWord(text[i])) {
      if (text[i] != ' ') before = {};
      said += text[i++];
      continue;
    }
    size_t end = i;
    while (end < text.size() && IsWord(text[end])) ++end;
    const std::string_view word = std::string_view(text).substr(i, end - i);
    const bool input = before == "input", output = before == "output", attribute = before == "attribute";
    std::string name;
    if (attribute) name = ParamOf(function, word);
    if (!attribute && !output && (input || i == 0 || IsSymbol(word)))
      name = NameOf(function, op->declaration->inputs, inputs, word);
    if (!attribute && !input && name.empty() && (output || i == 0 || IsSymbol(word)))
      name = NameOf(function, op->declaration->outputs, outputs, word);
    if (!name.empty() && (input || output || attribute)) said.resize(said.size() - before.size() - 1);
    said += name.empty() ? std::string(word) : name;
    before = word;
    i = end;
  }
  return Status(status.code(), said);
}

}  // namespace opsnn::capi
