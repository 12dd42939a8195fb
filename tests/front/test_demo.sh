#!/bin/sh
# ./run demo without MNIST asks on a terminal whether to fetch it, and does as it is told. The program
# and the fetching are made up: what is really fetched is test_fetch.sh's. usage: test_demo.sh CHECKOUT
set -eu

root=$1
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
if ! python3 -c 'import os, pty; os.waitstatus_to_exitcode' 2>/dev/null; then
    echo "skipped: no python3 of 3.9 or newer, which gives the command a terminal"
    exit 77
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/tern-demo.XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM
failed=0

mkdir -p "$work/tree/build/release/examples"
cp -R "$root/tools" "$work/tree/"
cd "$work/tree"
printf '#!/bin/sh\necho "cnn_mnist $*"\n' >build/release/examples/cnn_mnist
chmod +x build/release/examples/cnn_mnist
cat >tools/run/fetch_mnist.sh <<'TEXT'
[ -z "$NO_NETWORK" ] || exit 1
mkdir -p "$1"
for name in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
    : >"$1/$name-ubyte.gz"
done
TEXT
unset TERN_DATA XDG_CACHE_HOME
HOME=$work/home
NO_NETWORK=
export HOME NO_NETWORK
cache=$HOME/.cache/tern/mnist
question="No MNIST found. Fetch it (11 MB) to $cache? [Y/n] "

# answered TEXT WORDS...: the question is asked, and to this answer the demo says these words.
answered() {
    answer=$1
    shift
    rm -rf "$HOME"
    status=0
    python3 "$here/on_terminal.py" --answer '[Y/n]' "$answer" sh tools/run/demo.sh \
        >"$work/output" || status=$?
    [ "$status" = 0 ] || wrong "the answer '$answer' ended with $status"
    for words in "$question" "$@"; do
        grep -qF -- "$words" "$work/output" || wrong "after '$answer' not '$words'"
    done
}

wrong() {
    echo "demo: $*:"
    sed 's/^/    /' "$work/output"
    failed=1
}

for yes in '\n' 'y\n' 'Yes\n'; do
    answered "$yes" "training on MNIST in $cache" "cnn_mnist --data $cache --epochs 1 --show 8"
done
for no in 'n\n' 'No\n' '\4'; do
    answered "$no" 'built-in drawn digits' 'cnn_mnist --data digits'
done
NO_NETWORK=yes
answered '\n' 'demo: MNIST could not be fetched' 'built-in drawn digits'
NO_NETWORK=

# Not asked: with --fetch or --digits, where MNIST is there, and where nobody could answer.
# unasked WORDS COMMAND...
unasked() {
    words=$1
    shift
    "$@" >"$work/output" 2>&1 || wrong "'$*' failed"
    grep -qF -- "$words" "$work/output" || wrong "'$*' does not say '$words'"
    ! grep -qF '[Y/n]' "$work/output" || wrong "'$*' asks"
}

rm -rf "$HOME"
unasked 'cnn_mnist --data digits' python3 "$here/on_terminal.py" sh tools/run/demo.sh --digits
unasked 'cnn_mnist --data digits' sh tools/run/demo.sh
unasked "cnn_mnist --data $cache" python3 "$here/on_terminal.py" sh tools/run/demo.sh --fetch
unasked "cnn_mnist --data $cache" python3 "$here/on_terminal.py" sh tools/run/demo.sh

exit $failed
