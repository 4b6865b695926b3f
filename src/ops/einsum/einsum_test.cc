// Einsum against the sum over all letters, one product at a time.
#include <cmath>
#include <map>

#include "op/pointwise_tester.h"

namespace opsnn::op {
namespace {

using testing::GuardedTensor;
using testing::Rng;

// terms[i][d] is the letter of dim d of operand i.
struct Expected {
  std::vector<double> value, magnitude;
  int64_t length = 1;
};
Expected Reference(const std::vector<std::string>& terms, const std::string& out,
                   const std::vector<std::vector<double>>& operands, const std::vector<Dims>& dims) {
  std::map<char, int64_t> size, index;
  for (size_t i = 0; i < terms.size(); ++i)
    for (size_t d = 0; d < terms[i].size(); ++d) {
      auto& s = size[terms[i][d]];
      s = std::max(s, dims[i][static_cast<int>(d)]);
    }
  std::string letters = out;
  Expected e;
  int64_t outputs = 1;
  for (const char c : out) outputs *= size[c];
  for (const auto& [c, n] : size) {
    if (out.find(c) != std::string::npos) continue;
    letters += c;
    e.length *= n;
  }
  for (int64_t o = 0; o < outputs; ++o) {
    double sum = 0, magnitude = 0;
    for (int64_t k = 0; k < e.length; ++k) {
      int64_t rest = o * e.length + k;
      for (size_t i = letters.size(); i-- > 0;)
        index[letters[i]] = rest % size[letters[i]], rest /= size[letters[i]];
      double product = 1;
      for (size_t i = 0; i < terms.size(); ++i) {
        int64_t at = 0;
        for (size_t d = 0; d < terms[i].size(); ++d) {
          const int64_t n = dims[i][static_cast<int>(d)];
          at = at * n + (n == 1 ? 0 : index[terms[i][d]]);
        }
        product *= operands[i][static_cast<size_t>(at)];
      }
      sum += product;
      magnitude += std::fabs(product);
    }
    e.value.push_back(sum);
    e.magnitude.push_back(magnitude);
  }
  return e;
}

void RunOne(Rng& rng, const std::vector<std::string>& terms, const std::string& out, bool arrow,
            const std::vector<Dims>& dims, DType type) {
  std::vector<GuardedTensor> operands;
  std::vector<std::vector<double>> values;
  std::string equation;
  for (size_t i = 0; i < terms.size(); ++i) {
    operands.emplace_back(type, dims[i], &rng, rng.Chance(0.4));
    operands.back().FillRandom(rng, -2, 2);
    values.push_back(operands.back().Get());
    equation += (i ? (rng.Chance(0.5) ? ", " : ",") : "") + terms[i];
  }
  if (arrow) equation += " -> " + out;
  OpTester t("Einsum");
  for (const auto& x : operands) t.In(x);
  t.Attr("equation", equation);
  if (rng.Chance(0.3)) t.StridedOutputs(rng);
  ASSERT_TRUE(t.Run().ok()) << t.status().message();
  const Expected e = Reference(terms, out, values, dims);
  const DType acc = IsHalf(type) ? DType::kF32 : type;
  std::vector<double> bounds;
  for (size_t i = 0; i < e.value.size(); ++i) {
    bounds.push_back(testing::ContractionTolerance(e.magnitude[i], e.value[i], e.length, acc, type) *
                     static_cast<double>(terms.size()));
  }
  ASSERT_EQ("", testing::Compare(t.Out().Get(), e.value, bounds)) << equation << " " << Name(type);
}

TEST(Einsum, RandomEquations) {
  Rng rng;
  constexpr DType kTypes[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kS32};
  for (auto _ : testing::FuzzFor(400)) {
    std::map<char, int64_t> size;
    for (const char c : {'a', 'b', 'c', 'd', 'e'}) size[c] = rng.Chance(0.1) ? 1 : rng.Int(1, 6);
    std::vector<std::string> terms;
    std::vector<Dims> dims;
    std::string seen;
    for (int64_t i = rng.Int(1, 3); i > 0; --i) {
      std::string term;
      Dims d;
      for (int64_t k = rng.Int(0, 4); k > 0; --k) {
        const char c = static_cast<char>('a' + rng.Int(0, 4));  // twice: the diagonal
        term += c;
        d.push_back(size[c]);
        if (seen.find(c) == std::string::npos) seen += c;
      }
      terms.push_back(term);
      dims.push_back(d);
    }
    std::string out;
    for (const char c : seen)
      if (rng.Chance(0.5)) out += c;
    std::shuffle(out.begin(), out.end(), rng.engine());
    RunOne(rng, terms, out, true, dims, kTypes[rng.Int(0, 4)]);
    if (HasFailure()) return;
  }
}

TEST(Einsum, UsualForms) {
  Rng rng;
  RunOne(rng, {"ij", "jk"}, "ik", true, {{70, 50}, {50, 90}}, DType::kF32);
  RunOne(rng, {"bhid", "bhjd"}, "bhij", true, {{2, 3, 20, 16}, {2, 3, 24, 16}}, DType::kF32);
  RunOne(rng, {"bqhd", "bkhd"}, "bhqk", true, {{2, 9, 3, 8}, {2, 11, 3, 8}}, DType::kF16);
  RunOne(rng, {"ij"}, "", true, {{0, 3}}, DType::kF32);
  RunOne(rng, {"ij", "jk"}, "ik", true, {{3, 0}, {0, 2}}, DType::kF32);
  RunOne(rng, {"ii"}, "i", true, {{5, 5}}, DType::kF32);
  RunOne(rng, {"ba", "cb"}, "ac", false, {{3, 4}, {5, 3}}, DType::kF32);  // without an arrow: alphabetical
}

TEST(Einsum, Ellipsis) {
  GuardedTensor a(DType::kF32, {2, 3, 4}), b(DType::kF32, {1, 4, 2});
  Rng rng;
  a.FillRandom(rng), b.FillRandom(rng);
  OpTester t("Einsum");
  t.In(a).In(b).Attr("equation", std::string("...ij,...jk->...ik"));
  ASSERT_TRUE(t.Run().ok()) << t.status().message();
  EXPECT_EQ(t.OutDesc().dims, (Dims{2, 3, 2}));
  const Expected e = Reference({"xij", "xjk"}, "xik", {a.Get(), b.Get()}, {{2, 3, 4}, {1, 4, 2}});
  EXPECT_EQ("", testing::Compare(t.Out().Get(), e.value, 1e-5, 0));
}

TEST(Einsum, ProductsBeyondTheMostDimsAreRefused) {
  GuardedTensor a(DType::kF32, {2, 2, 2, 2, 2}), b(DType::kF32, {2, 2, 2, 2, 2});
  Rng rng;
  a.FillRandom(rng), b.FillRandom(rng);
  OpTester t("Einsum");
  t.In(a).In(b).In(a).In(b).Attr("equation", std::string("abcde,fghij,abcde,fghij->"));
  EXPECT_EQ(t.Run().code(), Code::kInvalid);
  EXPECT_NE(t.status().message().find("a product before the last has rank 10; allowed: at most 8"),
            std::string::npos)
      << t.status().message();
  // In an order that sums early the same values fit.
  OpTester ordered("Einsum");
  ordered.In(a).In(a).In(b).In(b).Attr("equation", std::string("abcde,abcde,fghij,fghij->"));
  EXPECT_TRUE(ordered.Run().ok()) << ordered.status().message();
}

TEST(Einsum, BadEquationsAreExplained) {
  GuardedTensor x(DType::kF32, {2, 3});
  struct Row {
    const char *equation, *says;
  };
  for (const Row& r :
       {Row{"ij,jk->ik", "2 terms for 1 inputs"}, Row{"i->i", "term 1 does not fit the shape [2,3]"},
        Row{"ij->ik", "the output has a letter that no input has"},
        Row{"ij->ii", "a letter appears twice in the output"}, Row{"ii->i", "dims 2 and 3 of \"i\" disagree"},
        Row{"i1->i", "allowed are letters"}, Row{"i.j->i", "a dot that is no ellipsis"}}) {
    OpTester t("Einsum");
    t.In(x).Attr("equation", std::string(r.equation));
    EXPECT_NE(t.Run().message().find(r.says), std::string::npos) << t.status().message();
  }
}

}  // namespace
}  // namespace opsnn::op
