#!/bin/sh
# Everything that wants a real GPU, in one call of under nine minutes: build for this GPU (the CPU side
# without libraries), the suites on it, compute-sanitizer, kernels and models beside bandwidth and
# PyTorch, both allocators through the same sequences. What came to its end is not done again, so that a
# call that was cut goes on; what cannot be done is said in its result. Nothing that fails stops what
# comes after it but the build.
# usage: gpu_check.sh OUT [STAGE...]; called by ./run gpu-check, in the checkout.
#   TERN_GPU_BUILD    build folder (build/gpu)       TERN_GPU_SECONDS   for the whole call (520)
#   TERN_GPU_DEVICE   cuda                           TERN_GPU_PYTHON    python3, PyTorch in it or not
#   TERN_GPU_ARCH     90                             TERN_GPU_PARALLEL  suites at a time (4)
# Where the machine has no cJSON or cmocka, CMAKE_PREFIX_PATH names a folder with their include/ and lib/. A build folder
# that gpu_pack.sh made elsewhere is used as it is.
# TERN_SIM_DEVICES=1 makes a rehearsal of it on a simulated device; the report says so.
set -eu

[ $# -ge 1 ] || {
    echo "usage: ./run gpu-check OUT [STAGE...]" >&2
    exit 2
}
# All of it builds for minutes first.
nodes=$(find /dev -maxdepth 1 \( -name 'nvidia[0-9]*' -o -name dxg -o -name nvgpu -o -name nvhost-gpu \) 2>/dev/null) || :
if [ $# -eq 1 ] && [ -z "${TERN_SIM_DEVICES:-}${nodes}" ]; then
    echo "gpu-check: no GPU is here (no /dev/nvidia0): ./run build, then build/release/bin/tern devices, says why" >&2
    echo "  TERN_SIM_DEVICES=1 ./run gpu-check OUT makes a rehearsal on a simulated device" >&2
    exit 1
fi
mkdir -p "$1/suites"
out=$(CDPATH='' cd -- "$1" && pwd)
shift
stages=${*:-build machine suites ops sequences table sanitizer compiled}
build=${TERN_GPU_BUILD:-build/gpu}
device=${TERN_GPU_DEVICE:-cuda}
python=${TERN_GPU_PYTHON:-python3}
until=$(($(date +%s) + ${TERN_GPU_SECONDS:-520}))
jobs=$(getconf _NPROCESSORS_ONLN)
rehearsal=${TERN_SIM_DEVICES:+yes}
# as ctest sets them (cmake/tests.cmake)
case $build in /*) ;; *) build=$PWD/$build ;; esac
export TERN_PLUGIN_PATH="$build/lib" TERN_TEST_PLUGINS="$build/tests/plugin" TERN_TEST_SOURCE="$PWD" \
    TERN_TEST_EXAMPLES="$build/examples" TERN_TEST_COMMAND="$build/bin/tern" OMP_WAIT_POLICY=passive
# a device that is not there is an error, not the CPU
export TERN_DEVICE_POLICY=require PYTHONUNBUFFERED=1

# The libraries that PyTorch brings along before those of the toolkit, if it has any: both sides use the same.
folders=$("$python" -c 'import pathlib, sys
for place in sys.path:
    for found in sorted(pathlib.Path(place).glob("nvidia/*/lib")):
        print(found)' 2>/dev/null | tr '\n' ':') || folders=
[ -z "$folders" ] || export LD_LIBRARY_PATH="${folders%:}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
packed=
[ -f "$build/CMakeCache.txt" ] || [ ! -x "$build/bin/tern" ] || packed=yes
[ -z "$packed" ] || export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$build/lib"

left() { echo $((until - $(date +%s))); }

# within LIMIT COMMAND...: at most LIMIT seconds, and not beyond the call's end.
within() {
    limit=$1
    shift
    [ "$(left)" -lt "$limit" ] && limit=$(left)
    [ "$limit" -gt 0 ] && timeout -k 5 "$limit" "$@"
}

# once NAME LIMIT COMMAND...: its output in NAME.out; not again once it came to its end. One that was cut
# has all the time that is left when it is called again.
once() {
    name=$1 seconds=$2 status=0
    shift 2
    [ ! -f "$out/$name.ok" ] || return 0
    [ ! -f "$out/$name.out" ] || seconds=$(left)
    within "$seconds" "$@" >"$out/$name.out" 2>"$out/$name.err" || status=$?
    if [ "$status" -eq 0 ]; then
        : >"$out/$name.ok"
        return 0
    fi
    echo "$name: status $status (124: it was cut)"
    tail -n 5 "$out/$name.err"
    return 1
}

has_torch() {
    [ -f "$out/torch" ] || {
        if "$python" -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
            echo yes
        else
            echo no
        fi >"$out/torch"
    }
    [ "$(cat "$out/torch")" = yes ] || {
        echo "PyTorch with CUDA is not here ($python): nothing to compare with"
        return 1
    }
}

# ---- stages: each writes $out/STAGE.log and more; 0: it came to its end --------------------------------

stage_build() {
    [ -z "$packed" ] || {
        echo "built elsewhere (tools/cuda/gpu_pack.sh): $(ls -l "$build/lib/libtern_cuda.so")"
        return
    }
    if [ -n "$rehearsal" ]; then
        cmake --preset minimal -B "$build" -DTERN_SIM=ON -DTERN_BENCH=ON -DTERN_CUDA=OFF
        cmake --build "$build" -j "$jobs"
        return
    fi
    cmake --preset minimal -B "$build" -DTERN_CUDA=ON -DTERN_BENCH=ON -DTERN_CUDA_ARCHS="${TERN_GPU_ARCH:-90}"
    # elementwise.cu alone takes minutes on one core
    export NVCC_APPEND_FLAGS="--split-compile=0 --threads=0 ${NVCC_APPEND_FLAGS:-}"
    cmake --build "$build" -j "$jobs" --target tern_cuda all
    python3 tools/cuda/budget.py "$build" || echo "the budget is not kept; the other stages run"
}

stage_machine() {
    nvidia-smi || echo "nvidia-smi is not here"
    "$build/bin/tern" devices >"$out/devices"
    cat "$out/devices"
    "$build/bin/tern" env
    "$python" -c 'import torch; print("torch", torch.__version__, torch.version.cuda)' || true
    bad=0
    for library in cuBLAS cuDNN; do
        grep -q "$library" "$out/devices" || {
            echo "$library was not opened: what follows measures tern's own kernels in its place"
            bad=1
        }
    done
    return "$bad"
}

# Programs whose tensors go to the device that TERN_TEST_DEVICE names.
programs() {
    grep -l 'check_run(' tests/ops/*.c tests/api/*.c tests/unit/*.c tests/fault/*.c | while read -r source; do
        program="$build/${source%.c}"
        [ ! -x "$program" ] || echo "$program"
    done | sort -u
}

# Some at a time; one that fails then is run alone, and that counts.
stage_suites() {
    [ -n "$(programs)" ] || {
        echo "no suite was built: cmocka is not here (see TERN_HAVE_CMOCKA in $build/CMakeCache.txt)"
        return 1
    }
    TERN_TEST_DEVICE=$device
    export TERN_TEST_DEVICE
    programs | xargs -n 1 -P "${TERN_GPU_PARALLEL:-4}" sh tools/cuda/gpu_suite.sh "$out/suites" "$until" || true
    bad=0
    for program in $(programs); do
        sh tools/cuda/gpu_suite.sh "$out/suites" "$until" "$program" alone || bad=1
    done
    cat "$out"/suites/*.log 2>/dev/null || true
    return "$bad"
}

# Ops and models, tern and PyTorch in turns, twice: a machine that changes its clock shows.
stage_ops() {
    bad=0
    small=
    [ -z "$rehearsal" ] || small='--elements 65536 copy add softmax mlp1 tiny'
    for round in 1 2; do
        # shellcheck disable=SC2086
        once "ops-tern-$round" 60 "$build/bench/bench_device" --device "$device" $small || bad=1
        ! has_torch || once "ops-torch-$round" 60 "$python" bench/peers/torch_device.py \
            --device "$device" --variants fused || bad=1
    done
    # f32, TF32, bf16 and f16; the goal is 2 times TF32 for a transformer of width 1024
    [ -n "$rehearsal" ] || once amp 90 "$build/bench/bench_amp" --device "$device" mlp2 resnet20 gpt gpt1024 || bad=1
    return "$bad"
}

# The same random allocations through both.
stage_sequences() {
    bad=0
    operations=20000
    [ -z "$rehearsal" ] || operations=500
    for seed in 1 2 3; do
        once "sequence-tern-$seed" 30 "$build/bench/bench_sequence" --seed "$seed" --operations "$operations" --device "$device" || bad=1
        has_torch || continue
        once "sequence-torch-$seed" 60 "$python" bench/peers/torch_sequence.py "$seed" "$operations" || bad=1
        [ "$bad" -eq 0 ] || continue
        if cmp -s "$out/sequence-tern-$seed.out" "$out/sequence-torch-$seed.out"; then
            echo "seed $seed: $(wc -l <"$out/sequence-tern-$seed.out") operations alike"
        else
            echo "seed $seed: first difference (tern, PyTorch: operation, allocated, reserved, segments, split blocks)"
            diff "$out/sequence-tern-$seed.out" "$out/sequence-torch-$seed.out" | sed -n -e '/^</{p;q}'
            diff "$out/sequence-tern-$seed.out" "$out/sequence-torch-$seed.out" | sed -n -e '/^>/{p;q}'
        fi
    done
    return "$bad"
}

# Every op of bench/table.def, small (what a call costs) and large.
stage_table() {
    bad=0
    sizes='/small /memory'
    [ -z "$rehearsal" ] || sizes=/small
    # shellcheck disable=SC2086
    once table-tern 80 "$build/bench/bench_table" --device "$device" --quick $sizes || bad=1
    # shellcheck disable=SC2086
    ! has_torch || once table-torch 80 "$python" bench/peers/torch_table.py --device "$device" --quick $sizes ||
        bad=1
    return "$bad"
}

stage_sanitizer() {
    command -v compute-sanitizer >/dev/null || {
        echo "cannot run: compute-sanitizer is not here"
        return 0
    }
    bad=0
    for tool in memcheck racecheck synccheck; do
        once "sanitizer-$tool" 60 compute-sanitizer --tool "$tool" --error-exitcode 9 \
            "$build/examples/mlp_mnist" --data digits --device "$device" --steps 3 --batch 32 --quiet || bad=1
        grep -h -i -e 'SUMMARY' -e 'not supported' "$out/sanitizer-$tool.out" || true
    done
    [ ! -x "$build/tests/ops/test_golden" ] ||
        TERN_TEST_DEVICE=$device once sanitizer-ops 90 compute-sanitizer --tool memcheck --error-exitcode 9 \
            "$build/tests/ops/test_golden" || bad=1
    return "$bad"
}

# PyTorch's compiler takes its time; tern has nothing to do here.
stage_compiled() {
    ! has_torch || once ops-torch-compiled 200 "$python" bench/peers/torch_device.py \
        --device "$device" --variants compile mlp1 mlp2 lenet cnn wide tiny resnet20 gpt
}

# ---- running them --------------------------------------------------------------------------------------

for stage in $stages; do
    [ ! -f "$out/$stage.done" ] || continue
    if [ "$(left)" -le 0 ]; then
        echo "gpu-check: no time is left for $stage; call it again" >&2
        continue
    fi
    echo "== $stage ($(left) s left)"
    began=$(date +%s)
    # not as part of a condition, in which set -e would not hold
    set +e
    (
        set -e
        "stage_$stage"
    ) >"$out/$stage.log" 2>&1
    status=$?
    set -e
    printf '%s %s\n' "$status" "$(($(date +%s) - began))" >"$out/$stage.status"
    [ "$status" -ne 0 ] || : >"$out/$stage.done"
    [ "$stage" != build ] || [ "$status" -eq 0 ] || {
        tail -n 30 "$out/build.log" >&2
        break
    }
done
python3 tools/cuda/gpu_report.py "$out"
