#!/bin/sh
# ./run called from other folders, through links, with arguments that are wrong; cmake and the rest are stubs that
# say how they were called. usage: test_run.sh CHECKOUT
set -eu

root=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/tern-run.XXXXXX")
work=$(CDPATH='' cd -- "$work" && pwd -P)
trap 'rm -rf "$work"' EXIT INT TERM
failed=0
unset TERN_JOBS DESTDIR
umask 022

# expect STATUS TEXT COMMAND...: the exit status and a part of the output.
expect() {
    want=$1
    text=$2
    shift 2
    status=0
    "$@" >"$work/output" 2>&1 </dev/null || status=$?
    [ -n "$text" ] || echo >>"$work/output"
    if [ "$status" != "$want" ] || ! grep -qF -- "$text" "$work/output"; then
        echo "run: '$*' gave status $status, wanted $want and '$text':"
        sed 's/^/    /' "$work/output"
        failed=1
    fi
}

# expect_unbuilt STATUS TEXT COMMAND...: as expect; a wrong argument is found out before a build of minutes.
expect_unbuilt() {
    expect "$@"
    if grep -q cmake "$work/output"; then
        shift 2
        echo "run: '$*' builds before it looks at its arguments"
        failed=1
    fi
}

# stub NAME LINE...: a command of that name.
stub() {
    name=$1
    shift
    printf '#!/bin/sh\n' >"$work/bin/$name"
    printf '%s\n' "$@" >>"$work/bin/$name"
    chmod +x "$work/bin/$name"
}

tree="$work/-a tree/ä"
mkdir -p "$work/bin" "$work/else where" "$tree/build/release/examples" "$tree/tools/cuda"
cp -R "$root/run" "$root/tools" "$root/CMakePresets.json" "$tree/"
# shellcheck disable=SC2016
stub cmake 'printf "cmake in %s:" "$PWD"' 'for a; do printf " [%s]" "$a"; done' 'echo " DESTDIR=$DESTDIR umask=$(umask)"'
stub dpkg-query 'echo installed'
stub apt-get 'echo "apt-get is called" >&2' 'exit 1'
stub ldconfig 'echo "ldconfig is called"'
stub id 'echo 0'
# shellcheck disable=SC2016
printf '#!/bin/sh\necho "cnn_mnist $* in $PWD"\n' >"$tree/build/release/examples/cnn_mnist"
chmod +x "$tree/build/release/examples/cnn_mnist"
# shellcheck disable=SC2016
printf 'echo "gpu_check $*"\n' >"$tree/tools/cuda/gpu_check.sh"
PATH="$work/bin:$PATH"
CDPATH=$work
IFS=/
export PATH CDPATH IFS DESTDIR=
cd "$work/else where"
run=../-a\ tree/ä/run

# ---- from wherever, by whatever name ----

expect 0 "cmake in $tree: [--build] [build/release]" "$run" build
expect 0 "cmake in $tree: [--build] [build/release]" env POSIXLY_CORRECT=1 LC_ALL=C sh "$run" build
ln -s "$run" link
ln -s 'else where/link' ../outer
expect 0 "cmake in $tree: [--preset] [minimal]" ./link build minimal
expect 0 "cmake in $tree: [--preset] [release]" ../outer build

# ---- folders are the caller's ----

expect 0 "[--prefix] [$work/else where/my prefix]" "$run" install --prefix 'my prefix'
expect 0 "PKG_CONFIG_PATH='$work/else where/p/lib/pkgconfig'" "$run" install --prefix=p
expect 0 "[--prefix] [$work/p]" "$run" install "--prefix=$work/p"
expect 0 "[--prefix] [/]" env DESTDIR=stage "$run" install --prefix //
expect 0 "DESTDIR=$work/else where/stage" env DESTDIR=stage "$run" install
# shellcheck disable=SC2016
expect 0 'umask=0022' sh -c 'umask 077 && exec "$1" install --prefix p' sh "$run"
expect 2 '--prefix wants a folder' "$run" install --prefix ''
expect 2 '--prefix wants a folder' "$run" install --prefix=
echo file >file
expect 1 "'/proc' is no folder that can be written" "$run" install --prefix /proc/x # for root, too
expect 1 "'$work/else where/file' is no folder that can be written" "$run" install --prefix file/x
if grep -q cmake "$work/output"; then
    echo "run: a prefix that cannot be written is found out after the build"
    failed=1
