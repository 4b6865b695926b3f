#!/usr/bin/env bash
# Runs clang-tidy on files (default: those changed against HEAD), with the compile commands of build/.
#   usage: tools/tidy.sh [FILE.cc ...]
set -euo pipefail
cd "$(dirname "$0")/.."
[ -e build/compile_commands.json ] || cmake --preset release >/dev/null
files=("$@")
[ ${#files[@]} -gt 0 ] || mapfile -t files < <(git diff --name-only --diff-filter=d HEAD -- '*.cc')
[ ${#files[@]} -gt 0 ] || { echo "tidy: nothing changed"; exit 0; }
exec clang-tidy -p build --quiet "${files[@]}"
