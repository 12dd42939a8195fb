#!/bin/sh
# A project that adds the sources as a folder gets the library: no programs, tests, warnings or install rules of
# tern's, and none of its own settings changed. Configured only, not built.
# usage: test_subproject.sh CMAKE GENERATOR C_COMPILER
set -eu

cmake=$1
generator=$2
compiler=$3
source=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/tern-sub.XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM
unset DESTDIR CFLAGS CMAKE_BUILD_TYPE
failed=0

wrong() {
    echo "subproject: $*"
    failed=1
}

mkdir "$work/pro ject"
cp "$source/tests/install/hello.c" "$work/pro ject/hello.c"
cat >"$work/pro ject/CMakeLists.txt" <<'TEXT'
cmake_minimum_required(VERSION 3.25)
project(parent C)
add_subdirectory("${TERN_SOURCE}" tern)
add_executable(hello hello.c)
target_link_libraries(hello PRIVATE tern::tern)
message(STATUS "type '${CMAKE_BUILD_TYPE}', standard '${CMAKE_C_STANDARD}', output "
               "'${CMAKE_LIBRARY_OUTPUT_DIRECTORY}', lib '$CACHE{CMAKE_BUILD_TYPE}'")
TEXT
"$cmake" -G "$generator" -S "$work/pro ject" -B "$work/build" -DTERN_SOURCE="$source" -DTERN_SIM=OFF \
    -DTERN_CUDA=OFF -DCMAKE_C_COMPILER="$compiler" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON \
    >"$work/log" 2>&1 || {
    cat "$work/log"
    exit 1
}
commands=$work/build/compile_commands.json

grep -qF "type '', standard '', output '', lib ''" "$work/log" ||
    wrong "settings of the parent are changed: $(grep "type '" "$work/log")"
grep -q '"command".*hello\.c' "$commands" || wrong "hello.c is not compiled"
if grep '"command".*hello\.c' "$commands" | grep -qE -- ' (-W|-O|-std|-D_GNU_SOURCE)'; then
    wrong "flags of tern's reach the parent: $(grep '"command".*hello\.c' "$commands")"
fi
grep '"command".*core/error\.c' "$commands" | grep -q -- ' -O2' || wrong "tern is not optimised"
! grep -q -- ' -Werror' "$commands" || wrong "warnings are errors"
for folder in tests examples bench tools; do
    ! grep -qF "\"file\": \"$source/$folder/" "$commands" || wrong "programs are built, of $folder"
done
"$cmake" --install "$work/build" --prefix "$work/prefix" >"$work/log" 2>&1 ||
    wrong "it installs something of tern's: $(cat "$work/log")"
[ ! -e "$work/prefix" ] || wrong "it installs something: $(ls -R "$work/prefix")"

# All of it is there for whoever asks.
"$cmake" -S "$work/pro ject" -B "$work/build" -DTERN_EXAMPLES=ON -DTERN_INSTALL=ON >"$work/log" 2>&1 ||
    wrong "it cannot be asked for more: $(cat "$work/log")"
grep -qF "\"file\": \"$source/examples/hello.c" "$commands" || wrong "TERN_EXAMPLES=ON builds none"
grep -q 'libtern\.so' "$work/build/tern/cmake_install.cmake" || wrong "TERN_INSTALL=ON installs none"

exit $failed
