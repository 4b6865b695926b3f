// usage: fuzz_NAME [--ms N] [--seed S] | fuzz_NAME FILE...
// Mutates the target's seeds for N milliseconds, or runs the files. An input that kills the process is left
// in fuzz_NAME.crash in the working directory.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "fuzz/fuzz.h"
#include "testing/testing.h"

namespace opsnn::fuzz {
namespace {

const std::string* current = nullptr;
std::string crash_file;

// Writes the input with what is safe in a signal handler, then dies as before.
extern "C" void OnCrash(int signal) {
  if (std::FILE* f = current ? std::fopen(crash_file.c_str(), "wb") : nullptr) {
    std::fwrite(current->data(), 1, current->size(), f);
    std::fclose(f);
    std::fprintf(stderr, "the input is in %s\n", crash_file.c_str());
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// No input may take longer: what waits for ever ends as SIGALRM does.
constexpr unsigned kMostSeconds = 120;

void RunOne(const std::string& input) {
  current = &input;
  alarm(kMostSeconds);
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  alarm(0);
  current = nullptr;
}

size_t At(testing::Rng& rng, size_t size) {
  return size ? static_cast<size_t>(rng.Int(0, static_cast<int64_t>(size) - 1)) : 0;
}

// One small change: a bit, a byte, a run of bytes removed, doubled or taken from another seed.
void MutateOnce(testing::Rng& rng, const std::vector<std::string>& seeds, std::string* s) {
  static constexpr char kBytes[] = {0, 1, 2, 8, 10, 16, 18, 26, 42, 58, 127, -1, -128};
  const size_t at = At(rng, s->size()),
               length = std::min<size_t>(s->size() - at, static_cast<size_t>(rng.Int(1, 16)));
  switch (rng.Int(0, 6)) {
    case 0:
      if (!s->empty()) (*s)[at] = static_cast<char>((*s)[at] ^ (1 << rng.Int(0, 7)));
      break;
    case 1:
      if (!s->empty()) (*s)[at] = static_cast<char>(rng.Int(-128, 127));
      break;
    case 2:
      if (!s->empty()) (*s)[at] = kBytes[At(rng, sizeof kBytes)];
      break;
    case 3:
      s->erase(at, length);
      break;
    case 4:
      s->insert(at, s->substr(at, length));
      break;
    case 5:
      s->insert(s->begin() + static_cast<int64_t>(at), static_cast<char>(rng.Int(-128, 127)));
      break;
    default: {
      const std::string& other = seeds[At(rng, seeds.size())];
      const size_t from = At(rng, other.size());
      s->insert(at, other.substr(from, static_cast<size_t>(rng.Int(1, 64))));
    }
  }
}

int Mutate(int milliseconds, uint64_t seed) {
  testing::Rng rng(seed);
  const std::vector<std::string> seeds = Seeds();
  for (const std::string& s : seeds) RunOne(s);
  int64_t runs = static_cast<int64_t>(seeds.size());
  for (auto _ : testing::FuzzFor(milliseconds)) {
    std::string input = seeds[At(rng, seeds.size())];
    // Mostly a single change: what is nearly right gets furthest.
    for (int64_t n = rng.Chance(0.7) ? 1 : rng.Int(2, 8); n > 0; --n) MutateOnce(rng, seeds, &input);
    RunOne(input);
    ++runs;
  }
  std::printf("%lld inputs from %zu seeds\n", static_cast<long long>(runs), seeds.size());
  return 0;
}

}  // namespace

void Require(bool holds, const char* what, const std::string& detail) {
  if (holds) return;
  std::fprintf(stderr, "promise broken: %s %s\n", what, detail.c_str());
  std::abort();
}

}  // namespace opsnn::fuzz

int main(int argc, char** argv) {
  using namespace opsnn::fuzz;  // NOLINT: the program is this namespace
  crash_file = std::string(argv[0]).substr(std::string(argv[0]).rfind('/') + 1) + ".crash";
  for (int s : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGALRM}) std::signal(s, OnCrash);
  int milliseconds = 2000;
  uint64_t seed = 1;
  bool files = false;
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--ms") && i + 1 < argc) {
      milliseconds = std::atoi(argv[++i]);
    } else if (!std::strcmp(argv[i], "--seed") && i + 1 < argc) {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else {
      files = true;
      std::ifstream f(argv[i], std::ios::binary);
      RunOne(std::string(std::istreambuf_iterator<char>(f), {}));
    }
  }
  return files ? 0 : Mutate(milliseconds, seed);
}
