#!/bin/sh
# ./run deps names what a machine lacks, and installs it where it can. The machines are folders of
# made-up commands, so that nothing is looked up on this one, and nothing installed. usage:
# test_deps.sh CHECKOUT
set -eu

root=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/tern-deps.XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM
failed=0

mkdir -p "$work/debian" "$work/other" "$work/tree"
cp -R "$root/run" "$root/tools" "$work/tree/"
cd "$work/tree"
for machine in debian other; do
    for name in sh dirname getconf env; do
        ! path=$(command -v $name) || ln -s "$path" "$work/$machine/$name"
    done
done

# command_of MACHINE NAME: a made-up command; its text from stdin.
command_of() {
    {
        echo '#!/bin/sh'
        cat
    } >"$work/$1/$2"
    chmod +x "$work/$1/$2"
}

# on MACHINE STATUS COMMAND...: runs it there and checks its exit status; the output stays in a file.
on() {
    machine=$1
    want=$2
    shift 2
    status=0
    env PATH="$work/$machine" "$@" >"$work/output" 2>&1 </dev/null || status=$?
    [ "$status" = "$want" ] || wrong "'$*' gave status $status, wanted $want"
}

wrong() {
    echo "deps: $*:"
    sed 's/^/    /' "$work/output"
    failed=1
}

says() { grep -qxF -- "$1" "$work/output" || wrong "not the line '$1'"; }

# ---- Debian: dpkg-query knows what INSTALLED lists, apt-get notes what it is told ----

command_of debian dpkg-query <<'TEXT'
for name; do :; done
case " $INSTALLED " in *" $name "*) echo installed ;; *) exit 1 ;; esac
TEXT
command_of debian apt-get <<'TEXT'
echo "$*" >>"$LOG"
TEXT
command_of debian apt-cache <<'TEXT'
[ "$2" != valgrind ]
TEXT
command_of debian id <<'TEXT'
echo 0
TEXT
LOG=$work/log
INSTALLED="gcc g++ libc6-dev cmake ninja-build libopenblas-openmp-dev libdnnl-dev zlib1g-dev libcjson-dev
 libcmocka-dev python3 clang lld libclang-rt-dev llvm libomp-dev ccache clang-format shellcheck dash doxygen"
INSTALLED=$(echo "$INSTALLED" | tr -d '\n')
export LOG INSTALLED

on debian 0 ./run deps --dry-run
says 'would run: apt-get update'
says 'would run: apt-get install --yes --no-install-recommends pkg-config valgrind'
on debian 0 ./run deps --dry-run bench
says 'would run: apt-get install --yes --no-install-recommends python3-venv'
on debian 0 ./run deps --dry-run lint
says 'deps: all there'
[ ! -e "$LOG" ] || wrong "--dry-run called apt-get $(cat "$LOG")"
on debian 0 ./run deps
says 'deps: installing pkg-config valgrind'
says 'deps: valgrind is not packaged for this system; going on without it'
[ "$(tail -n 1 "$LOG")" = '-qq install --yes --no-install-recommends pkg-config' ] ||
    wrong "apt-get was called with $(cat "$LOG")"

# ---- another system: commands on the PATH, headers of PRESENT, and what clang links with ----

all_headers='<cblas.h> <oneapi/dnnl/dnnl.h> <zlib.h> <cjson/cJSON.h> <omp.h> <cmocka.h>'
all_flags='-fuse-ld=lld -fsanitize=address -fopenmp'
command_of other cc <<'TEXT'
while read -r _ header; do
    case $PRESENT in *"$header"*) exit 0 ;; esac
done
exit 1
TEXT
command_of other clang <<'TEXT'
case $PRESENT in *"$1"*) ;; *) exit 1 ;; esac
TEXT
command_of other python3 <<'TEXT'
case $PRESENT in *"$2"*) ;; *) exit 1 ;; esac
TEXT
for name in c++ cmake ninja pkg-config llvm-symbolizer valgrind ccache g++ clang-format shellcheck dash doxygen; do
    command_of other $name </dev/null
done
please='deps: this is not a Debian system; please install:'

PRESENT="$all_headers $all_flags"
export PRESENT
on other 0 ./run deps --dry-run
says 'deps: all there'
on other 0 ./run deps bench
says "$please python3-venv"
PRESENT="$all_headers $all_flags import ensurepip"
on other 0 ./run deps bench
says 'deps: all there'

# What tern does without is named, and is no failure.
PRESENT='<cjson/cJSON.h> <cmocka.h>'
for name in llvm-symbolizer valgrind clang-format shellcheck dash doxygen; do
    rm "$work/other/$name"
done
on other 0 ./run deps
says "$please cblas.h oneapi/dnnl/dnnl.h zlib.h omp.h lld compiler-rt libomp llvm-symbolizer valgrind\
 clang-format shellcheck dash doxygen"
says 'deps: (required are cc, cmake, ninja and cJSON; tern builds without the others)'

# What it cannot do without is a failure: of the sets that are asked for.
PRESENT="$all_headers $all_flags"
rm "$work/other/python3"
on other 0 ./run deps build
says 'deps: all there'
on other 1 ./run deps build lint
says "$please python3 clang-format shellcheck dash doxygen"
on other 0 ./run deps docs fetch browser
says "$please doxygen curl chromium"
rm "$work/other/ninja"
on other 1 ./run deps build
says "$please ninja"

exit $failed
