#!/bin/sh
# Runs every bench_* program, or with "peers" the comparison with other libraries (bench/peers/run.sh).
# usage: bench.sh [peers] [NAME...]; called by ./run bench, in the checkout.
set -eu

programs=build/release/bench

if [ "${1:-}" = peers ]; then
    shift
    exec sh bench/peers/run.sh "$@"
fi

found=no
for program in "$programs"/bench_*; do
    [ -x "$program" ] || continue
    name=${program##*/bench_}
    case " $* " in
    *" $name "*) ;;
    "  ") case $name in device | sequence) continue ;; esac ;; # parts of ./run gpu-check
    *) continue ;;
    esac
    found=yes
    printf '\n== %s\n' "$name"
    "$program"
done
[ $found = yes ] || {
    echo "bench: no program of that name in $programs; there are:" >&2
    for program in "$programs"/bench_*; do
        [ ! -x "$program" ] || printf '  %s\n' "${program##*/bench_}" >&2
    done
    exit 1
}
