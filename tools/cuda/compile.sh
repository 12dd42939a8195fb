#!/bin/sh
# Runs nvcc with -Xptxas=-v; what ptxas says of kernels goes into LOG, everything else is shown.
# usage: compile.sh LOG COMMAND...; called by the build (cmake/cuda.cmake).
set -eu

log=$1
shift
status=0
"$@" 2>"$log.all" || status=$?
facts='^ptxas info|^ +[0-9]+ bytes stack frame'
grep -E "$facts" "$log.all" >"$log" || true
grep -E -v "$facts" "$log.all" >&2 || true
rm -f "$log.all"
exit "$status"
