#!/bin/sh
# Everything that wants a real GPU, in one call of under nine minutes: build for this GPU (the CPU side
# without libraries), the suites on it, compute-sanitizer, kernels and models beside bandwidth and
# PyTorch, both allocators through the same sequences. Stages that are done are not done again, so that
# a call that was cut goes on; what a stage cannot do is said in its result.
# usage: gpu_check.sh OUT [STAGE...]; called by ./run gpu-check, in the checkout.
#   TERN_GPU_BUILD    build folder (build/gpu)       TERN_GPU_SECONDS   for the whole call (520)
#   TERN_GPU_DEVICE   cuda                           TERN_GPU_PYTHON    python3, PyTorch in it or not
# TERN_SIM_DEVICES=1 makes a rehearsal of it on a simulated device; the report says so.
set -eu

[ $# -ge 1 ] || {
    echo "usage: ./run gpu-check OUT [STAGE...]" >&2
    exit 2
}
mkdir -p "$1"
out=$(CDPATH='' cd -- "$1" && pwd)
shift
stages=${*:-build machine suites sanitizer ops sequences}
build=${TERN_GPU_BUILD:-build/gpu}
device=${TERN_GPU_DEVICE:-cuda}
python=${TERN_GPU_PYTHON:-python3}
until=$(($(date +%s) + ${TERN_GPU_SECONDS:-520}))
jobs=$(getconf _NPROCESSORS_ONLN)
rehearsal=${TERN_SIM_DEVICES:+yes}
# as ctest sets them (cmake/tests.cmake)
case $build in /*) ;; *) build=$PWD/$build ;; esac
export TERN_PLUGIN_PATH="$build/lib" TERN_TEST_PLUGINS="$build/tests/plugin" TERN_TEST_SOURCE="$PWD" \
    TERN_TEST_EXAMPLES="$build/examples" TERN_TEST_COMMAND="$build/bin/tern"

left() { echo $((until - $(date +%s))); }
has_torch() { "$python" -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; }
# within LIMIT COMMAND...: at most LIMIT seconds, and not beyond the call's end.
within() {
    limit=$1
    shift
    [ "$(left)" -lt "$limit" ] && limit=$(left)
    [ "$limit" -gt 0 ] && timeout "$limit" "$@"
}

# ---- stages: each writes $out/STAGE.log or more; 0: it came to its end --------------------------------

# Where the machine has no cmocka, a folder CMAKE_PREFIX_PATH names can hold one (the build reads it).
stage_build() {
    if [ -n "$rehearsal" ]; then
        cmake --preset minimal -B "$build" -DTERN_SIM=ON -DTERN_BENCH=ON -DTERN_CUDA=OFF
        cmake --build "$build" -j "$jobs"
    else
        cmake --preset minimal -B "$build" -DTERN_CUDA=ON -DTERN_BENCH=ON -DTERN_CUDA_ARCHS="${TERN_GPU_ARCH:-90}"
        cmake --build "$build" -j "$jobs"
        cmake --build "$build" -j "$jobs" --target tern_cuda
        python3 tools/cuda/budget.py "$build"
    fi
}

stage_machine() {
    nvidia-smi || echo "nvidia-smi is not here"
    "$build/bin/tern" devices
    "$build/bin/tern" env
    "$python" -c 'import torch; print("torch", torch.__version__, torch.version.cuda)' || true
}

# Programs whose tensors go to the device that TERN_TEST_DEVICE names.
programs() {
    grep -l 'check_run(' tests/ops/*.c tests/api/*.c tests/unit/*.c | while read -r source; do
        program="$build/${source%.c}"
        [ ! -x "$program" ] || echo "$program"
    done | sort -u
}

stage_suites() {
    : >"$out/suites.tsv"
    for program in $(programs); do
        status=0
        began=$(date +%s)
        TERN_TEST_DEVICE=$device within 120 "$program" >"$out/last.log" 2>&1 || status=$?
        printf '%s\t%s\t%s\n' "${program##*/}" "$status" "$(($(date +%s) - began))" >>"$out/suites.tsv"
        [ "$status" -eq 0 ] || {
            printf '\n== %s: status %s\n' "$program" "$status"
            tail -n 40 "$out/last.log"
        }
    done
    rm -f "$out/last.log"
    cat "$out/suites.tsv"
}

stage_sanitizer() {
    command -v compute-sanitizer >/dev/null || {
        echo "cannot run: compute-sanitizer is not here"
        return 0
    }
    step="$build/examples/mlp_mnist --data digits --device $device --steps 3 --batch 32 --quiet"
    for tool in memcheck racecheck synccheck; do
        echo "== $tool"
        # shellcheck disable=SC2086
        TERN_DEVICE_POLICY=require within 60 compute-sanitizer --tool "$tool" --error-exitcode 9 $step ||
            echo "$tool: status $?"
    done
}

# Ops and models, tern and PyTorch in turns, twice: a machine that changes its clock shows.
stage_ops() {
    : >"$out/ops.jsonl"
    small=
    [ -z "$rehearsal" ] || small='--elements 65536 copy add softmax mlp1 tiny'
    for round in first second; do
        echo "$round round"
        # shellcheck disable=SC2086
        within 90 "$build/bench/bench_device" --device "$device" $small >>"$out/ops.jsonl"
        ! has_torch || within 150 "$python" bench/peers/torch_device.py --device "$device" >>"$out/ops.jsonl"
    done
    has_torch || echo "PyTorch with CUDA is not here: no ratios"
}

stage_sequences() {
    has_torch || {
        echo "cannot run: PyTorch with CUDA is not here"
        return 0
    }
    for seed in 1 2 3; do
        within 30 "$build/bench/bench_sequence" "$seed" 20000 "$device" >"$out/sequence.tern"
        within 60 "$python" bench/peers/torch_sequence.py "$seed" 20000 >"$out/sequence.torch"
        if cmp -s "$out/sequence.tern" "$out/sequence.torch"; then
            echo "seed $seed: 20000 operations alike"
        else
            echo "seed $seed: first difference (tern, PyTorch: operation, allocated, reserved, segments, split blocks)"
            diff "$out/sequence.tern" "$out/sequence.torch" | sed -n -e '/^</{p;q}'
            diff "$out/sequence.tern" "$out/sequence.torch" | sed -n -e '/^>/{p;q}'
        fi
    done
    rm -f "$out/sequence.tern" "$out/sequence.torch"
}

for stage in $stages; do
    [ ! -f "$out/$stage.done" ] || continue
    if [ "$(left)" -le 0 ]; then
        echo "gpu-check: no time is left for $stage; call it again" >&2
        continue
    fi
    echo "== $stage ($(left) s left)"
    began=$(date +%s)
    status=0
    # a subshell, so that set -e holds in it
    (set -e; "stage_$stage") >"$out/$stage.log" 2>&1 || status=$?
    printf '%s %s\n' "$status" "$(($(date +%s) - began))" >"$out/$stage.status"
    [ "$status" -ne 0 ] || touch "$out/$stage.done"
    [ "$stage" != build ] || [ "$status" -eq 0 ] || {
        tail -n 30 "$out/build.log" >&2
        break
    }
done
python3 tools/cuda/gpu_report.py "$out"
