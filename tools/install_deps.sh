#!/usr/bin/env bash
# Installs what opsnn needs on Debian 12 and later, and only what is missing.   usage: install_deps.sh build|models|checks|browser
set -euo pipefail
case "${1:?usage: install_deps.sh build|models|checks|browser}" in
  build)
    packages=(g++ cmake ninja-build ccache python3 pkg-config libhwy-dev libgtest-dev libbenchmark-dev libprotozero-dev
              libonnx-dev libtomlplusplus-dev nlohmann-json3-dev libcli11-dev libspdlog-dev libstb-dev
              python3-onnx python3-jinja2 python3-markdown-it) ;;
  models) command -v npm >/dev/null && exit 0; packages=(npm) ;;
  checks) packages=(clang-format clang-tidy git) ;;
  browser) packages=(chromium chromium-driver python3-selenium) ;;
  *) echo "install_deps.sh: unknown set '$1'; allowed: build, models, checks, browser" >&2; exit 1 ;;
esac
missing=()
for p in "${packages[@]}"; do
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing+=("$p")
done
[ ${#missing[@]} -gt 0 ] || exit 0
run=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || { echo "install_deps.sh: needs root or sudo to install: ${missing[*]}" >&2; exit 1; }
  run=(sudo)
fi
echo "Installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${run[@]}" apt-get update -q
"${run[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}"
