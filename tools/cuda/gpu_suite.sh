#!/bin/sh
# One test program of ./run gpu-check: NAME.tsv (name, status, seconds) and, where it fails, NAME.log in
# FOLDER. Not again once it passed.
# usage: gpu_suite.sh FOLDER UNTIL PROGRAM [alone]; UNTIL: seconds of the epoch at which it is cut
set -eu

folder=$1 until=$2 program=$3
kind=${program%/*}
name=${kind##*/}-${program##*/}
began=$(date +%s)
left=$((until - began))
[ ! -f "$folder/$name.ok" ] || exit 0
[ "$left" -gt 0 ] || exit 1
[ "$left" -lt 120 ] || left=120
status=0
timeout -k 5 "$left" "$program" >"$folder/$name.out" 2>&1 || status=$?
printf '%s\t%s\t%s\n' "$name" "$status" "$(($(date +%s) - began))" >"$folder/$name.tsv"
if [ "$status" -eq 0 ]; then
    : >"$folder/$name.ok"
    rm -f "$folder/$name.log"
else
    printf '\n== %s: status %s%s\n' "$name" "$status" "${4:+, run alone}" >"$folder/$name.log"
    tail -n 40 "$folder/$name.out" >>"$folder/$name.log"
fi
rm -f "$folder/$name.out"
exit "$((status != 0))"
