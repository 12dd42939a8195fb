#!/bin/sh
# No library and no program of a build is linked with anything of CUDA: what ldd lists, dependencies of
# dependencies among it. The real plugin (libtern_cuda.so) is asked too: it opens what it needs itself.
# usage: test_links.sh BUILD_FOLDER
set -eu

build=$1
command -v ldd >/dev/null 2>&1 || {
    echo "skipped: no ldd on this machine"
    exit 77
}

names='libcuda|libcudart|libcublas|libcudnn|libcurand|libcusparse|libcusolver|libcufft|libnvrtc|libnvidia|libnccl'
looked=0
linked=0
for file in "$build"/lib/*.so* "$build"/bin/* "$build"/examples/* "$build"/tests/plugin/*.so; do
    if [ ! -f "$file" ] || [ -L "$file" ]; then continue; fi
    list=$(ldd "$file" 2>/dev/null) || continue # no program
    looked=$((looked + 1))
    found=$(printf '%s\n' "$list" | grep -E "^[[:space:]]*($names)" || true)
    [ -z "$found" ] || {
        linked=$((linked + 1))
        printf '%s is linked with CUDA:\n%s\n' "$file" "$found"
    }
done

case $(ls "$build"/lib) in
*libtern.so*) ;;
*)
    echo "no libtern.so in $build/lib"
    exit 1
    ;;
esac
echo "$looked files, $linked of them linked with CUDA"
[ "$looked" -ge 3 ] && [ "$linked" -eq 0 ]
