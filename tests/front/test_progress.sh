#!/bin/sh
# An example on a terminal: one line an epoch that is drawn over, then the epoch's own line; --quiet
# draws nothing. What exactly is drawn is unit/data_progress's. usage: test_progress.sh EXAMPLES
set -eu

examples=$1
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
if ! python3 -c 'import os, pty; os.waitstatus_to_exitcode' 2>/dev/null; then
    echo "skipped: no python3 of 3.9 or newer, which gives the program a terminal"
    exit 77
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/tern-progress.XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM
failed=0
TERM=xterm
LC_ALL=C
export TERM LC_ALL

on_terminal() {
    python3 "$here/on_terminal.py" --columns 100 "$examples/mlp_mnist" --data digits --device cpu \
        --epochs 3 --batch 20 --steps 30 "$@" >"$work/output" || wrong "mlp_mnist $* failed"
}

# matches PATTERN: some line, as far as it is one for the terminal, matches the whole pattern.
matches() { grep -qxE -- "$1" "$work/lines" || wrong "no line is $1"; }

wrong() {
    echo "progress: $*:"
    sed 's/\r/\\r/g; s/\x1b/\\e/g; s/^/    /' "$work/output"
    failed=1
}

on_terminal
# The terminal's newline is \r\n; every other \r goes back over the line.
escape=$(printf '\033')
sed 's/\r$//' "$work/output" | tr '\r' '\n' >"$work/lines"
end="\\[K"
matches "epoch 1/3 #*\.+ +[0-9]+%  loss [0-9.]+  [0-9]+ samples/s  [0-9.:]+ (s|min) left$escape$end"
matches "epoch 1/3 #{20} 100%  loss [0-9.]+  [0-9]+ samples/s  [0-9.]+ s$escape$end"
matches 'epoch 1/3: loss [0-9.]+, accuracy [0-9.]+ %, [0-9.]+ s, [0-9]+ samples/s'
[ "$(grep -c 'epoch 1/3 ' "$work/output")" -eq 1 ] || wrong "the bar takes more than one line"

on_terminal --quiet
! grep -q "samples/s\|$escape" "$work/output" || wrong "--quiet draws"

exit $failed
