#include "graph/ir/text.h"

#include <bit>
#include <charconv>
#include <cstring>
#include <set>

#include "graph/control.h"
#include "op/declaration.h"

namespace opsnn::graph {
namespace {

constexpr std::string_view kHeader = "opsnn-graph 1\n";
constexpr char kHex[] = "0123456789abcdef";

// ---- writing

std::string Quoted(const std::string& s) {
  std::string out = "\"";
  for (const char c : s) {
    const auto u = static_cast<unsigned char>(c);
    if (u < 0x20 || c == '"' || c == '\\') {
      out += {'\\', kHex[u >> 4], kHex[u & 15]};
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string One(int64_t i) { return std::to_string(i); }
std::string One(double d) { return StrFormat("%a", d); }
std::string One(const std::string& s) { return Quoted(s); }

template <typename List>
std::string ListOf(const List& list) {
  std::string s = "[";
  for (const auto& e : list) s += (s.size() > 1 ? "," : "") + One(e);
  return s + "]";
}

std::string TensorText(const HostTensor& t) {
  std::string s = std::string(Name(t.dtype())) + " " + ListOf(t.dims()) + " ";
  const unsigned char* bytes = static_cast<const unsigned char*>(t.data());
  for (size_t i = 0; i < t.bytes(); ++i) s += {kHex[bytes[i] >> 4], kHex[bytes[i] & 15]};
  return s + (t.bytes() == 0 ? "-" : "");
}

struct AttrText {
  std::string operator()(int64_t i) const { return "int " + One(i); }
  std::string operator()(double d) const { return "float " + One(d); }
  std::string operator()(const std::string& s) const { return "string " + One(s); }
  std::string operator()(const std::vector<int64_t>& v) const { return "ints " + ListOf(v); }
  std::string operator()(const std::vector<double>& v) const { return "floats " + ListOf(v); }
  std::string operator()(const std::vector<std::string>& v) const { return "strings " + ListOf(v); }
  std::string operator()(const ConstTensor& t) const { return t ? "tensor " + TensorText(*t) : "none"; }
};

std::string TypeText(const Value& v) {
  if (!v.desc.known_rank) return "*";
  std::string s = std::string(Name(v.desc.dtype)) + " " + ListOf(v.desc.dims);
  for (const std::string& name : v.dim_names)
    if (!name.empty()) return s + " " + ListOf(v.dim_names);
  return s;
}

Status CheckWritable(const Graph& g) {
  for (const Value& v : g.values) {
    if (v.desc.layout == Layout() && v.desc.strides.empty() && !v.stored && v.offset == 0) continue;
    return InvalidArgument("graph %s: value %s has a layout; allowed: graphs before any pass", g.name.c_str(),
                           v.name.c_str());
  }
  for (const Node& n : g.nodes) {
    if (n.dead || (!n.tail && !BodiesOf(n))) continue;
    return InvalidArgument("graph %s: node %s (%s) holds %s, which has no text; allowed: nodes without",
                           g.name.c_str(), n.name.c_str(), n.op->name.c_str(),
                           n.tail ? "a fused chain" : "graphs of its own");
  }
  return OkStatus();
}

// ---- reading

class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  Result<Graph> Run() {
    if (!IsText(rest_)) return Wrong("opsnn-graph 1");
    Line();
    while (Line()) {
      const std::string word = Word();
      Status s = word == "graph"                 ? ReadName()
                 : word == "input"               ? ReadInput()
                 : word == "constant"            ? ReadConstant()
                 : word == "node"                ? ReadNode()
                 : word == "output"              ? ReadOutput()
                 : line_.empty() && word.empty() ? OkStatus()
                                                 : Wrong("graph, input, constant, node or output");
      OPSNN_RETURN_IF_ERROR(s);
      if (Skip(), at_ < line_.size()) return Wrong("the end of the line");
    }
    if (g_.outputs.empty()) return InvalidArgument("graph text: there is no output; allowed: one or more");
    OPSNN_RETURN_IF_ERROR(g_.Sort());
    return std::move(g_);
  }

 private:
  // Attributes are the lines that begin with a space.
  bool Line() {
    if (rest_.empty()) return false;
    const size_t end = std::min(rest_.find('\n'), rest_.size());
    line_ = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    at_ = 0;
    ++number_;
    return true;
  }
  Status Wrong(const std::string& allowed) const {
    constexpr size_t kShown = 60;
    return InvalidArgument("graph text: line %d, behind \"%.*s\": allowed: %s", number_,
                           static_cast<int>(std::min(kShown, at_)), line_.data(), allowed.c_str());
  }
  void Skip() {
    while (at_ < line_.size() && line_[at_] == ' ') ++at_;
  }
  bool Take(char c) {
    Skip();
    if (at_ >= line_.size() || line_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string Word() {
    Skip();
    const size_t begin = at_;
    while (at_ < line_.size() && std::strchr(" ,[]\"", line_[at_]) == nullptr) ++at_;
    return std::string(line_.substr(begin, at_ - begin));
  }
  static int Nibble(char c) {
    const char* found = c ? std::strchr(kHex, c) : nullptr;
    return found ? static_cast<int>(found - kHex) : -1;
  }

  Status Read(int64_t* v) {
    const std::string word = Word();
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), *v);
    return error == std::errc() && end == word.data() + word.size() ? OkStatus() : Wrong("an integer");
  }
  Status Read(double* v) {
    const std::string word = Word();
    char* end = nullptr;
    *v = std::strtod(word.c_str(), &end);
    return !word.empty() && *end == '\0' ? OkStatus() : Wrong("a number");
  }
  Status Read(std::string* s) {
    if (!Take('"')) return Wrong("a name in double quotes");
    for (s->clear(); at_ < line_.size() && line_[at_] != '"'; ++at_) {
      if (line_[at_] != '\\') {
        *s += line_[at_];
        continue;
      }
      const int high = at_ + 2 < line_.size() ? Nibble(line_[at_ + 1]) : -1,
                low = at_ + 2 < line_.size() ? Nibble(line_[at_ + 2]) : -1;
      if (high < 0 || low < 0) return Wrong("two hex digits behind a backslash");
      *s += static_cast<char>(high << 4 | low);
      at_ += 2;
    }
    return Take('"') ? OkStatus() : Wrong("the closing double quote");
  }
  template <typename T>
  Status Read(std::vector<T>* list) {
    list->clear();
    if (!Take('[')) return Wrong("[");
    while (!Take(']')) {
      if (!list->empty() && !Take(',')) return Wrong(", or ]");
      T item{};
      OPSNN_RETURN_IF_ERROR(Read(&item));
      list->push_back(std::move(item));
    }
    return OkStatus();
  }

  Status ReadDims(Dims* dims, int64_t least) {
    std::vector<int64_t> list;
    OPSNN_RETURN_IF_ERROR(Read(&list));
    if (list.size() > kMaxRank) return Wrong(StrFormat("at most %d dims", kMaxRank));
    for (const int64_t d : list)
      if (d < least) return Wrong(StrFormat("dims from %lld", static_cast<long long>(least)));
    *dims = Dims(list);
    return OkStatus();
  }
  Status ReadDType(DType* t) {
    const auto type = DTypeFromName(Word());
    if (!type) return Wrong("an element type, f32");
    *t = *type;
    return OkStatus();
  }
  Status ReadType(Value* v) {
    Skip();
    if (Take('*')) {
      v->desc.known_rank = false;
      return OkStatus();
    }
    OPSNN_RETURN_IF_ERROR(ReadDType(&v->desc.dtype));
    OPSNN_RETURN_IF_ERROR(ReadDims(&v->desc.dims, kUnknownDim));
    Skip();
    if (at_ >= line_.size() || line_[at_] != '[') return OkStatus();
    OPSNN_RETURN_IF_ERROR(Read(&v->dim_names));
    return v->dim_names.size() == static_cast<size_t>(v->desc.dims.rank()) ? OkStatus()
                                                                           : Wrong("a name for every dim");
  }
  Result<ConstTensor> ReadTensor() {
    DType type = DType::kF32;
    Dims dims;
    OPSNN_RETURN_IF_ERROR(ReadDType(&type));
    OPSNN_RETURN_IF_ERROR(ReadDims(&dims, 0));
    Skip();
    const size_t end = std::min(line_.find_first_of(" ,[]\"", at_), line_.size());
    std::string_view hex = line_.substr(at_, end - at_);
    if (hex == "-") hex = {};
    const auto count = CheckedNumElements(dims);
    if (!count || hex.size() / 2 / SizeOf(type) != static_cast<size_t>(*count) ||
        hex.size() % (2 * SizeOf(type)) != 0)
      return Wrong("two hex digits for every byte of " + ToString(dims) + " elements");
    auto t = std::make_shared<HostTensor>(type, dims);
    if (!t->ok()) return Errorf(Code::kRuntime, "graph text: no memory for a constant");
    for (size_t i = 0; i < t->bytes(); ++i) {
      const int high = Nibble(hex[2 * i]), low = Nibble(hex[2 * i + 1]);
      if (high < 0 || low < 0) return Wrong("hex digits");
      t->as<unsigned char>()[i] = static_cast<unsigned char>(high << 4 | low);
    }
    at_ = end;
    return ConstTensor(std::move(t));
  }

  // The number of a new value: numbers count up from 0.
  Status ReadNew() {
    int64_t id = 0;
    OPSNN_RETURN_IF_ERROR(Read(&id));
    const auto next = static_cast<int64_t>(g_.values.size());
    return id == next ? OkStatus() : Wrong(StrFormat("%lld, the next number", static_cast<long long>(next)));
  }
  Status CheckUsed(int64_t id, int64_t least) const {
    return id >= least && id < static_cast<int64_t>(g_.values.size())
               ? OkStatus()
               : Wrong("the number of a value that is defined above");
  }

  Status ReadName() { return Read(&g_.name); }
  Status ReadInput() {
    Value v;
    OPSNN_RETURN_IF_ERROR(ReadNew());
    OPSNN_RETURN_IF_ERROR(Read(&v.name));
    OPSNN_RETURN_IF_ERROR(ReadType(&v));
    if (!names_.insert(v.name).second) return Wrong("a name that no other input has");
    g_.inputs.push_back(g_.AddValue(std::move(v)));
    return OkStatus();
  }
  Status ReadConstant() {
    std::string name;
    OPSNN_RETURN_IF_ERROR(ReadNew());
    OPSNN_RETURN_IF_ERROR(Read(&name));
    OPSNN_ASSIGN_OR_RETURN(ConstTensor t, ReadTensor());
    g_.AddConstant(std::move(name), std::move(t));
    return OkStatus();
  }
  Status ReadOutput() {
    int64_t id = 0;
    OPSNN_RETURN_IF_ERROR(Read(&id));
    OPSNN_RETURN_IF_ERROR(CheckUsed(id, 0));
    g_.outputs.push_back(static_cast<ValueId>(id));
    return OkStatus();
  }

  Status ReadNode() {
    std::string op;
    Node n;
    OPSNN_RETURN_IF_ERROR(Read(&op));
    OPSNN_RETURN_IF_ERROR(Read(&n.name));
    n.op = op::FindOperator(op);
    if (!n.op) return Wrong("the name of an operator, as opsnn ops lists them");
    std::vector<int64_t> inputs;
    OPSNN_RETURN_IF_ERROR(Read(&inputs));
    for (const int64_t id : inputs) {
      OPSNN_RETURN_IF_ERROR(CheckUsed(id, kNoValue));
      n.inputs.push_back(static_cast<ValueId>(id));
    }
    n.num_op_inputs = static_cast<int>(n.inputs.size());
    n.origins = {static_cast<NodeId>(g_.nodes.size())};
    OPSNN_RETURN_IF_ERROR(ReadResults(&n));
    if (Skip(), at_ < line_.size()) return Wrong("the end of the line");
    while (!rest_.empty() && rest_[0] == ' ') {
      Line();
      OPSNN_RETURN_IF_ERROR(ReadAttr(&n));
    }
    if (Status s = CheckCall(n); !s.ok()) return s.WithContext(StrFormat("graph text: line %d", number_));
    g_.AddNode(std::move(n));
    return OkStatus();
  }
  // Numbers of operands and results, those that must be there, attributes. Element types are not known yet:
  // every operand is one that its operator takes.
  static Status CheckCall(const Node& n) {
    if (n.op->tail_is_program)
      return InvalidArgument("%s: got it as a node; allowed: operators that need no chain",
                             n.op->name.c_str());
    const op::Declaration& d = *n.op->declaration;
    std::vector<op::TensorDesc> descs(n.inputs.size());
    std::vector<const op::TensorDesc*> inputs;
    for (size_t i = 0; i < n.inputs.size() && !d.inputs.empty(); ++i) {
      const op::OperandDecl& decl = d.inputs[std::min(i, d.inputs.size() - 1)];
      const auto taken = static_cast<unsigned>(decl.dtypes);
      descs[i].dtype = decl.same_as >= 0 && static_cast<size_t>(decl.same_as) < i
                           ? descs[static_cast<size_t>(decl.same_as)].dtype
                           : static_cast<DType>(std::countr_zero(taken));
      inputs.push_back(n.inputs[i] == kNoValue ? nullptr : &descs[i]);
    }
    op::InferContext c;
    c.inputs = inputs;
    c.attrs = &n.attrs.get();
    c.num_outputs = static_cast<int>(n.outputs.size());
    return op::Check(*n.op, c);
  }
  Status ReadResults(Node* n) {
    if (!Take('[')) return Wrong("[");
    while (!Take(']')) {
      if (!n->outputs.empty() && !Take(',')) return Wrong(", or ]");
      if (Skip(), at_ + 1 < line_.size() && line_[at_] == '-') {
        at_ += 2;  // -1: absent
        n->outputs.push_back(kNoValue);
        continue;
      }
      Value v;
      OPSNN_RETURN_IF_ERROR(ReadNew());
      OPSNN_RETURN_IF_ERROR(Read(&v.name));
      OPSNN_RETURN_IF_ERROR(ReadType(&v));
      n->outputs.push_back(g_.AddValue(std::move(v)));
    }
    return n->outputs.empty() ? Wrong("one result or more") : OkStatus();
  }
  template <typename T>
  Status ReadInto(Node* n, const std::string& name) {
    T value{};
    OPSNN_RETURN_IF_ERROR(Read(&value));
    n->attrs.Set(name, std::move(value));
    return OkStatus();
  }
  Status ReadAttr(Node* n) {
    std::string name;
    OPSNN_RETURN_IF_ERROR(Read(&name));
    const std::string kind = Word();
    if (kind == "int") return ReadInto<int64_t>(n, name);
    if (kind == "float") return ReadInto<double>(n, name);
    if (kind == "string") return ReadInto<std::string>(n, name);
    if (kind == "ints") return ReadInto<std::vector<int64_t>>(n, name);
    if (kind == "floats") return ReadInto<std::vector<double>>(n, name);
    if (kind == "strings") return ReadInto<std::vector<std::string>>(n, name);
    if (kind != "tensor") return Wrong("int, float, string, ints, floats, strings or tensor");
    OPSNN_ASSIGN_OR_RETURN(ConstTensor t, ReadTensor());
    n->attrs.Set(name, std::move(t));
    return OkStatus();
  }

  std::string_view rest_, line_;
  size_t at_ = 0;
  int number_ = 0;
  Graph g_;
  std::set<std::string> names_;
};

}  // namespace

bool IsText(std::string_view bytes) { return bytes.substr(0, kHeader.size()) == kHeader; }

// Constants may stand anywhere among the values of a graph: here they come first, and numbers follow.
Result<std::string> WriteText(const Graph& of) {
  Graph g = of;
  OPSNN_RETURN_IF_ERROR(g.Sort());
  OPSNN_RETURN_IF_ERROR(CheckWritable(g));
  std::string s = std::string(kHeader) + "graph " + Quoted(g.name) + "\n";
  std::vector<int64_t> numbers(g.values.size(), kNoValue);
  int64_t next = 0;
  const auto number = [&](ValueId v) { return v == kNoValue ? int64_t{kNoValue} : numbers[v]; };
  for (const ValueId v : g.inputs) {
    numbers[v] = next++;
    s += "input " + One(numbers[v]) + " " + Quoted(g.values[v].name) + " " + TypeText(g.values[v]) + "\n";
  }
  for (size_t v = 0; v < g.values.size(); ++v) {
    if (!g.values[v].IsConstant()) continue;
    numbers[v] = next++;
    s += "constant " + One(numbers[v]) + " " + Quoted(g.values[v].name) + " " +
         TensorText(*g.values[v].desc.constant) + "\n";
  }
  for (const Node& n : g.nodes) {
    if (n.dead) continue;
    std::vector<int64_t> inputs;
    for (const ValueId v : n.inputs) inputs.push_back(number(v));
    s += "node " + Quoted(n.op->name) + " " + Quoted(n.name) + " " + ListOf(inputs) + " [";
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      const ValueId v = n.outputs[i];
      if (v != kNoValue) numbers[v] = next++;
      s += (i ? "," : "") + One(number(v));
      if (v != kNoValue) s += " " + Quoted(g.values[v].name) + " " + TypeText(g.values[v]);
    }
    s += "]\n";
    for (const auto& [name, value] : n.attrs.all())
      s += "  " + Quoted(name) + " " + std::visit(AttrText(), value) + "\n";
  }
  for (const ValueId v : g.outputs) s += "output " + One(numbers[v]) + "\n";
  return s;
}

Result<Graph> ReadText(std::string_view text) { return Reader(text).Run(); }

}  // namespace opsnn::graph
