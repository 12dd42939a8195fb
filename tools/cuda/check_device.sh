#!/bin/sh
# Compiles the device side of every .cu with clang++ and no toolkit, against the declarations in
# device_headers/: a kernel that calls a function of the host, or a launcher that calls one of the
# device (where nvcc puts a call of exit), compiles for simulated devices and is found here. Dynamic shared
# memory of bytes has their alignment, 1, unless it says more.
# usage: check_device.sh [FILE...]; called by ./run lint, in the checkout.
set -eu

compiler=$(command -v clang++ || command -v clang++-14 || true)
if [ -z "$compiler" ]; then
    echo "kernels: clang++ is missing, not checked"
    exit 0
fi
[ $# -gt 0 ] || set -- backend_cuda/*.cu
bad=0
if grep -n 'extern __shared__ [^_]' "$@" /dev/null; then
    echo "kernels: dynamic shared memory without __align__(16)"
    bad=1
fi
for file in "$@"; do
    "$compiler" -x cuda --cuda-device-only -nocudainc -nocudalib --cuda-gpu-arch=sm_75 -std=c++17 \
        -Wall -Wno-unused-function -Wno-unused-const-variable -Wno-unknown-cuda-version -Werror \
        -fsyntax-only -Itools/cuda/device_headers -Ibackend_cuda/sim/include -I. -Iinclude \
        "$file" || bad=1
done
exit "$bad"
