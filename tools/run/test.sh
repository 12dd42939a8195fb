#!/bin/sh
# Builds and runs the tests; ends with one line "N passed, N failed, N skipped" over all of them.
# usage: test.sh [full]; called by ./run test, in the checkout.
#
# The default run is what CI does: release on everything, the address and undefined-behaviour
# sanitizers with the fuzzers, minimal on the ops, the thread sanitizer on the tests that use
# threads, and lint.
set -eu

mode=${1:-default}
[ $# -le 1 ] || mode="$*"
timeout=600
case $mode in
default) ;;
full)
    export TERN_TEST_FULL=1 # tests that draw at random draw more
    timeout=3000            # the examples' whole runs under the thread sanitizer, on two cores
    ;;
*)
    echo "usage: ./run test [full]" >&2
    exit 2
    ;;
esac

jobs=${TERN_JOBS:-2}
results=build/test-results
rm -rf "$results"
mkdir -p "$results"
broken=0

# Of each stage its name now, and what it took at the end, where CI's log of the last lines has it.
stage=
note() {
    [ -z "$stage" ] || echo "$(($(date +%s) - begun)) s  $stage" >>"$results/times"
    stage=$*
    begun=$(date +%s)
    printf '\n== %s\n' "$stage"
}

# Something that is no test is wrong: said here, and once more before the total.
wrong() {
    broken=$((broken + 1))
    printf '%s\n' "$*" >>"$results/wrong"
    echo "test: $*" >&2
}

# build_preset PRESET TARGET: what does not build counts as one failure; the others still run.
build_preset() {
    note "$1: build"
    if cmake --preset "$1" -DTERN_TEST_TIMEOUT="$timeout" && cmake --build "build/$1" -j "$jobs" --target "$2"; then
        return 0
    fi
    wrong "$1 does not build"
    return 1
}

# run_preset PRESET TARGET [CTEST ARGUMENTS...]: what fails is counted from the result file, after
# everything has run.
run_preset() {
    preset=$1
    build_preset "$preset" "$2" || return 0
    shift 2
    note "$preset: tests"
    status=0
    ctest --test-dir "build/$preset" --output-on-failure --parallel "$jobs" --no-tests=ignore \
        --test-output-size-passed 4000000 --test-output-size-failed 4000000 \
        --output-junit "$root/$results/$preset.xml" "$@" >"$results/$preset.log" 2>&1 || status=$?
    python3 tools/run/sum_tests.py --show "$results/$preset.log" "$results/$preset.xml" || true
    if [ "$status" -ne 0 ] && [ ! -f "$results/$preset.xml" ]; then
        wrong "$preset: ctest did not run"
        cat "$results/$preset.log"
    fi
}

# Lint begins beside a stage that leaves a core idle (the full run has none); what it found comes at the end.
begin_lint() {
    sh tools/run/lint.sh >"$results/lint.log" 2>&1 &
    lint=$!
}

end_lint() {
    note "lint"
    lint_passed=1
    if ! wait "$lint"; then
        lint_passed=0
        wrong "lint"
    fi
    cat "$results/lint.log"
}

# The CUDA backend where nvcc is: one architecture and its PTX, all of them in the full run.
build_cuda() {
    [ -d build/release/cuda ] || return 0
    note "release: CUDA backend"
    archs=90
    ptx=90
    if [ "$mode" = full ]; then
        archs='75;80;86;89;90'
        ptx=75
    fi
    if ! cmake --preset release -DTERN_CUDA_ARCHS="$archs" -DTERN_CUDA_PTX="$ptx" >/dev/null ||
        ! cmake --build build/release -j "$jobs" --target tern_cuda; then
        wrong "libtern_cuda.so does not build"
        return 0
    fi
    python3 tools/cuda/budget.py build/release || wrong "a CUDA kernel is above its budget of registers"
}

# What the tests of the coverage preset have run.
check_coverage() {
    note "coverage"
    python3 tools/coverage.py --lines build/coverage && return 0
    wrong "lines or kernels are not covered"
}

# An op of each kind by the recipe of CONTRIBUTING.md, in a copy of the sources.
check_recipe() {
    note "recipe: an op of each kind"
    python3 tools/try_recipe.py --jobs "$jobs" && return 0
    wrong "adding an op takes more than CONTRIBUTING.md says, or goes unnoticed"
}

root=$(pwd)
started=$(date +%s)
# the plugin first: the install test takes it along
build_preset release all || true
build_cuda
if [ "$mode" = full ]; then
    run_preset release all
    run_preset asan-ubsan all
    run_preset minimal all
    run_preset tsan all
    run_preset debug all
    run_preset coverage all
    check_coverage
    check_recipe
    note "fuzz: long"
    cmake --preset fuzz -DTERN_FUZZ_SECONDS="${TERN_FUZZ_SECONDS:-300}" >/dev/null
    run_preset fuzz all --label-regex '^fuzz$'
    begin_lint
else
    # a second device is another index, not another size
    run_preset release all --exclude-regex '^ops/(order|kernel|move)_sizes_simulated_two$'
    # the kernels of kernel_sizes in other orders of their threads, which release runs
    run_preset asan-ubsan all --exclude-regex '^ops/order_sizes_simulated$'
    begin_lint
    run_preset minimal all --label-regex '^(ops|api|install)$'
    # but for kernels whose tests take half of the time there
    run_preset tsan tern_threads_tests --label-regex '^threads$' \
        --exclude-regex '^unit/(gemm_way|cpu_(gemm|norm|half_ways|steps|softmax))$'
fi
end_lint
# the next ./run build makes the plugin for the GPUs of this machine
[ ! -d build/release/cuda ] || cmake --preset release -UTERN_CUDA_ARCHS -UTERN_CUDA_PTX >/dev/null

note "total after $((($(date +%s) - started) / 60)) min"
cat "$results/times"
[ ! -f "$results/wrong" ] || sed 's/^/FAILED   /' "$results/wrong"
exec python3 tools/run/sum_tests.py --extra-passed "$lint_passed" --extra-failed "$broken" \
    "$results"/*.xml
