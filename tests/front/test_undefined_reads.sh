#!/bin/sh
# Reads of device memory that nobody wrote, on a simulated device under valgrind's memcheck: the copy and
# the kernel are named, with tensor and thread; a program without such reads has no report.
# usage: test_undefined_reads.sh PROGRAM
set -eu

program=$1
command -v valgrind >/dev/null || {
    echo "skipped: valgrind is not installed"
    exit 77
}
work=$(mktemp -d "${TMPDIR:-/tmp}/tern-undefined.XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM
cd "$work"
failed=0

# Without the cache each tensor is an allocation of its own, in which nothing was written.
watch() {
    TERN_SIM_DEVICES=1 TERN_NO_CACHE=1 OMP_NUM_THREADS=1 \
        valgrind --quiet "$program" "$1" >"report-$1" 2>&1 </dev/null || :
}

# expect CASE TEXT: the report has it.
expect() {
    grep -qF -- "$2" "report-$1" || {
        echo "undefined_reads: '$2' is not in the report of '$1':"
        head -c 3000 "report-$1" | sed 's/^/    /'
        failed=1
    }
}

for what in copy index none; do
    watch $what
done
grep -q 'tern: cannot be watched' report-copy && {
    echo "skipped: built without valgrind's header"
    exit 77
}
expect copy 'tern: a copy of 40 bytes to the host: nobody wrote byte 0 of them'
expect copy 'in tensor i32 [10] on cuda:0 (simulated), made at'
expect copy 'undefined_reads.c:'
expect index 'thread (0,0,0) of block (0,0,0) in k_embedding'
expect index 'a branch or an address depends on memory that nobody wrote'
expect index 'uninitialised value'
[ "$(grep -c '^[0-9]*[.][0-9]*$' report-none)" = 2 ] || expect none 'two losses'
if grep -qE 'tern: |ninitialised|Invalid' report-none; then
    echo "undefined_reads: a report without a reason:"
    head -c 3000 report-none | sed 's/^/    /'
    failed=1
fi
exit $failed
