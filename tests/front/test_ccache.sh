#!/bin/sh
# What goes before compilers: ccache where it is and works, and nothing elsewhere.
# usage: test_ccache.sh CHECKOUT CMAKE
set -eu

root=$1
cmake=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/tern-ccache.XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM
cd "$work"
failed=0

cat >"$work/ask.cmake" <<END
include($root/cmake/ccache.cmake)
tern_find_ccache(before a-compiler)
message(STATUS "before='\${before}'.")
END

# expect COMMAND [WORDS]: with nothing but the folder on the path; and that CMake says WORDS.
expect() {
    if ! PATH=$work "$cmake" -P "$work/ask.cmake" >"$work/output" 2>&1 ||
        ! grep -qF "before='$1'." "$work/output" || ! grep -qF -e "${2:-}" "$work/output"; then
        echo "ccache: wanted '$1' ${2:-}:"
        sed 's/^/    /' "$work/output"
        failed=1
    fi
}

# A ccache that wants the compiler first, and does as CODE says.
write_ccache() {
    cat >"$work/ccache" <<END
#!/bin/sh
[ "\$1 \$2" = 'a-compiler -c' ] || exit 3
$1
END
    chmod +x "$work/ccache"
}

expect ''
write_ccache 'exit 0'
expect "$work/ccache"
write_ccache 'echo "ccache: error: no folder" >&2; exit 1'
expect '' 'Going on without ccache, which does not work here: ccache: error: no folder'

exit $failed
