// Models that contradict themselves or lead outside: each is refused with a sentence that says where.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "base/knobs.h"
#include "onnx/import.h"
#include "onnx/model_writer.h"

namespace opsnn::onnx {
namespace {

std::string ImportError(const ModelWriter& w) {
  auto g = ImportBytes(w.Bytes());
  return g.ok() ? "" : g.status().message();
}

ConstTensor F32(const Dims& dims) {
  return HostTensor::From<float>(dims, std::vector<float>(static_cast<size_t>(NumElements(dims))));
}

ModelWriter Relu() { return ModelWriter(13).Input("x", {"2", "3"}).Node("Relu", {"x"}, {"y"}); }

TEST(InvalidModels, DeclaredTypesAndShapesMustHold) {
  EXPECT_EQ(ImportError(Relu().Output("y", {"2", "3"})), "");
  EXPECT_EQ(ImportError(Relu().Output("y", {"N", "M"})), "");
  EXPECT_EQ(ImportError(Relu().Output("y", {"2", "3"}, 7)),
            "output \"y\" of node \"Relu_0\" (Relu) has dtype f32; the model declares s64.");
  EXPECT_EQ(ImportError(Relu().Output("y", {"2", "4"})),
            "output \"y\" of node \"Relu_0\" (Relu) has shape [2,3]; the model declares [2,4] (dim 1 is 3, "
            "not 4).");
  EXPECT_EQ(
      ImportError(Relu().Output("y", {"N", "3", "1"})),
      "output \"y\" of node \"Relu_0\" (Relu) has shape [2,3]; the model declares [N,3,1] (rank 2, not 3).");
  ModelWriter between = Relu();
  between.Node("Exp", {"y"}, {"z"}).Output("z");
  EXPECT_EQ(ImportError(ModelWriter(between).ValueInfo("y", {"2", "3"}).ValueInfo("unused", {"7"})), "");
  EXPECT_EQ(
      ImportError(ModelWriter(between).ValueInfo("y", {"5", "3"})),
      "value \"y\" of node \"Relu_0\" (Relu) has shape [2,3]; the model declares [5,3] (dim 0 is 2, not 5).");
  EXPECT_EQ(ImportError(ModelWriter(between).ValueInfo("y", {"2", "3"}, 10)),
            "value \"y\" of node \"Relu_0\" (Relu) has dtype f32; the model declares f16.");
}

// What follows from the sizes that are fed is only known then.
TEST(InvalidModels, DeclaredShapesAreCheckedWhenFed) {
  ModelWriter w(13);
  w.Input("x", {"N", "3"}).Node("Relu", {"x"}, {"y"});
  auto rank = LoadSessionFromBytes(ModelWriter(13)
                                       .Input("x", {"N", "3"})
                                       .Input("s", {"K"}, 7)
                                       .Node("Reshape", {"x", "s"}, {"y"})
                                       .Output("y", {"N", "1", "3"})
                                       .Bytes(),
                                   {});
  ASSERT_TRUE(rank.ok()) << rank.status().message();
  const auto r = (*rank)->Run({{"x", F32({2, 3})}, {"s", HostTensor::From<int64_t>({2}, {3, 2})}});
  ASSERT_FALSE(r.ok());
  EXPECT_NE(
      r.status().message().find("output \"y\" of node \"Reshape_0\" (Reshape) has shape [3,2]; the model "
                                "declares [N,1,3] (rank 2, not 3)."),
      std::string::npos)
      << r.status().message();
  // An exporter's example batch in the output is passed over, but for strict mode.
  auto s = LoadSessionFromBytes(ModelWriter(w).Output("y", {"1", "3"}).Bytes(), {});
  ASSERT_TRUE(s.ok()) << s.status().message();
  EXPECT_TRUE((*s)->Run({{"x", F32({2, 3})}}).ok());
  ASSERT_TRUE(SetKnob("strict", "1").ok());
  EXPECT_FALSE((*s)->Run({{"x", F32({4, 3})}}).ok());
  ASSERT_TRUE(SetKnob("strict", "0").ok());
}

TEST(InvalidModels, DimsOfOneNameAreEqual) {
  auto s = LoadSessionFromBytes(ModelWriter(13)
                                    .Input("a", {"N", "3"})
                                    .Input("b", {"1", "N"})
                                    .Node("Identity", {"a"}, {"y"})
                                    .Node("Identity", {"b"}, {"z"})
                                    .Output("y")
                                    .Output("z")
                                    .Bytes(),
                                {});
  ASSERT_TRUE(s.ok()) << s.status().message();
  EXPECT_TRUE((*s)->Run({{"a", F32({5, 3})}, {"b", F32({1, 5})}}).ok());
  const auto r = (*s)->Run({{"a", F32({5, 3})}, {"b", F32({1, 4})}});
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.status().message(),
            "input \"b\" of shape [1,4]: its dim 1 (N) is 4, but dim 0 of input \"a\" (N as well) is 5; dims "
            "of one "
            "name must be equal.");
  EXPECT_EQ((*s)->Prepare({{"a", {5, 3}}, {"b", {1, 4}}}).status().message(), r.status().message());
  // "?" and the like are no names.
  auto any = LoadSessionFromBytes(ModelWriter(13)
                                      .Input("a", {"?", "unk-1"})
                                      .Input("b", {"?", "unk-1"})
                                      .Node("Identity", {"a"}, {"y"})
                                      .Node("Identity", {"b"}, {"z"})
                                      .Output("y")
                                      .Output("z")
                                      .Bytes(),
                                  {});
  ASSERT_TRUE(any.ok());
  EXPECT_TRUE((*any)->Run({{"a", F32({1, 2})}, {"b", F32({3, 4})}}).ok());
}

TEST(InvalidModels, Versions) {
  const auto with = [](int64_t opset, int64_t ir) {
    return ModelWriter(opset).IrVersion(ir).Input("x", {"2"}).Node("Relu", {"x"}, {"y"}).Output("y");
  };
  EXPECT_EQ(ImportError(with(25, 13)), "");
  EXPECT_EQ(ImportError(with(99, 7)), "the model uses opset 99 of ai.onnx; supported are 1 to 25.");
  EXPECT_EQ(ImportError(with(-1, 7)), "the model uses opset -1 of ai.onnx; supported are 1 to 25.");
  EXPECT_EQ(ImportError(with(13, 999)), "the model has IR version 999; supported are 1 to 13.");
  EXPECT_EQ(ImportError(with(13, 0)), "the model has IR version 0; supported are 1 to 13.");
  EXPECT_EQ(ImportError(with(13, 7).Opset("ai.onnx", 17)),
            "the model names the opset of domain ai.onnx twice; allowed: once.");
  EXPECT_EQ(ImportError(with(13, 7).Opset("com.example", 1)), "");
}

TEST(InvalidModels, AttributesContradict) {
  const auto with = [](std::vector<AttrWriter> attrs) {
    return ModelWriter(13).Input("x", {"2"}).Node("LeakyRelu", {"x"}, {"y"}, attrs).Output("y");
  };
  EXPECT_EQ(ImportError(with({AttrWriter::Float("alpha", 1)})), "");
  EXPECT_EQ(ImportError(with({AttrWriter::Float("alpha", 1), AttrWriter::Float("alpha", 2)})),
            "node \"LeakyRelu_0\" (LeakyRelu): attribute \"alpha\" is given twice; allowed: once.");
  AttrWriter two = AttrWriter::Float("alpha", 1), other = AttrWriter::Float("alpha", 1);
  protozero::pbf_writer(two.bytes).add_int64(field::AttributeProto::i, 1);
  EXPECT_EQ(
      ImportError(with({two})),
      "node \"LeakyRelu_0\" (LeakyRelu): attribute \"alpha\" holds values of FLOAT and INT; allowed: of one "
      "type.");
  protozero::pbf_writer(other.bytes).add_enum(field::AttributeProto::type, 2);
  EXPECT_EQ(ImportError(with({other})),
            "node \"LeakyRelu_0\" (LeakyRelu): attribute \"alpha\" is declared as INT and holds FLOAT.");
}

TEST(InvalidModels, ValuesOfATensorComeInOneForm) {
  const auto error = [](int32_t type, const std::function<void(protozero::pbf_writer&)>& fill) {
    std::string t;
    protozero::pbf_writer w(t);
    w.add_int64(field::TensorProto::dims, 1);
    w.add_int32(field::TensorProto::data_type, type);
    w.add_string(field::TensorProto::name, "c");
    fill(w);
    return ImportError(ModelWriter(13).Initializer(t).Node("Identity", {"c"}, {"y"}).Output("y", {}, type));
  };
  const auto floats = [](auto& w) { w.add_float(field::TensorProto::float_data, 1); };
  EXPECT_EQ(error(1, floats), "");
  EXPECT_EQ(error(1,
                  [&](auto& w) {
                    floats(w);
                    w.add_bytes(field::TensorProto::raw_data, "\0\0\0\0", 4);
                  }),
            "tensor \"c\" has its values in raw_data and float_data; allowed: one of them.");
  EXPECT_EQ(error(7, [](auto& w) { w.add_int32(field::TensorProto::int32_data, 1); }),
            "tensor \"c\" of shape [1] has 0 values of data, 1 expected.");
  EXPECT_EQ(error(3, [](auto& w) { w.add_int32(field::TensorProto::int32_data, 300); }),
            "tensor \"c\" has the value 300; allowed for s8: -128 to 127.");
  EXPECT_EQ(error(1,
                  [&](auto& w) {
                    floats(w);
                    w.add_enum(field::TensorProto::data_location, 3);
                  }),
            "tensor \"c\" has the data location 3; allowed: 0 (in the model), 1 (in a file).");
}

// ---- external data

class ExternalDataTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/opsnn_external_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    root_ = name;
    folder_ = root_ + "/model";
    ASSERT_EQ(mkdir(folder_.c_str(), 0700), 0);
    ASSERT_EQ(mkdir((folder_ + "/sub").c_str(), 0700), 0);
    for (const std::string& file : {folder_ + "/w.bin", folder_ + "/sub/w.bin", root_ + "/outside.bin"}) {
      const std::vector<float> v = {3, 4, 5};
      std::ofstream(file, std::ios::binary).write(reinterpret_cast<const char*>(v.data()), 12);
    }
  }
  void TearDown() override { EXPECT_EQ(system(("rm -r " + root_).c_str()), 0); }

  using Entries = std::vector<std::pair<std::string, std::string>>;
  static std::string Model(const Entries& entries) {
    std::string t;
    protozero::pbf_writer w(t);
    w.add_int64(field::TensorProto::dims, 2);
    w.add_int32(field::TensorProto::data_type, 1);
    w.add_string(field::TensorProto::name, "c");
    for (const auto& [key, value] : entries) {
      std::string entry;
      protozero::pbf_writer e(entry);
      e.add_string(field::StringStringEntryProto::key, key);
      e.add_string(field::StringStringEntryProto::value, value);
      w.add_message(field::TensorProto::external_data, entry);
    }
    w.add_enum(field::TensorProto::data_location, 1);
    return ModelWriter(13).Initializer(t).Node("Identity", {"c"}, {"y"}).Output("y").Bytes();
  }
  std::string Error(const Entries& entries) const {
    auto g = ImportBytes(Model(entries), folder_);
    return g.ok() ? "" : g.status().message();
  }
  void ExpectError(const Entries& entries, const std::string& text) const {
    const std::string got = Error(entries);
    EXPECT_EQ(got.rfind("tensor \"c\" ", 0), 0u) << got;
    EXPECT_NE(got.find(text), std::string::npos) << got;
  }

  std::string root_, folder_;
};

