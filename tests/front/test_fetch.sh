#!/bin/sh
# MNIST is fetched from a mirror, here a folder of this machine with the real files, checked, and kept
# where the demo finds it. Skipped (77) without the files or curl. usage: test_fetch.sh CHECKOUT
set -eu

root=$1
source=${TERN_TEST_DATA:-$root/../shared/data}/mnist
if ! [ -f "$source/train-images-idx3-ubyte.gz" ]; then
    echo "skipped: no MNIST in TERN_TEST_DATA or ../shared/data"
    exit 77
fi
if ! command -v curl >/dev/null 2>&1; then
    echo "skipped: no curl, and only that one takes file:// for a mirror"
    exit 77
fi
source=$(CDPATH='' cd -- "$source" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/tern-fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM
failed=0

mkdir -p "$work/tree/build/release/examples" "$work/broken"
cp -R "$root/tools" "$work/tree/"
cd "$work/tree"
printf '#!/bin/sh\necho "cnn_mnist $*"\n' >build/release/examples/cnn_mnist
chmod +x build/release/examples/cnn_mnist
unset TERN_DATA
HOME=$work/home
XDG_CACHE_HOME=$work/cache
folder=$XDG_CACHE_HOME/tern/mnist
export HOME XDG_CACHE_HOME TERN_MNIST_MIRRORS

# expect TEXT COMMAND...: it succeeds and says this.
expect() {
    text=$1
    shift
    status=0
    "$@" >"$work/output" 2>&1 </dev/null || status=$?
    [ "$status" = 0 ] || wrong "'$*' ended with $status"
    [ -z "$text" ] || grep -qF -- "$text" "$work/output" || wrong "'$*' does not say '$text'"
}

wrong() {
    echo "fetch: $*:"
    sed 's/^/    /' "$work/output"
    failed=1
}

# A mirror that packs something else is passed over, file by file; nothing of it stays.
echo wrong | gzip >"$work/broken/t10k-labels-idx1-ubyte.gz"
TERN_MNIST_MIRRORS="file://$work/broken
file://$source"
expect "demo: training on MNIST in $folder" sh tools/run/demo.sh --fetch
grep -qF "fetch: file://$work/broken did not give the right file" "$work/output" ||
    wrong "the first mirror is not named"
for name in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
    cmp -s "$source/$name-ubyte.gz" "$folder/$name-ubyte.gz" || wrong "$name is not as it was sent"
done
[ "$(find "$folder" -type f | wc -l)" -eq 4 ] || wrong "there are other files in $folder"

# What is there and right is not fetched again; what is there and wrong is.
TERN_MNIST_MIRRORS=file://$work/nowhere
expect '' sh tools/run/fetch_mnist.sh "$folder"
! grep -q fetching "$work/output" || wrong "right files are fetched again"
echo wrong | gzip >"$folder/t10k-labels-idx1-ubyte.gz"
TERN_MNIST_MIRRORS=file://$source
expect 'fetching' sh tools/run/fetch_mnist.sh "$folder"
cmp -s "$source/t10k-labels-idx1-ubyte.gz" "$folder/t10k-labels-idx1-ubyte.gz" ||
    wrong "a wrong file stayed"

# The demo finds what was fetched.
expect "cnn_mnist --data $folder --epochs 1" sh tools/run/demo.sh

exit $failed
