#!/bin/sh
# Installs the build into a fresh prefix, moves it, and builds and runs programs against it in the ways that
# people do: find_package, plain g++ with the usual libraries, pkg-config.
#   run.sh CMAKE BUILD_DIR CXX CC
set -eu
cmake=$1 build=$2 cxx=$3 cc=$4
here=$(cd "$(dirname "$0")" && pwd)
examples=$here/../../examples/aclnn
generator=
! command -v ninja > /dev/null || generator=Ninja
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$cmake" --install "$build" --prefix "$work/first" > "$work/install.log" || { cat "$work/install.log"; exit 1; }
mv "$work/first" "$work/prefix"  # nothing may depend on where it was installed to
prefix=$work/prefix
for f in include/acl/acl.h include/aclnnop/aclnn_relu.h include/ops_nn.h include/opsnn/tensor.h set_env.sh \
         lib64/libopsnn.so lib64/libascendcl.so lib64/libnnopbase.so lib64/libopapi.so lib64/libopapi_nn.so \
         lib64/libopapi_math.so lib64/libopapi_transformer.so lib64/libacl_op_compiler.so \
         lib64/pkgconfig/opsnn.pc lib64/cmake/opsnn/opsnnConfig.cmake; do
  [ -e "$prefix/$f" ] || { echo "missing: $f"; exit 1; }
done

echo "-- find_package"
"$cmake" ${generator:+-G "$generator"} -S "$here/project" -B "$work/project" -DCMAKE_PREFIX_PATH="$prefix" \
         -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_C_COMPILER="$cc" -DEXAMPLES="$examples" > "$work/project.log" &&
  "$cmake" --build "$work/project" >> "$work/project.log" 2>&1 || { cat "$work/project.log"; exit 1; }
for program in small_c tensors ascend; do "$work/project/$program"; done

echo "-- the usual command line"
# As old a standard as client programs use; link-time and run-time paths found through the libraries.
for program in matmul_relu layer_norm; do
  "$cxx" -std=c++14 -Wall "$examples/$program.cc" -o "$work/$program" -I "$prefix/include" -L "$prefix/lib64" \
    -lascendcl -lnnopbase -lopapi
  LD_LIBRARY_PATH="$prefix/lib64" "$work/$program"
done
"$cxx" "$examples/matmul_relu.cc" -o "$work/parts" -I "$prefix/include" -L "$prefix/lib64" \
  -lascendcl -lnnopbase -lopapi_nn -lopapi_math -lacl_op_compiler
(
  cd "$work"
  # bash tells set_env.sh where it lies; elsewhere the name is set by hand.
  if command -v bash > /dev/null; then
    bash -c '. prefix/set_env.sh && [ -n "$ASCEND_HOME_PATH" ] && ./parts'
  else
    LD_LIBRARY_PATH="$prefix/lib64" ./parts
  fi
)

echo "-- pkg-config"
if command -v pkg-config > /dev/null; then
  export PKG_CONFIG_PATH="$prefix/lib64/pkgconfig"
  "$cc" "$here/project/small_c.c" -o "$work/small_c" $(pkg-config --cflags --libs opsnn)
  LD_LIBRARY_PATH="$prefix/lib64" "$work/small_c"
fi

echo "-- npu-smi"
"$prefix/bin/npu-smi" --help | grep -q '^Usage: npu-smi info'
"$prefix/bin/npu-smi" info | grep -q '| NPU   Name'
! OPSNN_PROFILE=nosuch "$prefix/bin/npu-smi" info > /dev/null 2> "$work/npu-smi.log"
grep -q nosuch "$work/npu-smi.log"
! "$prefix/bin/npu-smi" frob 2> "$work/npu-smi.log"
grep -q 'got "frob"; allowed: info' "$work/npu-smi.log"

echo "-- the steps of the CI workflow"
if command -v bash > /dev/null; then
  python3 "$here/workflow.py" "$prefix" "$work/workflow"
fi

echo "-- only the API is exported"
leaked=$(nm -D --defined-only "$prefix/lib64/libopsnn.so" | awk '$2 ~ /[TW]/ {print $3}' |
         grep -Ev '^(opsnn_|ops_nn_|asccl_|calc_tiling|get_l1_capacity|get_ub_capacity|alloc_device|free_device|_Z.*5opsnn|_init|_fini)' || true)
[ -z "$leaked" ] || { echo "libopsnn exports more than it should:"; echo "$leaked" | head; exit 1; }
echo "install: fine"
