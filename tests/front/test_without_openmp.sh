#!/bin/sh
# Where the compiler has no OpenMP, sources that use it themselves compile without a warning: README.md
# promises slower programs, not a build that fails. usage: test_without_openmp.sh CHECKOUT C_COMPILER
set -eu

cd "$1"
compiler=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/tern-without.XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM
failed=0
grep -rlE --include='*.c' '^#pragma omp|include <omp\.h>' \
    core autograd amp backend_cpu nn data io bench tests examples tools >"$work/sources"
[ -s "$work/sources" ] || {
    echo "without_openmp: no source was found"
    exit 1
}
while IFS= read -r file; do
    "$compiler" -std=gnu17 -fsyntax-only -Wall -Wextra -Werror -D_GNU_SOURCE= -DTERN_HAVE_OPENMP=0 \
        -DTERN_HAVE_ZLIB=0 -I. -Iinclude "$file" </dev/null || {
        echo "without_openmp: $file wants OpenMP"
        failed=1
    }
done <"$work/sources"
exit $failed
