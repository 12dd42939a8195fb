#!/bin/sh
# The report of ./run gpu-check, from a folder as a call leaves it that was cut: what is there is told, half
# a line is no mistake, what is missing or failed is a failure. And what it says of libraries.
# usage: test_gpu_report.sh SOURCE; called by CTest (front/gpu_report).
set -eu

source=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
bad=0

expect() { # expect TEXT: the report has it
    grep -qF -e "$1" "$out/report.md" || {
        echo "not in the report: $1" >&2
        bad=1
    }
}

report() { python3 "$source/tools/cuda/gpu_report.py" "$out" >/dev/null; }

mkdir "$out/suites"
for stage in build machine suites ops sequences; do echo "0 7" >"$out/$stage.status"; done
printf '  plugin              %s\n  device              cuda:0\n  simulated           yes\n' \
    "$PWD/lib/libtern_cuda.so" >"$out/machine.log"
echo "budget: 79 kernels" >"$out/build.log"
printf 'ops-test_half\t0\t3\n' >"$out/suites/ops-test_half.tsv"
printf 'api-test_sort\t9\t4\n' >"$out/suites/api-test_sort.tsv"
line() { # line WORK VARIANT US GBPERS
    printf '{"work": "%s", "variant": "%s", "us": %s, "gb_per_s": %s, "tflop_per_s": 0}\n' "$@"
}
{
    line copy tern 10 4000
    line add tern 10 3000
    echo '{"work": "gpt", "variant": "tern", "error": "cuda:0: out of memory"}'
} >"$out/ops-tern-1.out"
line copy tern 8 4500 >"$out/ops-tern-2.out"
line add torch 20 1500 >"$out/ops-torch-1.out"
{
    echo '{"work": "exp/small", "variant": "tern", "us": 4}'
    echo '{"work": "sin/small", "variant": "tern", "us": 4}'
    echo '{"work": "sin/memory", "variant": "limit", "us": 2'
} >"$out/table-tern.out"
printf '{"work": "exp/small", "variant": "eager", "us": 8}\n{"work": "sin/small", "variant": "eager", "us": 3}\n' \
    >"$out/table-torch.out"
if report; then
    echo "a suite that failed and stages that were not run are no success" >&2
    bad=1
fi
expect "A rehearsal on a simulated device"
expect "| sanitizer | not run |"
expect "Suites on the device: 2, failed: api-test_sort."
expect "| copy | 8.0 | 4500 | 1.00 |"
expect "| add | 10.0 | 3000 | 0.67 (below the goal) |  | 2.00 |"
expect "- gpt (tern): cuda:0: out of memory"
expect "budget: 79 kernels"
expect "  plugin              lib/libtern_cuda.so"
expect "2 rows of bench/table.def, 2 beside PyTorch's eager mode; below 0.9 of its speed: 1."
expect "| sin/small | 4.0 |  | 3.0 | 0.75 |"
python3 -c 'import json, sys; assert json.load(open(sys.argv[1]))["suites"]["api-test_sort"]["status"] == 9' \
    "$out/report.json" || bad=1

printf 'api-test_sort\t0\t4\n' >"$out/suites/api-test_sort.tsv"
for stage in table sanitizer compiled; do echo "0 7" >"$out/$stage.status"; done
printf '  device              cuda:0\n  simulated           no\n' >"$out/machine.log"
report || {
    echo "all is well, and the report says it is not" >&2
    bad=1
}
if grep -q "rehearsal" "$out/report.md"; then
    echo "a real GPU is taken for a simulated device" >&2
    bad=1
fi

# ---- libraries: those of PyTorch's wheels are found, and one that was not opened is no success ----------

mkdir -p "$out/build/bin" "$out/site/nvidia/a/lib" "$out/site/nvidia/b/lib"
# shellcheck disable=SC2016
printf '#!/bin/sh\necho "cuBLAS 13.1 by $LD_LIBRARY_PATH"\n' >"$out/build/bin/tern"
chmod +x "$out/build/bin/tern"
(cd "$source" && PYTHONPATH=$out/site LD_LIBRARY_PATH=/own TERN_GPU_BUILD=$out/build \
    sh tools/cuda/gpu_check.sh "$out/check" machine) >/dev/null 2>&1 || true
for text in "cuBLAS 13.1 by $out/site/nvidia/a/lib:$out/site/nvidia/b/lib:" ":/own" "cuDNN was not opened"; do
    grep -qF -e "$text" "$out/check/machine.log" || {
        echo "not in the machine's log: $text" >&2
        bad=1
    }
done
grep -q '^1 ' "$out/check/machine.status" || {
    echo "a machine without cuDNN is one with it" >&2
    bad=1
}

# ---- a build that was made elsewhere is used as it is ---------------------------------------------------

mkdir -p "$out/build/lib"
echo plugin >"$out/build/lib/libtern_cuda.so"
(cd "$source" && PYTHONPATH=$out/site LD_LIBRARY_PATH=/own TERN_GPU_BUILD=$out/build \
    sh tools/cuda/gpu_check.sh "$out/packed" build machine) >/dev/null 2>&1 || true
for text in build.log:"built elsewhere" machine.log:"/own:$out/build/lib"; do
    grep -qF -e "${text#*:}" "$out/packed/${text%%:*}" || {
        echo "not in ${text%%:*} of a packed build: ${text#*:}" >&2
        bad=1
    }
done

# ---- without a GPU nothing is built ---------------------------------------------------------------------

nodes=$(find /dev -maxdepth 1 \( -name 'nvidia[0-9]*' -o -name dxg -o -name nvgpu -o -name nvhost-gpu \) 2>/dev/null) || :
if [ -z "$nodes" ]; then
    status=0
    (cd "$source" && unset TERN_SIM_DEVICES && TERN_GPU_BUILD=$out/build TERN_GPU_SECONDS=5 \
        sh tools/cuda/gpu_check.sh "$out/none") >"$out/said" 2>&1 || status=$?
    if [ "$status" != 1 ] || [ -e "$out/none" ] || ! grep -qF "build/release/bin/tern devices, says why" "$out/said"; then
        echo "without a GPU: status $status and $(cat "$out/said")" >&2
        bad=1
    fi
fi

if sh "$source/tools/cuda/gpu_pack.sh" "$out/site" "$out/pack.tar.xz" 2>/dev/null; then
    echo "a folder without a build was packed" >&2
    bad=1
fi
exit "$bad"
