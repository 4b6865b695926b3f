#include "soak/case.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>

#include "base/dtype.h"
#include "capi/function.h"
#include "tensor/element.h"

namespace opsnn::soak {
namespace {

[[noreturn]] void Bad(const Row& row, std::string_view word) {
  std::fprintf(stderr, "hammer: %s has the argument \"%.*s\", which means nothing\n", row.api,
               static_cast<int>(word.size()), word.data());
  std::exit(2);
}

std::vector<std::string_view> Split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(at), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// Small and odd sizes: what is wrong shows in heads and tails, and calls stay short.
constexpr int64_t kMaxSize = 40;

class Drawing {
 public:
  Drawing(const Row& row, testing::Rng& rng) : row_(row), rng_(rng) {
    static constexpr DType kTypes[] = {DType::kF32, DType::kF32, DType::kF16, DType::kBF16};
    type_ = kTypes[rng.Int(0, 3)];
  }

  Case Make() {
    Case c;
    c.row = &row_;
    c.function = opsnn_aclnn_find(row_.api);
    if (!c.function) Bad(row_, "which no operator serves");
    for (const capi::Param& p : c.function->params) {
      if (p.has_dtypes && !op::Contains(p.dtypes, type_) && op::Contains(p.dtypes, DType::kF32)) {
        type_ = DType::kF32;  // not every function knows every half
      }
    }
    for (const std::string_view word : Split(row_.args, ' ')) c.arguments.push_back(Argument_(word, c));
    return c;
  }

 private:
  int64_t Size(std::string_view text) {
    int64_t number = 0;
    bool digits = false, negative = false;
    for (const char ch : text) {
      if (ch == '-') {
        negative = true;
      } else if (ch >= '0' && ch <= '9') {
        number = 10 * number + (ch - '0'), digits = true;
      } else if (ch == 'd') {  // of a concatenation: two of b and one of c
        return 2 * Size("b") + Size("c");
      } else {
        int64_t& size = sizes_[ch];
        if (!size) size = rng_.Int(1, kMaxSize);
        return (digits ? number : 1) * size;
      }
    }
    return negative ? -number : number;
  }

  std::vector<int64_t> Sizes(std::string_view text) {
    std::vector<int64_t> sizes;
    for (const std::string_view part : Split(text, ',')) sizes.push_back(Size(part));
    return sizes;
  }

  Operand Tensor(char kind, std::string_view dims) {
    Operand o;
    o.output = (kind >= 'A' && kind <= 'Z') || kind == 'z' || kind == 'g';
    o.input = kind >= 'a';
    const char lower = static_cast<char>(kind | 0x20);
    switch (lower) {
      case 'f':
      case 'g':
        o.dtype = DType::kF32;
        break;
      case 'l':
        o.dtype = DType::kS64;
        break;
      case 'k':
        o.dtype = DType::kS32;
        break;
      case 'q':
        o.dtype = DType::kBool;
        break;
      case 'h':
        o.dtype = DType::kF16;
        break;
      case 'c':
        o.dtype = DType::kS8;
        break;
      default:
        o.dtype = type_;
    }
    const size_t below = dims.find('<');
    o.dims = Sizes(dims.substr(0, below));
    double lo = row_.lo, hi = row_.hi;
    if (lower == 'q') lo = 0, hi = 1;
    if (lower == 'l' || lower == 'k')
      lo = 0, hi = below == dims.npos ? 9 : static_cast<double>(Size(dims.substr(below + 1)) - 1);
    int64_t count = 1;
    for (const int64_t d : o.dims) count *= d;
    const auto bytes = static_cast<size_t>(count) * SizeOf(o.dtype);
    if (o.output) o.want.assign(bytes, '\0');
    if (!o.input) return o;
    o.bytes.assign(bytes, '\0');
    const bool whole = !IsFloat(o.dtype);
    for (int64_t i = 0; i < count; ++i) {
      const double v = whole
                           ? static_cast<double>(rng_.Int(static_cast<int64_t>(lo), static_cast<int64_t>(hi)))
                           : rng_.Real(lo, hi);
      WriteElement(o.bytes.data() + static_cast<size_t>(i) * SizeOf(o.dtype), o.dtype, v);
    }
    return o;
  }

  Argument Argument_(std::string_view word, Case& c) {
    Argument a;
    if (word == "n") return a;
    if (word.size() < 2 || word[1] != ':') Bad(row_, word);
    const std::string_view rest = word.substr(2);
    switch (word[0]) {
      case 'i':
        a.kind = Argument::kInt;
        a.values = {Size(rest)};
        return a;
      case 'v':
        a.kind = Argument::kInts;
        a.values = Sizes(rest);
        return a;
      case 's':
      case 'd':
        a.kind = word[0] == 's' ? Argument::kScalar : Argument::kReal;
        a.real = std::strtod(std::string(rest).c_str(), nullptr);
        return a;
      case 'b':
        a.kind = Argument::kBools;
        a.values = Sizes(rest);
        return a;
      case 'w':
        a.kind = Argument::kText;
        a.text = rest;
        return a;
      case 't':
      case 'T':
        a.kind = Argument::kList;
        for (const std::string_view dims : Split(rest, '+')) {
          a.values.push_back(static_cast<int64_t>(c.operands.size()));
          c.operands.push_back(Tensor(word[0] == 't' ? 'x' : 'X', dims));
        }
        return a;
      default:
        if (!std::strchr("xflkqhczgXFLQHC", word[0])) Bad(row_, word);
        a.kind = Argument::kTensor;
        a.values = {static_cast<int64_t>(c.operands.size())};
        c.operands.push_back(Tensor(word[0], rest));
        return a;
    }
  }