TEST_F(ExternalDataTest, InTheFolderOrBelow) {
  for (const char* name : {"w.bin", "sub/w.bin", "./w.bin"}) {
    auto g = ImportBytes(Model({{"location", name}, {"offset", "4"}, {"length", "8"}, {"checksum", "x"}}),
                         folder_);
    ASSERT_TRUE(g.ok()) << g.status().message();
    EXPECT_EQ(ToDoubles(*g->values[0].desc.constant), (std::vector<double>{4, 5}));
  }
  EXPECT_FALSE(ImportBytes(Model({{"location", "w.bin"}})).ok());
}

TEST_F(ExternalDataTest, PathsThatLeadOutside) {
  ExpectError({}, "names no file");
  ExpectError({{"location", "/etc/passwd"}},
              "\"/etc/passwd\", an absolute path; allowed: a path relative to");
  ExpectError({{"location", "../outside.bin"}}, "leads out of the model's folder by \"..\"");
  ExpectError({{"location", "sub/../../outside.bin"}}, "leads out of the model's folder by \"..\"");
  ExpectError({{"location", ".."}}, "leads out of the model's folder by \"..\"");
  ExpectError({{"location", "missing.bin"}}, "missing.bin\": No such file or directory");
  ExpectError({{"location", "sub"}}, "not a regular file");
}

