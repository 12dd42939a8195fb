#!/bin/sh
# What goes before compilers: ccache where it is, and nothing where it is not.
# usage: test_ccache.sh CHECKOUT CMAKE
set -eu

root=$1
cmake=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/tern-ccache.XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM
failed=0

cat >"$work/ask.cmake" <<END
include($root/cmake/ccache.cmake)
tern_find_ccache(before)
message(STATUS "before='\${before}'.")
END

# expect COMMAND: with nothing but the folder on the path.
expect() {
    if ! PATH=$work "$cmake" -P "$work/ask.cmake" >"$work/output" 2>&1 ||
        ! grep -qF "before='$1'." "$work/output"; then
        echo "ccache: wanted '$1':"
        sed 's/^/    /' "$work/output"
        failed=1
    fi
}

expect ''
printf '#!/bin/sh\n' >"$work/ccache"
chmod +x "$work/ccache"
expect "$work/ccache"

exit $failed
