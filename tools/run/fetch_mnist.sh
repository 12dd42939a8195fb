#!/bin/sh
# Fetches MNIST into a folder from its public mirrors. A file counts only when its unpacked content
# has the known checksum: mirrors pack the same bytes differently. TERN_MNIST_MIRRORS, a list of
# addresses, replaces the mirrors.
# usage: fetch_mnist.sh FOLDER
set -eu

folder=$1
mirrors="https://ossci-datasets.s3.amazonaws.com/mnist
https://storage.googleapis.com/cvdf-datasets/mnist"
mirrors=${TERN_MNIST_MIRRORS:-$mirrors}
names="train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1"

sum_of() {
    case $1 in
    train-images-idx3) echo ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db ;;
    train-labels-idx1) echo 65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5 ;;
    t10k-images-idx3) echo 0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7 ;;
    t10k-labels-idx1) echo ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2 ;;
    esac
}

is_right() {
    [ -f "$2" ] || return 1
    sum=$(gzip -dc "$2" 2>/dev/null | sha256sum | cut -d ' ' -f 1)
    [ "$sum" = "$(sum_of "$1")" ]
}

with_curl() {
    curl --fail --silent --show-error --location --connect-timeout 15 --max-time 300 \
        --output "$2" "$1"
}

download() {
    if command -v curl >/dev/null 2>&1; then
        with_curl "$@"
    elif command -v wget >/dev/null 2>&1; then
        wget --quiet --timeout=30 --tries=2 --output-document="$2" "$1"
    else
        sh tools/run/deps.sh --quiet fetch
        with_curl "$@"
    fi
}

# fetch NAME: the part file is renamed only after its checksum is right.
fetch() {
    file=$folder/$1-ubyte.gz
    is_right "$1" "$file" && return 0
    for mirror in $mirrors; do
        echo "fetching $mirror/$1-ubyte.gz"
        if download "$mirror/$1-ubyte.gz" "$file.part" && is_right "$1" "$file.part"; then
            mv "$file.part" "$file"
            return 0
        fi
        echo "fetch: $mirror did not give the right file" >&2
        rm -f "$file.part"
    done
    return 1
}

mkdir -p "$folder"
for name in $names; do
    fetch "$name"
done
