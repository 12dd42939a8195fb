#!/bin/sh
# The pitfalls: what docs/guide/placement.md shows is what the programs print, each wrong one ends in its
# lesson, each right one ends well. usage: test_placement_page.sh SOURCE PITFALLS CC
set -eu

source=$1
pitfalls=$2
cc=$3
page=$source/docs/guide/placement.md
work=$(mktemp -d "${TMPDIR:-/tmp}/tern-placement.XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM
unset CUDA_VISIBLE_DEVICES TERN_SIM_DEVICES TERN_DEVICE_POLICY
failed=0

wrong() {
    echo "placement: $*"
    failed=1
}

# Blocks of the page that begin with "$ ./NAME": one file with the rest of the block for each.
awk -v work="$work" '
    /^```/ { inside = !inside; first = inside; name = ""; next }
    inside && first && /^\$ \.\// { name = substr($2, 3); printf "" >(work "/" name ".shown") }
    inside && !first && name != "" { print >(work "/" name ".shown") }
    inside { first = 0 }' "$page"

# What the program prints is what is shown, stdout's lines and stderr's in one order or another; a sanitizer may
# add its report to a crash.
for program in "$pitfalls"/*_wrong "$pitfalls"/*_right; do
    name=$(basename "$program")
    [ "$(wc -l <"$source/examples/pitfalls/$name.c")" -le 60 ] || wrong "$name.c is longer than 60 lines"
    grep -q "examples/pitfalls/$name.c" "$page" || wrong "the page does not lead to $name.c"
    status=0
    "$program" >"$work/$name.out" 2>&1 </dev/null || status=$?
    case $name in
    *_right) [ "$status" = 0 ] || wrong "$name ended with $status: $(cat "$work/$name.out")" ;;
    *) [ -s "$work/$name.shown" ] || wrong "the page shows no output of $name" ;;
    esac
    [ -e "$work/$name.shown" ] || continue
    case $name in
    device_pointer_wrong | early_read_wrong) head -n "$(wc -l <"$work/$name.shown")" "$work/$name.out" ;;
    *) cat "$work/$name.out" ;;
    esac | sed 's/0x[0-9a-f]*/0x.../g' | sort >"$work/$name.printed" # addresses differ from run to run
    sort "$work/$name.shown" | diff - "$work/$name.printed" || wrong "the page (<) and $name (>) differ"
done 2>/dev/null
for shown in "$work"/*.shown; do
    name=$(basename "$shown" .shown)
    [ -x "$pitfalls/$name" ] || wrong "the page shows a program that there is not: $name"
done

# The mistake that a compiler can see.
"$cc" -c -o "$work/object" -I"$source/include" "$source/examples/pitfalls/thrown_away_wrong.c" 2>"$work/cc" ||
    wrong "thrown_away_wrong.c does not compile"
if ! grep -q "ignoring return value" "$work/cc" || ! grep -q "thrown_away_wrong.c:12:" "$work/cc"; then
    wrong "the compiler does not warn of the lost result"
fi
exit "$failed"
