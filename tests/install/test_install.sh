#!/bin/sh
# Installs into a folder, moves the folder, and builds and runs hello.c against it: once with
# pkg-config, once with find_package. usage: test_install.sh CMAKE GENERATOR BUILD_FOLDER C_COMPILER
set -eu

cmake=$1
generator=$2
build=$3
compiler=$4
source=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/tern-install.XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM

# The installed library must find its plugins by itself.
unset TERN_PLUGIN_PATH LD_LIBRARY_PATH

"$cmake" --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/moved here"
prefix="$work/moved here"
if grep -rqF "$work/first" "$prefix/lib/pkgconfig" "$prefix/lib/cmake"; then
    echo "install: the first prefix is written into the package files" >&2
    exit 1
fi

if [ -x "$build/bin/tern" ]; then
    "$prefix/bin/tern" version
fi

# What the loader, and no other library, sees: a soname for each version that may differ, tern_ names alone, no
# stack that can be executed.
fail() {
    echo "install: $*" >&2
    exit 1
}
if command -v readelf >/dev/null 2>&1; then
    library=$prefix/lib/libtern.so
    readelf -d "$library" >"$work/dynamic"
    readelf -lW "$library" >"$work/segments"
    nm -D --defined-only "$library" | awk '$3 !~ /^tern_/ { print $3 }' >"$work/foreign"
    version=$(sed -n 's/^set(PACKAGE_VERSION "\(.*\)")$/\1/p' "$prefix/lib/cmake/tern/tern-config-version.cmake")
    case $version in
    0.*) soname=libtern.so.${version%.*} ;;
    *) soname=libtern.so.${version%%.*} ;;
    esac
    grep -qF "[$soname]" "$work/dynamic" || fail "the soname is not $soname: $(grep SONAME "$work/dynamic")"
    ! grep -qE 'TEXTREL|RPATH|RUNPATH' "$work/dynamic" || fail "$(grep -E 'TEXTREL|PATH' "$work/dynamic")"
    grep -qE 'GNU_STACK.* RW ' "$work/segments" || fail "an executable stack: $(grep STACK "$work/segments")"
    [ ! -s "$work/foreign" ] || fail "names that are not tern's: $(cat "$work/foreign")"
fi

run_hello() {
    echo "$1"
    "$2" >"$work/output" || {
        echo "install: hello failed ($1)" >&2
        exit 1
    }
    cat "$work/output"
    grep -q 'cpu' "$work/output"
}

cp "$source/hello.c" "$work/hello.c"
if command -v pkg-config >/dev/null 2>&1; then
    # A space in the prefix is more than pkg-config's output can carry through a shell, so this half
    # uses a link.
    ln -s "$prefix" "$work/link"
    PKG_CONFIG_PATH="$work/link/lib/pkgconfig"
    export PKG_CONFIG_PATH
    libdir=$(pkg-config --variable=libdir tern)
    # shellcheck disable=SC2046
    "$compiler" -std=c17 -Wall -Wextra -Wpedantic -Werror \
        "$work/hello.c" -o "$work/hello-pkg-config" \
        $(pkg-config --cflags --libs tern) -Wl,-rpath,"$libdir"
    run_hello "with pkg-config" "$work/hello-pkg-config"
    mkdir "$work/documents"
    sh "$source/documents.sh" "$compiler" "$source/../.." "$work/documents"
fi

mkdir "$work/project"
cp "$work/hello.c" "$work/project/hello.c"
cat >"$work/project/CMakeLists.txt" <<'TEXT'
cmake_minimum_required(VERSION 3.25)
project(hello C)
find_package(tern 0.1 REQUIRED)
add_executable(hello hello.c)
target_link_libraries(hello PRIVATE tern::tern)
TEXT
build_project() {
    "$cmake" -G "$generator" -S "$work/project" -B "$work/project/build" \
        -DCMAKE_C_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$prefix" || return 1
    "$cmake" --build "$work/project/build"
}
if ! build_project >"$work/log" 2>&1; then
    cat "$work/log" >&2
    exit 1
fi
run_hello "with find_package" "$work/project/build/hello"
