#!/bin/sh
# The guide's and the readme's programs against an installed library: each is built as it stands and run, and prints
# what is printed below it; their fragments compile. pkg-config has to find tern.
# usage: documents.sh C_COMPILER SOURCES EMPTY_FOLDER
set -eu

compiler=$1
sources=$2
work=$3
here=$sources/tests/install
flags="-std=c17 -Wall -Wextra -Wpedantic -Werror"
libdir=$(pkg-config --variable=libdir tern)

fail() {
    echo "documents: $*" >&2
    exit 1
}

for document in "$sources/README.md" "$sources/docs/guide.md" "$sources"/docs/guide/*.md; do
    awk -v stem="$(basename "$document" .md)" -v to="$work" -f "$here/documents.awk" "$document"
done

# As a reader does, in its folder: errors name the file as it was given to the compiler.
cd "$work"
checked=0
for fragment in *-fragment-*.c; do
    # shellcheck disable=SC2046,SC2086
    "$compiler" $flags -Wno-unused-variable -Wno-unused-but-set-variable -fsyntax-only -I"$here" "$fragment" \
        $(pkg-config --cflags tern) || fail "a fragment does not compile: $fragment"
    rm "$fragment"
    checked=$((checked + 1))
done
[ $checked -ge 8 ] || fail "only $checked fragments were found"

# 64 black images, all of class 0, are what the readme's program reads.
mkdir mnist
for part in train t10k; do
    printf '\0\0\10\3\0\0\0\100\0\0\0\34\0\0\0\34' >mnist/$part-images-idx3-ubyte
    head -c 50176 /dev/zero >>mnist/$part-images-idx3-ubyte
    printf '\0\0\10\1\0\0\0\100' >mnist/$part-labels-idx1-ubyte
    head -c 64 /dev/zero >>mnist/$part-labels-idx1-ubyte
done

run=0
for program in *.c; do
    name=${program%.c}
    # shellcheck disable=SC2046,SC2086
    "$compiler" $flags "$program" -o "$name" $(pkg-config --cflags --libs tern) -Wl,-rpath,"$libdir" ||
        fail "a program does not compile: $program"
    arguments=
    [ "$name" != README-1 ] || arguments=mnist
    status=0
    # shellcheck disable=SC2086
    "./$name" $arguments >"$name.output" 2>&1 || status=$?
    [ $status -eq 0 ] || fail "$name ends with $status: $(cat "$name.output")"
    if [ -f "$name.expected" ]; then
        diff "$name.expected" "$name.output" || fail "$name does not print what the guide says"
    fi
    echo "$name runs"
    run=$((run + 1))
done
[ $run -ge 6 ] || fail "only $run programs were found"
cp "$sources/tests/headers/uses.cpp" .
[ "$(find . -name 'guide-*.cpp' | wc -l)" -eq 1 ] || fail "the guide's program in C++ was not found"
for program in *.cpp; do
    command -v c++ >/dev/null || break
    name=${program%.cpp}
    # shellcheck disable=SC2046
    c++ -std=c++17 -Wall -Wextra -Wpedantic -Wconversion -Werror "$program" -o "$name" $(pkg-config --cflags --libs tern) \
        -Wl,-rpath,"$libdir" || fail "a program does not compile: $program"
    "./$name" >"$name.output" 2>&1 || fail "$name fails: $(cat "$name.output")"
    echo "$name runs"
done
[ "$(grep -c 'accuracy 100.00 %' README-1.output)" -eq 3 ] || fail "README-1 prints $(cat README-1.output)"

# ... and says what is wrong with a folder.
status=0
./README-1 nowhere >/dev/null 2>output || status=$?
if [ $status -ne 1 ] || ! grep -q "try the folder with MNIST's four files" output; then
    fail "README-1 ends with $status for a folder that is not there: $(cat output)"
fi
