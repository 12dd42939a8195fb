#!/bin/sh
# What ./run gpu-check needs on a machine that only runs it: the programs of a build with their libraries, stripped,
# as FILE (tar.xz). There: unpack it as build/gpu in a checkout of the same commit and call ./run gpu-check, which
# builds nothing where it finds programs without a build's cache.
# usage: gpu_pack.sh BUILD FILE; BUILD: of the minimal preset with -DTERN_CUDA=ON -DTERN_BENCH=ON
set -eu

[ $# -eq 2 ] || {
    echo "usage: gpu_pack.sh BUILD FILE" >&2
    exit 2
}
build=$1 file=$2
for part in bin/tern lib/libtern_cuda.so; do
    [ -f "$build/$part" ] || {
        echo "gpu_pack.sh: there is no $build/$part: build the targets all and tern_cuda there" >&2
        exit 1
    }
done
pack=$(mktemp -d)
trap 'rm -rf "$pack"' EXIT

list() {
    (cd "$build" && find lib bin bench examples tests/plugin ! -type d ! -name '*.a')
    grep -l 'check_run(' tests/ops/*.c tests/api/*.c tests/unit/*.c tests/fault/*.c | sed 's/[.]c$//' |
        while read -r program; do
            [ ! -x "$build/$program" ] || echo "$program"
        done
}
list | tar cf - -C "$build" -T - | tar xf - -C "$pack"
# libraries of Debian that the other machine need not have
ldd "$build/bin/tern" "$build"/tests/ops/test_golden 2>/dev/null |
    sed -n 's/.*=> \(\/[^ ]*\(cjson\|cmocka\|gomp\)[^ ]*\) .*/\1/p' | sort -u |
    while read -r library; do cp -L "$library" "$pack/lib/"; done
find "$pack" -type f -exec strip {} + 2>/dev/null || true
# the static parts of the tests are alike: far-reaching references make one of them of all
tar cf - -C "$pack" . | xz -T1 --lzma2=preset=2,dict=192MiB >"$file"
ls -l "$file"
