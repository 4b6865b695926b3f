// Environment and config file are read once per process, so each case runs in a forked child that reads them
// anew.
#include "base/knobs.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <string>

#include "base/config_file.h"

namespace opsnn {
namespace {

// Runs `body` in a forked child that has not read the knobs yet; what it returns is compared here.
std::string InChild(const std::function<std::string()>& body) {
  int fds[2];
  if (pipe(fds) != 0) return "pipe failed";
  const pid_t pid = fork();
  if (pid == 0) {
    close(fds[0]);
    // The suite may run under knobs of its own, such as a capped instruction set.
    for (const KnobInfo& k : ListKnobs()) unsetenv(k.env.c_str());
    ReloadKnobsForTest();
    const std::string text = body();
    ssize_t unused = write(fds[1], text.data(), text.size());
    (void)unused;
    _exit(0);
  }
  close(fds[1]);
  std::string out;
  char buffer[1024];
  for (ssize_t n; (n = read(fds[0], buffer, sizeof buffer)) > 0;) out.append(buffer, static_cast<size_t>(n));
  close(fds[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? out : "child died";
}

class ConfigText {
 public:
  explicit ConfigText(const std::string& text) {
    const int fd = mkstemp(path_);
    std::FILE* f = fdopen(fd, "w");
    std::fputs(text.c_str(), f);
    std::fclose(f);
  }
  ~ConfigText() { unlink(path_); }
  const char* path() const { return path_; }

 private:
  char path_[64] = "/tmp/opsnn_knobs_XXXXXX";
};

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Knobs, PrecedenceApiEnvironmentConfigDefault) {
  const ConfigText file(
      "threads = 3\nl1_reserve = 0.25\nmin_tile_k = 32\nverbose = [\"plan\", \"graph\"]\nstrict = true\n");
  const std::string got = InChild([&] {
    setenv("OPSNN_CONFIG", file.path(), 1);
    setenv("OPSNN_THREADS", "5", 1);
    setenv("OPSNN_MIN_TILE_K", " 64 ", 1);
    const Status init = InitKnobs();
    const Status set = SetKnob("min_tile_k", "128");
    const Knobs& k = GetKnobs();
    std::string sources;
    for (const KnobInfo& i : ListKnobs()) {
      if (i.source != "default") sources += i.key + "=" + i.value + "(" + i.source + ") ";
    }
    return init.message() + set.message() +
           StrFormat("%d %g %lld %d %d %d|", k.threads, k.l1_reserve, static_cast<long long>(k.min_tile_k),
                     k.strict, VerboseHas("graph"), VerboseHas("trace")) +
           sources;
  });
  EXPECT_EQ(got,
            "5 0.25 128 1 1 0|threads=5(environment) l1_reserve=0.25(config) min_tile_k=128(api) "
            "verbose=plan,graph(config) strict=1(config) ");
}

TEST(Knobs, ErrorsNameKeyAndAllowedValues) {
  const std::string got = InChild([] {
    setenv("OPSNN_L1_RESERVE", "2", 1);
    setenv("OPSNN_FUSION", "maybe", 1);
    setenv("OPSNN_THREADZ", "1", 1);
    const std::string message = InitKnobs().message();
    return message + StrFormat("|%g", GetKnobs().l1_reserve);
  });
  EXPECT_TRUE(Contains(got, "OPSNN_L1_RESERVE: value \"2\" is not allowed; allowed: a number from 0 to 0.9"))
      << got;
  EXPECT_TRUE(Contains(got, "OPSNN_FUSION: value \"maybe\" is not allowed; allowed: one of auto, off, force"))
      << got;
  EXPECT_TRUE(Contains(got, "unknown environment variable OPSNN_THREADZ")) << got;
  EXPECT_TRUE(Contains(got, "|0")) << got;  // the bad key keeps its default
}

TEST(Knobs, OrderOfTheSidesAndFormOfTheProduct) {
  const ConfigText file("retry_order = \"nkm\"\nproduct = \"plain\"\n");
  const std::string got = InChild([&] {
    setenv("OPSNN_CONFIG", file.path(), 1);
    setenv("OPSNN_PRODUCT", "planned", 1);
    std::string s = InitKnobs().message() + GetKnobs().retry_order;
    s += StrFormat("|%d|", GetKnobs().product == ProductMode::kPlanned);
    for (const char* order : {"mkn", "k", "kk", "", "kmnk", "x"})
      s += SetKnob("retry_order", order).ok() ? "y" : "n";
    return s + SetKnob("product", "naive").message();
  });
  EXPECT_TRUE(got.starts_with("nkm|1|yynnnn")) << got;
  EXPECT_TRUE(Contains(got, "product: value \"naive\" is not allowed; allowed: one of planned, plain"))
      << got;
}

// A source that contradicts itself is told so; one that overrules another is not.
TEST(Knobs, ContradictionsAreRefused) {
  const ConfigText both("fuse_threshold = 0.25\nfusion = \"force\"\n"), threshold("fuse_threshold = 0.25\n");
  const auto load = [](const char* file, const char* mode, const char* least) {
    return InChild([=] {
      if (file) setenv("OPSNN_CONFIG", file, 1);
      if (mode) setenv("OPSNN_FUSION", mode, 1);
      if (least) setenv("OPSNN_FUSE_THRESHOLD", least, 1);
      const std::string message = InitKnobs().message();
      return message + StrFormat("|%g", GetKnobs().fuse_threshold);
    });
  };
  const std::string want = "fuse_threshold: 0.25 contradicts fusion = force",
                    allowed = "allowed with it: 0|0";
  for (const std::string& got : {load(both.path(), nullptr, nullptr), load(nullptr, "force", "0.25")})
    EXPECT_TRUE(Contains(got, want) && Contains(got, allowed)) << got;
  const std::string in_file = load(both.path(), nullptr, nullptr);
  EXPECT_TRUE(Contains(in_file, std::string(both.path()) + ": " + want)) << in_file;
  EXPECT_EQ(load(threshold.path(), "off", nullptr), "|0.25");
  EXPECT_EQ(load(nullptr, "auto", "0.25"), "|0.25");
  const std::string set = InChild([] {
    std::string s = SetKnob("fuse_threshold", "0.25").message();
    s += SetKnob("fusion", "off").message();
    s += StrFormat("|%d|", GetKnobs().fusion == FusionMode::kAuto);
    s += SetKnob("fuse_threshold", "0").message();
    return s + SetKnob("fusion", "off").message();
  });
  EXPECT_TRUE(Contains(set, "contradicts fusion = off") && set.ends_with("|1|")) << set;
}

TEST(Knobs, WordsOfTheChecker) {
  for (const char* value : {"memory", "sync, leak", "memory,sync,leak", "", ",", "snyc", "memory,all"}) {
    const std::string got = InChild([&] {
      setenv("OPSNN_CHECK", value, 1);
      return InitKnobs().message();
    });
    const bool bad = Contains(value, "snyc") || Contains(value, "all");
    EXPECT_EQ(got.empty(), !bad) << value << ": " << got;
    if (bad) {
      EXPECT_TRUE(Contains(got, "OPSNN_CHECK: the word \"") &&
                  Contains(got, "allowed: any of memory, sync, leak"))
          << got;
    }
  }
}

TEST(Knobs, ConfigErrorsNameTheFile) {
  const ConfigText unknown("thread = 3\n"), broken("threads = = 3\n");
  for (const ConfigText* f : {&unknown, &broken}) {
    const std::string got = InChild([&] {
      setenv("OPSNN_CONFIG", f->path(), 1);
      return InitKnobs().message();
    });
    EXPECT_TRUE(Contains(got, f->path())) << got;
    EXPECT_TRUE(Contains(got, f == &unknown ? "unknown key \"thread\"; allowed: threads, max_isa" : "line 1"))
        << got;
  }
  const std::string missing = InChild([] {
    setenv("OPSNN_CONFIG", "/nonexistent/opsnn.toml", 1);
    return InitKnobs().message();
  });
  EXPECT_TRUE(Contains(missing, "/nonexistent/opsnn.toml: the file cannot be read")) << missing;
}

TEST(Knobs, FormsOfTomlValues) {
  const struct {
    const char *text, *error;
  } cases[] = {{"strict = [true]", "strict: got the list [true]; allowed: 0 or 1"},
               {"threads = [1, 2]", "threads: got the list [1,2]; allowed: an integer from 0 to 4096"},
               {"threads = []", "threads: got the list []"},
               {"[threads]", "threads: got a table"},
               {"verbose = [[\"plan\"]]", "verbose: got a table or a list of lists; allowed: any of plan"},
               {"verbose = \"plan,\"", "verbose: value \"plan,\" is not allowed"},
               {"fusion_off = \"a,,b\"", "fusion_off: value \"a,,b\" is not allowed; allowed: names"},
               {"threads = true", "threads: value \"true\" is not allowed"},
               {"threads = 1.5", "threads: value \"1.5\" is not allowed"},
               {"l1_reserve = nan", "l1_reserve: value \"nan\" is not allowed"}};
  for (const auto& c : cases) {
    const ConfigText file(c.text);
    const std::string got = InChild([&] {
      setenv("OPSNN_CONFIG", file.path(), 1);
      return InitKnobs().message() + "|" + ConfigFile();
    });
    EXPECT_TRUE(Contains(got, c.error)) << c.text << ": " << got;
    EXPECT_TRUE(Contains(got, std::string("|") + file.path())) << got;
  }
  const ConfigText good("fusion_off = [\"gelu\", \"cse\"]\nverbose = []\n");
  EXPECT_EQ(InChild([&] {
              setenv("OPSNN_CONFIG", good.path(), 1);
              return InitKnobs().message() + GetKnobs().fusion_off;
            }),
            "gelu,cse");
}

TEST(Knobs, SetKnobChecksAndKeepsOldReferences) {
  const std::string got = InChild([] {
    const Knobs& before = GetKnobs();
    std::string text = SetKnob("threads", "-1").message() + "|" + SetKnob("nothing", "1").message() + "|";
    text += SetKnob("policy", "exact").message() + SetKnob("fusion", "off").message();
    text += SetKnob("max_isa", "").message() + SetKnob("verbose", "plan,what").message();
    return text + StrFormat("|%d%d", static_cast<int>(before.policy), static_cast<int>(GetKnobs().policy));
  });
  EXPECT_TRUE(Contains(got, "threads: value \"-1\" is not allowed; allowed: an integer from 0 to 4096|"))
      << got;
  EXPECT_TRUE(Contains(got, "unknown setting \"nothing\"; allowed: threads, ")) << got;
  EXPECT_TRUE(
      Contains(got, "verbose: value \"plan,what\" is not allowed; allowed: any of plan, trace, graph|01"))
      << got;
}

// A program that changes settings in a loop does not grow, and references live through thousands of changes.
TEST(Knobs, ChangesWithoutEnd) {
  ASSERT_TRUE(SetKnob("min_tile_k", "7").ok());
  const Knobs& before = GetKnobs();
  const auto change = [](int times) {
    for (int i = 0; i < times; ++i) ASSERT_TRUE(SetKnob("min_tile_k", std::to_string(100 + i % 1000)).ok());
  };
  change(4000);
  EXPECT_EQ(before.min_tile_k, 7);
  const auto resident = [] {
    std::ifstream statm("/proc/self/statm");
    int64_t total = 0, pages = 0;
    statm >> total >> pages;
    return pages * sysconf(_SC_PAGESIZE);
  };
  change(5000);
  const int64_t full = resident();
  change(100000);                                                    // 24 MB of settings, if they stayed
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which keep what is freed
  EXPECT_LT(resident(), full + (8 << 20));
#else
  EXPECT_GT(full, 0);
#endif
  ASSERT_TRUE(SetKnob("min_tile_k", "0").ok());
}

TEST(Knobs, TableMatchesDefaults) {
  for (const KnobInfo& i : ListKnobs()) {
    EXPECT_FALSE(i.help.empty());
    EXPECT_EQ(i.env.substr(0, 6), "OPSNN_");
    // Every printed value is accepted again.
    EXPECT_TRUE(SetKnob(i.key, i.default_value).ok()) << i.key << "=" << i.default_value;
  }
}

}  // namespace
}  // namespace opsnn
