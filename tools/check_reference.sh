#!/usr/bin/env bash
# Builds the reference and reads it in a headless browser: search, links, phone width.   usage: tools/check_reference.sh
set -euo pipefail
cd "$(dirname "$0")/.."
tools/install_deps.sh browser
tools/make_reference.sh build/reference
/usr/bin/python3 tests/reference_browser_test.py build/reference