fi
if [ -w /usr/local ]; then
    expect 0 'ldconfig is called' "$run" install
    expect 0 'ldconfig is called' "$run" install --prefix /usr/local//
    stub ldconfig 'exit 1'
    expect 0 'installed in /usr/local; programs find it after, as root: ldconfig' "$run" install
fi
mkdir mnist
for name in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
    : >"mnist/$name-ubyte"
done
expect 0 "cnn_mnist --data $work/else where/mnist --epochs 1 --show 8 --steps 3" \
    "$run" demo mnist -- --steps 3
expect 0 "cnn_mnist --data digits --epochs 1 --show 8 --json results.json in $work/else where" \
    "$run" demo --digits -- --json results.json
(
    cd "$tree"
    expect 0 "--data $tree/../../else where/mnist --epochs 1 --show 8 in $tree" ./run demo "../../else where/mnist"
    exit $failed
) || failed=1
mkdir 'my data'
mv mnist 'my data'
expect 0 "cnn_mnist --data $work/else where/my data/mnist --epochs" env TERN_DATA='my data' "$run" demo
expect 0 "gpu_check $work/else where/out tables" "$run" gpu-check out tables
(cd "$tree" && expect 1 "demo: 'nowhere' does not hold" ./run demo nowhere && exit $failed) || failed=1

# ---- wrong command lines ----

expect 2 "'nonsense' is no preset: release debug" "$run" build nonsense
expect 2 "one preset at a time, not 'debug', too" "$run" build release debug
for command in clean docs lint coverage; do
    expect 2 "$command: takes no argument, not '--more'" "$run" "$command" --more
done
expect 0 '' test -d "$tree/build/release"
expect 2 'usage: ./run test [full]' "$run" test full more
expect 2 "unknown command '--version'" "$run" --version
expect 2 'usage: ./run elsewhere bookworm|trixie|sid|noble|arm64' "$run" elsewhere
expect 2 'usage: ./run elsewhere bookworm|trixie|sid|noble|arm64' "$run" elsewhere ../bookworm demo
stub dpkg-query 'exit 1'
expect 2 'usage: ./run elsewhere' "$run" elsewhere mars
expect 1 'there is no test cpu_mars' "$run" elsewhere avx512 cpu_mars
if grep -q deps "$work/output"; then
    echo "run: elsewhere installs packages before it looks at its arguments"
    failed=1
fi
stub dpkg-query 'echo installed'
stub id 'echo 1000'
expect 1 'call it as root' "$run" elsewhere trixie
expect 0 '' test ! -e "$tree/build/elsewhere"
stub id 'echo 0'
for command in build test bench install gpu-check demo clean deps lint; do
    expect 0 'usage: ./run COMMAND' "$run" "$command" --help
done
expect 0 '' test -d "$tree/build/release"
expect 2 "gpu-check: unknown option '--all': the first argument is a folder" "$run" gpu-check --all
expect_unbuilt 2 "demo: unknown option '--all'" "$run" demo --all
expect_unbuilt 2 "demo: one folder at a time, not '$work/else where/more', too" "$run" demo mnist more
expect_unbuilt 1 "demo: '$work/else where/nowhere' does not hold" "$run" demo nowhere -- --steps 3
mkdir "$tree/bench"
: >"$tree/bench/bench_ops.c"
expect_unbuilt 2 "bench: 'opps' is none of ops" "$run" bench ops opps
expect_unbuilt 2 'usage: ./run test [full]' "$run" test more
for jobs in 0 -3 x 1.5; do
    expect 2 "TERN_JOBS is '$jobs', not a number from 1" env TERN_JOBS=$jobs "$run" build
done
expect 0 '[-j] [7]' env TERN_JOBS=7 "$run" build

# What help names as presets is what there is.
if command -v python3 >/dev/null 2>&1; then
    names=$(python3 -c 'import json, sys
presets = json.load(open(sys.argv[1]))["configurePresets"]
print(*(p["name"] for p in presets if not p.get("hidden")))' "$root/CMakePresets.json")
    expect 0 "presets: $names" "$run" help
fi

expect 0 'removed the builds' "$run" clean
expect 1 '' test -d "$tree/build/release"

exit $failed
