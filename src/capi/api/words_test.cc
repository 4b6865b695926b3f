// Messages of operators in words of the functions that they serve.
#include "capi/words.h"

#include <gtest/gtest.h>

namespace opsnn::capi {
namespace {

constexpr op::OperandDecl kInputs[] = {{"X", 0, -1, false, false, ""}, {"indices", 0, -1, false, false, ""}};
constexpr op::OperandDecl kOutputs[] = {{"Y", 0, -1, false, false, ""}};

// Operator Pick with inputs X and indices and output Y, served to aclnnPick(self, index, reduceDim, out).
class Words : public ::testing::Test {
 protected:
  Words() {
    declaration_.inputs = kInputs;
    declaration_.outputs = kOutputs;
    op_.name = "Pick";
    op_.declaration = &declaration_;
    function_.api = "aclnnPick";
    function_.declaration = &row_;
    for (const char* name : {"self", "index", "reduceDim", "dim", "out"}) {
      Param p;
      p.name = name;
      function_.params.push_back(p);
    }
  }
  std::string Said(const char* message, const std::vector<std::string>& operands = {"self", "index", "out"}) {
    const Status s = InWordsOf(function_, &op_, operands, 2, InvalidArgument("%s", message));
    EXPECT_EQ(s.code(), Code::kInvalid);
    return s.message();
  }

  op::Declaration declaration_{};
  op::AclnnDecl row_{};
  op::OpDef op_;
  OpsnnFunction function_;
};

TEST_F(Words, OperandsBecomeParameters) {
  EXPECT_EQ(Said("Pick: indices: index 9 is out of range"), "aclnnPick: index: index 9 is out of range");
  EXPECT_EQ(Said("Pick: input X has shape [2]; allowed: [3]"), "aclnnPick: self has shape [2]; allowed: [3]");
  EXPECT_EQ(Said("Pick: output Y has dtype f16"), "aclnnPick: out has dtype f16");
  EXPECT_EQ(Said("Pick: X and Y differ"), "aclnnPick: self and out differ");
  // A word of the sentence that is an operand's name as well stays, but where it is called one.
  EXPECT_EQ(Said("Pick: too many indices for input indices"), "aclnnPick: too many indices for index");
}

TEST_F(Words, AttributesBecomeParameters) {
  EXPECT_EQ(Said("Pick: attribute reduce_dim is 7"), "aclnnPick: reduceDim is 7");
  EXPECT_EQ(Said("Pick: attribute axis is 7; allowed: 0"), "aclnnPick: dim is 7; allowed: 0");
  EXPECT_EQ(Said("Pick: attribute strange is 7"), "aclnnPick: attribute strange is 7");
}

TEST_F(Words, WhatHasNoParameterStays) {
  EXPECT_EQ(Said("Pick: indices: index 9", {"self", "", "out"}), "aclnnPick: indices: index 9");
  EXPECT_EQ(Said("Pick: input X has shape [2]", {"", "index", "out"}), "aclnnPick: input X has shape [2]");
  EXPECT_EQ(Said("no memory"), "aclnnPick: no memory");
  EXPECT_EQ(Said("aclnnPick: self is null"), "aclnnPick: self is null")
      << "it speaks of the function already";
  EXPECT_EQ(Said("Pick: a run of 3 ELEMENTS_OF input"), "aclnnPick: a run of 3 ELEMENTS_OF input");
}

TEST_F(Words, WithoutAnOperatorOnlyTheNameIsAdded) {
  EXPECT_EQ(InWordsOf(function_, nullptr, {}, 0, Errorf(Code::kRuntime, "input X is gone")).message(),
            "aclnnPick: input X is gone");
}

}  // namespace
}  // namespace opsnn::capi
