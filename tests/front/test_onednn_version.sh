#!/bin/sh
# Which versions of oneDNN a build takes, and what is said of the others.
# usage: test_onednn_version.sh CHECKOUT CMAKE
set -eu

root=$1
cmake=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/tern-onednn.XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM
failed=0

cat >"$work/ask.cmake" <<END
include($root/cmake/onednn.cmake)
tern_onednn_version($work/include version why)
message(STATUS "version='\${version}' why='\${why}'.")
END

# expect TEXT: of the headers that are there.
expect() {
    if ! "$cmake" -P "$work/ask.cmake" >"$work/output" 2>&1 || ! grep -qF "$1" "$work/output"; then
        echo "onednn_version: wanted $1:"
        sed 's/^/    /' "$work/output"
        failed=1
    fi
}

# header MAJOR MINOR PATCH
header() {
    mkdir -p "$work/include/oneapi/dnnl"
    {
        echo '/// Major version'
        echo "#define DNNL_VERSION_MAJOR $1"
        echo "#define DNNL_VERSION_MINOR $2"
        echo "#define DNNL_VERSION_PATCH $3"
        echo '#define DNNL_VERSION_HASH  "N/A"'
    } >"$work/include/oneapi/dnnl/dnnl_version.h"
}

expect "version='' why='$work/include/oneapi/dnnl/dnnl_version.h names no version of oneDNN'."
header 2 6 3
expect "version='2.6.3' why=''."
header 3 11 0
expect "version='3.11.0' why=''."
header 1 96 0
expect "version='' why='oneDNN 1.96.0 was found, 2 and 3 are supported'."
header 4 0 0
expect "version='' why='oneDNN 4.0.0 was found, 2 and 3 are supported'."

exit $failed
