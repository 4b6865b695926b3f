#!/usr/bin/env bash
# Runs the test suite with the instruction set capped.   usage: test_isa.sh sse4|avx2|avx512
set -euo pipefail
cd "$(dirname "$0")/.."
export OPSNN_MAX_ISA=${1:?usage: test_isa.sh sse4|avx2|avx512}
exec ctest --test-dir build --output-on-failure -j "$(nproc)" -E '^(install|experiments)$'
