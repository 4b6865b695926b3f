#!/usr/bin/env bash
# Builds the reference: a static site that needs no server and no network.   usage: tools/make_reference.sh [FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
tools/install_deps.sh build
[ -x build/bin/opsnn ] || { cmake --preset release && cmake --build build --target opsnn_cli; }
# Debian installs the modules for this interpreter.
/usr/bin/python3 tools/reference --out "${1:-build/reference}" --opsnn build/bin/opsnn
