#!/bin/sh
# What the programs of bench/ may be asked for, and what they say where it is wrong.
# usage: test_bench_arguments.sh BENCH_OPS
set -eu

programs=$(CDPATH='' cd -- "$(dirname -- "$1")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/tern-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM
failed=0

# expect STATUS TEXT PROGRAM ARGUMENT...: the exit status and a part of the output.
expect() {
    want=$1
    text=$2
    program=$3
    shift 3
    status=0
    "$programs/bench_$program" "$@" >"$work/output" 2>&1 </dev/null || status=$?
    if [ "$status" != "$want" ] || ! grep -qF -- "$text" "$work/output"; then
        echo "bench_arguments: 'bench_$program $*' gave status $status, wanted $want and '$text':"
        head -c 2000 "$work/output" | sed 's/^/    /'
        failed=1
    fi
}

for program in "$programs"/bench_*; do
    program=${program##*/bench_}
    expect 0 "usage: bench_$program" "$program" --help
    expect 2 "there is no option '--nothing'" "$program" --nothing
done
expect 0 '"work": "add1_recorded", "threads": 2' ops add1_recorded --threads 2
expect 2 "no work is called 'nothing'" ops nothing add1
expect 2 "--threads wants a number, not 'two'" ops --threads two
expect 2 "--threads wants a number, not '4294967297'" ops --threads 4294967297
expect 2 "--seed wants a number, not '9223372036854775808'" gemm --seed 9223372036854775808
expect 2 "outside of 1 to 25: '--rounds'" gemm --rounds 26
expect 2 "or more than half of --most: '--least'" gemm --random 1 --least 6 --most 11
expect 2 "outside of 1 to 256: '--align'" gemm --align 0
expect 2 "no value after '--threads'" ops --threads
expect 2 "there is no option '-x'" ops add1 -xy
expect 2 "--size wants a number and k or m, not '8g'" bandwidth --size 8g add
# shellcheck disable=SC2046
expect 2 "too many names, from '257'" ops $(seq 300)
expect 1 "'nowhere'" steps tiny --device nowhere
expect 2 "no product is called '8x8:NN'" gemm 8x8:NN
expect 0 '64x64x64:NT' gemm --threads 1 64x64x64:NT
expect 2 "no work is called 'add/smal'" table --quick add/smal
expect 0 '2 ' sequence --operations 3 --seed 5 --device cpu

exit $failed
