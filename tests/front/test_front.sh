#!/bin/sh
# The front door and its checkers do what they say, also when they should refuse. Works on a copy of
# the scripts with planted faults, so that nothing in the checkout changes. usage: test_front.sh
# CHECKOUT
set -eu

root=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/tern-front.XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM
failed=0

# expect STATUS TEXT COMMAND...: the exit status and a part of the output.
expect() {
    want=$1
    text=$2
    shift 2
    status=0
    "$@" >"$work/output" 2>&1 </dev/null || status=$?
    [ -n "$text" ] || echo >>"$work/output"
    if [ "$status" != "$want" ] || ! grep -qF -- "$text" "$work/output"; then
        echo "front: '$*' gave status $status, wanted $want and '$text':"
        sed 's/^/    /' "$work/output"
        failed=1
    fi
}

mkdir -p "$work/tree/build/release/examples" "$work/mnist" "$work/mirror"
cp -R "$root/run" "$root/tools" "$work/tree/"
printf '#!/bin/sh\necho "cnn_mnist $*"\n' >"$work/tree/build/release/examples/cnn_mnist"
chmod +x "$work/tree/build/release/examples/cnn_mnist"
cd "$work/tree"

expect 0 'usage: ./run COMMAND' ./run help
expect 2 "unknown command 'nonsense'" ./run nonsense
expect 2 "unknown argument '--wrong'" ./run deps --wrong
expect 2 '--prefix wants a folder' ./run install --prefix

HOME=$work/home
export HOME
unset TERN_DATA XDG_CACHE_HOME
expect 0 'cnn_mnist --data digits' sh tools/run/demo.sh
expect 0 'built-in drawn digits' sh tools/run/demo.sh
expect 1 'does not hold the four MNIST files' sh tools/run/demo.sh "$work/mnist"
for name in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
    echo wrong | gzip >"$work/mirror/$name-ubyte.gz"
    echo wrong | gzip >"$work/mnist/$name-ubyte.gz"
done
expect 0 "training on MNIST in $work/mnist" sh tools/run/demo.sh "$work/mnist"
TERN_DATA=$work
export TERN_DATA
expect 0 "--data $work/mnist" sh tools/run/demo.sh
expect 0 'cnn_mnist --data digits' sh tools/run/demo.sh --digits
if command -v curl >/dev/null 2>&1; then
    TERN_MNIST_MIRRORS=file://$work/mirror
    export TERN_MNIST_MIRRORS
    expect 1 'did not give the right file' sh tools/run/fetch_mnist.sh "$work/fetched"
    expect 1 '' test -e "$work/fetched/train-images-idx3-ubyte.gz"
fi

# Documents are checked without git, too: in an archive, or where no git is installed.
mkdir -p "$work/no-git"
ln -s "$(python3 -c 'import sys; print(sys.executable)')" "$work/no-git/python3"
expect 0 '' env GIT_DIR=/nowhere python3 "$root/tools/check_docs.py"
expect 0 '' env PATH="$work/no-git" python3 "$root/tools/check_docs.py"

mkdir -p core nn include/tern
echo '#include "core/call.h"' >nn/wrong.c
: >core/call.h
expect 1 'nn/wrong.c:1: nn/ may not include core/call.h' python3 tools/check_layers.py
echo '#include <tern/tern.h>' >nn/wrong.c
expect 0 '' python3 tools/check_layers.py
echo '#include <cblas.h>' >nn/wrong.c
expect 1 'may include <cblas.h>' python3 tools/check_layers.py
{
    printf 'int f(void)\n{\n'
    seq 1 130 | sed 's/.*/    g();/'
    printf '}\n'
} >nn/wrong.c
expect 1 'nn/wrong.c:2: a function of 132 lines' python3 tools/check_sizes.py
printf 'OP(first, .inputs = 1)\nVIEW(second, .inputs = 1)\n' >core/ops.def
mkdir -p tests/ops
printf '#define OPINFO(name) .op = #name\n#define CASE(name) { OPINFO(name) }\n' >tests/ops/opinfo.c
echo 'opinfo all[] = { CASE(first), CASE(third) };' >>tests/ops/opinfo.c
mkdir -p bench
echo 'ROW(other, FLAT, 8, 0, tern_other(x), "torch.other(x)")' >bench/table.def
expect 1 'no OPINFO(second)' python3 tools/check_ops.py
expect 1 'no line for first in bench/table.def' python3 tools/check_ops.py
expect 1 'OPINFO(third) has no row' python3 tools/check_ops.py
expect 1 'docs/ops.md is not current' python3 tools/gen_ops.py --check
expect 0 '' python3 tools/gen_ops.py
expect 0 '' python3 tools/gen_ops.py --check
printf 'int f(void) { return X; }\n' >include/tern/wrong.h
expect 1 'include/tern/wrong.h' python3 tools/check_headers.py
if command -v git >/dev/null 2>&1; then # the checker asks it for the files
    git init -q .
    mkdir -p docs/guide examples/common
    echo 'const char *f(void) { return getenv("TERN_WRONG"); }' >core/wrong.c
    echo 'cJSON_AddNumberToObject(root, "wrong", 1);' >examples/common/results.c
    expect 1 'core/wrong.c: reads TERN_WRONG, which docs/guide/environment.md does not name' \
        python3 tools/check_docs.py
    expect 1 'tools/run/fetch_mnist.sh: reads TERN_MNIST_MIRRORS' python3 tools/check_docs.py
    expect 1 'writes the key wrong, which docs/guide/examples.md does not name' \
        python3 tools/check_docs.py
    # shellcheck disable=SC2016
    echo '`TERN_WRONG`, `TERN_*`' >docs/guide/environment.md
    # shellcheck disable=SC2016
    echo '`wrong`' >docs/guide/examples.md
    expect 0 '' python3 tools/check_docs.py
fi

cat >results.xml <<'TEXT'
<testsuite><testcase name="unit/a" status="run"><system-out>[ RUN      ] one
[       OK ] one
skipped: no second disk
[  SKIPPED ] two
[  PASSED  ] 1 test(s).</system-out></testcase>
<testcase name="unit/b" status="fail"><failure message=""/><system-out>[       OK ] one
[  FAILED  ] two
[  FAILED  ] 1 test(s), listed below:
[  FAILED  ] two</system-out></testcase>
<testcase name="unit/c" status="fail"><failure message=""/><system-out>crashed</system-out></testcase>
<testcase name="install/d" status="run"><system-out>plain</system-out></testcase>
<testcase name="install/e" status="notrun">
<skipped message="SKIP_RETURN_CODE=77"/><system-out>skipped: no browser</system-out></testcase>
<testcase name="unit/f" status="notrun"><skipped message="Unable to find executable"/></testcase>
</testsuite>
TEXT
expect 1 '3 passed, 3 failed, 2 skipped' python3 tools/run/sum_tests.py results.xml
expect 1 'FAILED   results.xml: unit/b: two' python3 tools/run/sum_tests.py results.xml
expect 1 'skipped  results.xml: unit/a: two (no second disk)' \
    python3 tools/run/sum_tests.py --show /dev/null results.xml
expect 1 'skipped  results.xml: install/e (no browser)' \
    python3 tools/run/sum_tests.py --show /dev/null results.xml
expect 1 '4 passed, 4 failed, 2 skipped' python3 tools/run/sum_tests.py \
    --extra-passed 1 --extra-failed 1 results.xml

exit $failed
