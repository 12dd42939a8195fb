#!/bin/sh
# Which GPUs libtern_cuda.so is built for where nobody says: those that nvidia-smi shows, as far as nvcc knows them.
# usage: test_cuda_archs.sh CHECKOUT CMAKE
set -eu

root=$1
cmake=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/tern-archs.XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM
failed=0

printf '#!/bin/sh\nprintf "sm_75\\nsm_80\\nsm_89\\nsm_90\\nsm_120\\n"\n' >"$work/nvcc"
cat >"$work/ask.cmake" <<END
include($root/cmake/cuda_archs.cmake)
tern_cuda_archs($work/nvcc archs)
message(STATUS "archs=\${archs}.")
END
chmod +x "$work/nvcc"
PATH=$work:$PATH

# expect ARCHS SCRIPT: nvidia-smi does that.
expect() {
    printf '#!/bin/sh\n%s\n' "$2" >"$work/nvidia-smi"
    chmod +x "$work/nvidia-smi"
    if ! "$cmake" -P "$work/ask.cmake" >"$work/output" 2>&1 || ! grep -qF "archs=$1." "$work/output"; then
        echo "cuda_archs: of '$2' wanted $1:"
        sed 's/^/    /' "$work/output"
        failed=1
    fi
}

expect 89 'echo 8.9'
expect '75;90' 'printf "9.0\\n7.5\\n9.0\\n"'
expect 120 'echo 12.0'
expect 90 'echo 6.1' # older than this nvcc
expect '80' 'printf "13.0\\n8.0\\n"' # one is newer
expect 90 'echo "No devices were found"; exit 6'
expect 90 'echo "NVIDIA-SMI has failed because it could not communicate with driver 5.8"; exit 9'
expect 90 'echo "[N/A]"'

exit $failed
