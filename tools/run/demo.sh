#!/bin/sh
# Trains the convolutional example for one epoch and shows digits with its answers; says which data
# it used.
# usage: demo.sh [--check | --from FOLDER] [--fetch | --digits] [DIR] [-- OPTIONS OF THE EXAMPLE]; called by
# ./run demo, in the checkout. --check ends before anything is done, when no argument is wrong; --from is where the
# example runs, whose files are then the caller's.
set -eu

check=no
from=.
case ${1:-} in
--check)
    check=yes
    shift
    ;;
--from)
    from=$2
    shift 2
    ;;
esac
fetch=ask
folder=
while [ $# -gt 0 ]; do
    case $1 in
    --fetch) fetch=yes ;;
    --digits) fetch=never ;;
    --)
        shift
        break
        ;;
    -*)
        echo "demo: unknown option '$1' (--fetch, --digits, or a folder)" >&2
        exit 2
        ;;
    *)
        [ -z "$folder" ] || {
            echo "demo: one folder at a time, not '$1', too" >&2
            exit 2
        }
        folder=$1
        ;;
    esac
    shift
done

cache=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/tern/mnist
program=build/release/examples/cnn_mnist
plan="--epochs 1 --show 8"

# A folder counts when all four files are there, packed or not.
has_mnist() {
    for name in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
        [ -f "$1/$name-ubyte" ] || [ -f "$1/$name-ubyte.gz" ] || return 1
    done
}

find_mnist() {
    for candidate in data/mnist "${TERN_DATA:-data}/mnist" "$cache"; do
        if has_mnist "$candidate"; then
            folder=$candidate
            return 0
        fi
    done
    return 1
}

# Without a terminal nobody can answer, and nothing is fetched unasked.
may_fetch() {
    case $fetch in
    yes) return 0 ;;
    never) return 1 ;;
    esac
    [ -t 0 ] && [ -t 1 ] || return 1
    printf 'No MNIST found. Fetch it (11 MB) to %s? [Y/n] ' "$cache"
    read -r answer || answer=n
    case $answer in n* | N*) return 1 ;; esac
}

if [ -n "$folder" ] && ! has_mnist "$folder"; then
    echo "demo: '$folder' does not hold the four MNIST files (train- and t10k-," \
        "images-idx3-ubyte and labels-idx1-ubyte, with or without .gz)" >&2
    echo "  try ./run demo --fetch, which fetches them, or --digits, which needs none" >&2
    exit 1
fi
[ $check = no ] || exit 0
if [ -n "$folder" ]; then
    :
elif [ "$fetch" != never ] && find_mnist; then
    :
elif may_fetch; then
    if sh tools/run/fetch_mnist.sh "$cache"; then
        folder=$cache
    else
        echo "demo: MNIST could not be fetched" >&2
    fi
fi

program=$(pwd)/$program
case $folder in '' | /*) ;; *) folder=$(pwd)/$folder ;; esac
cd -- "$from"

# The plan is split into words on purpose.
# shellcheck disable=SC2086
if [ -n "$folder" ]; then
    echo "demo: training on MNIST in $folder"
    exec "$program" --data "$folder" $plan "$@"
else
    echo "demo: training on the built-in drawn digits (for MNIST: ./run demo DIR, or --fetch)"
    exec "$program" --data digits $plan "$@"
fi
