#!/usr/bin/env bash
# Builds with sanitizers and runs the test suite.   usage: test_sanitized.sh asan|tsan
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:?usage: test_sanitized.sh asan|tsan}
cmake --preset "$preset"
cmake --build --preset "$preset"
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 TSAN_OPTIONS=allocator_may_return_null=1
export UBSAN_OPTIONS=print_stacktrace=1
export OPSNN_FUZZ_SCALE=${OPSNN_FUZZ_SCALE:-0.3}
exec ctest --test-dir "build-$preset" --output-on-failure -j "$(nproc)" -E '^install$'