TEST_F(ExternalDataTest, LinksStayInside) {
  ASSERT_EQ(symlink("../outside.bin", (folder_ + "/out").c_str()), 0);
  ASSERT_EQ(symlink("..", (folder_ + "/up").c_str()), 0);
  ASSERT_EQ(symlink("sub/w.bin", (folder_ + "/in").c_str()), 0);
  ExpectError({{"location", "out"}},
              "\"out\", a link to \"" + root_ + "/outside.bin\", outside of the model's folder");
  ExpectError({{"location", "up/outside.bin"}}, "outside of the model's folder");
  EXPECT_EQ(Error({{"location", "in"}}), "");
  // A model that is a link itself, as in a download cache: its data may lie beside what it leads to.
  const std::string bytes = Model({{"location", "out"}});
  std::ofstream(root_ + "/blob", std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ASSERT_EQ(symlink("../blob", (folder_ + "/m.onnx").c_str()), 0);
  auto g = ImportFile(folder_ + "/m.onnx");
  EXPECT_TRUE(g.ok()) << g.status().message();
}

TEST_F(ExternalDataTest, OffsetsAndLengths) {
  const auto with = [](const char* key, const char* value) {
    return Entries{{"location", "w.bin"}, {key, value}};
  };
  for (const char* bad : {"-4", "abc", "4x", "", "99999999999999999999", " 4"})
    ExpectError(with("offset", bad), "offset \"" + std::string(bad) + "\"; allowed: an integer of 0 or more");
  ExpectError(with("length", "x"), "length \"x\"; allowed: an integer");
  ExpectError(with("length", "4"), "length 4; its shape needs 8 bytes");
  ExpectError(with("offset", "8"), "needs 8 bytes at offset 8 of \"" + folder_ + "/w.bin\", which has 12");
  ExpectError(with("offset", "1000"), "which has 12");
}

}  // namespace
}  // namespace opsnn::onnx
