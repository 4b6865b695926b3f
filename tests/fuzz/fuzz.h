// A fuzz target defines both functions. With clang it links against -fsanitize=fuzzer; in the test suite
// driver.cc mutates the seeds for a short time from a fixed seed.
#ifndef TESTS_FUZZ_FUZZ_H_
#define TESTS_FUZZ_FUZZ_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// Must return for any input: no crash, no endless run, no memory beyond reason. Returns 0.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace opsnn::fuzz {

// Inputs to start from.
std::vector<std::string> Seeds();

// Prints the message and aborts where a promise of the library does not hold.
void Require(bool holds, const char* what, const std::string& detail = "");

}  // namespace opsnn::fuzz

#endif  // TESTS_FUZZ_FUZZ_H_