  const Row& row_;
  testing::Rng& rng_;
  DType type_;
  std::map<char, int64_t> sizes_;
};

}  // namespace

Case Draw(const Row& row, testing::Rng& rng) { return Drawing(row, rng).Make(); }

Call::Call(const Case& c, const std::vector<void*>& addresses) : case_(c) {
  for (size_t k = 0; k < c.operands.size(); ++k) {
    const Operand& o = c.operands[k];
    tensors_.push_back(aclCreateTensor(o.dims.data(), o.dims.size(),
                                       static_cast<aclDataType>(Info(o.dtype).acl), nullptr, 0, ACL_FORMAT_ND,
                                       o.dims.data(), o.dims.size(), addresses[k]));
  }
  for (const Argument& a : c.arguments) {
    OpsnnArg arg{};
    switch (a.kind) {
      case Argument::kTensor:
        arg.p = tensors_[static_cast<size_t>(a.values[0])];
        break;
      case Argument::kList: {
        std::vector<const aclTensor*> members;
        for (const int64_t k : a.values) {
          members.push_back(std::exchange(tensors_[static_cast<size_t>(k)], nullptr));
        }
        lists_.push_back(aclCreateTensorList(members.data(), members.size()));
        arg.p = lists_.back();
        break;
      }
      case Argument::kScalar: {
        float value = static_cast<float>(a.real);
        scalars_.push_back(aclCreateScalar(&value, ACL_FLOAT));
        arg.p = scalars_.back();
        break;
      }
      case Argument::kInts:
        ints_.push_back(aclCreateIntArray(a.values.data(), a.values.size()));
        arg.p = ints_.back();
        break;
      case Argument::kBools: {
        bool values[8];
        std::copy(a.values.begin(), a.values.end(), values);
        bools_.push_back(aclCreateBoolArray(values, a.values.size()));
        arg.p = bools_.back();
        break;
      }
      case Argument::kText:
        arg.p = a.text.c_str();
        break;
      case Argument::kInt:
        arg.i = a.values[0];
        break;
      case Argument::kReal:
        arg.d = a.real;
        break;
      case Argument::kNull:
        break;
    }
    args_.push_back(arg);
  }
}

Call::~Call() {
  for (aclTensorList* l : lists_) aclDestroyTensorList(l);
  for (aclTensor* t : tensors_) aclDestroyTensor(t);
  for (aclScalar* s : scalars_) aclDestroyScalar(s);
  for (aclIntArray* a : ints_) aclDestroyIntArray(a);
  for (aclBoolArray* a : bools_) aclDestroyBoolArray(a);
}

int Call::Plan() {
  return opsnn_aclnn_plan(case_.function, args_.data(), static_cast<int>(args_.size()), &workspace_bytes_,
                          &executor_);
}

int Call::Run(void* workspace, aclrtStream stream) {
  return opsnn_aclnn_run(case_.function, workspace, workspace_bytes_, executor_, stream);
}

std::string CheckReference(const Case& c) {
  if (!c.row->unary && !c.row->binary) return "";
  const Operand* inputs[2] = {};
  const Operand* output = nullptr;
  size_t given = 0;
  for (const Operand& o : c.operands) {
    if (o.input && given < 2) inputs[given++] = &o;
    if (o.output) output = &o;
  }
  const auto read = [](const Operand& o, const std::string& bytes, size_t i) {
    return ReadElement(bytes.data() + i * SizeOf(o.dtype), o.dtype);
  };
  const size_t count = output->want.size() / SizeOf(output->dtype);
  for (size_t i = 0; i < count; ++i) {
    const double x = read(*inputs[0], inputs[0]->bytes, i);
    const double want =
        c.row->unary ? c.row->unary(x) : c.row->binary(x, read(*inputs[1], inputs[1]->bytes, i));
    const double got = read(*output, output->want, i);
    // The result is rounded once; f32 arithmetic in between may lose a few units in its last place.
    const double allowed = std::abs(want) * (testing::Epsilon(output->dtype) + 16 * 0x1p-24) +
                           (output->dtype == DType::kF16 ? 0x1p-25 : 0x1p-126);
    if (!(std::abs(got - want) <= allowed)) {
      char text[160];
      std::snprintf(text, sizeof text, "%s: element %zu is %.9g, should be %.9g", c.row->api, i, got, want);
      return text;
    }
  }
  return "";
}

}  // namespace opsnn::soak
