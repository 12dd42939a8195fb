#!/bin/sh
# Installs what the given sets of packages lack: with apt-get on Debian and its relatives, elsewhere
# it names them.
# usage: deps.sh [--dry-run] [--quiet] [build|test|lint|bench|docs|fetch|browser|elsewhere]...
set -eu

dry=no
quiet=no
sets=
for argument in "$@"; do
    case $argument in
    --dry-run | -n) dry=yes ;;
    --quiet) quiet=yes ;;
    build | test | lint | bench | docs | fetch | browser | elsewhere) sets="$sets $argument" ;;
    *)
        echo "deps: unknown argument '$argument' (sets: build test lint bench docs fetch browser elsewhere)" >&2
        exit 2
        ;;
    esac
done
[ -n "$sets" ] || sets="build test lint"

# The OpenMP variant of OpenBLAS shares one thread pool with tern and oneDNN.
packages_of() {
    case $1 in
    build)
        echo gcc g++ libc6-dev cmake ninja-build pkg-config \
            libopenblas-openmp-dev libdnnl-dev zlib1g-dev libcjson-dev
        ;;
    test) echo libcmocka-dev python3 clang lld libclang-rt-dev llvm libomp-dev valgrind ccache ;;
    lint) echo python3 g++ clang-format shellcheck dash doxygen ;;
    bench) echo python3 python3-venv ;;
    docs) echo doxygen ;;
    fetch) echo curl ca-certificates ;;
    browser) echo chromium fonts-dejavu-core ;;
    elsewhere) echo debootstrap git ;;
    esac
}

# What proves that a set is there on a system without dpkg: a command; h:HEADER; or NAME=f:FLAG, which
# clang links with, and NAME=p:MODULE of Python. Not looked for are fonts and certificates, which have
# no one place: the browser and curl say it themselves.
probes_of() {
    case $1 in
    build)
        echo cc c++ cmake ninja pkg-config \
            h:cblas.h h:oneapi/dnnl/dnnl.h h:zlib.h h:cjson/cJSON.h h:omp.h
        ;;
    test)
        echo h:cmocka.h python3 clang lld=f:-fuse-ld=lld compiler-rt=f:-fsanitize=address libomp=f:-fopenmp \
            llvm-symbolizer valgrind ccache
        ;;
    lint) echo python3 g++ clang-format shellcheck dash doxygen ;;
    bench) echo python3 python3-venv=p:ensurepip ;;
    docs) echo doxygen ;;
    fetch) echo curl ;;
    browser) echo chromium ;;
    elsewhere) echo debootstrap git ;;
    esac
}

has_header() {
    printf '#include <%s>\n' "$1" |
        cc -E -I/usr/include/openblas -I/usr/local/include -x c - >/dev/null 2>&1
}

links_with() {
    echo 'int main(void) { return 0; }' | clang "$1" -x c - -o /dev/null >/dev/null 2>&1
}

# has_probe PROBE: is it there?
has_probe() {
    case ${1#*=} in
    h:*) has_header "${1#h:}" ;;
    f:*) links_with "${1#*=f:}" ;;
    p:*) python3 -c "import ${1#*=p:}" >/dev/null 2>&1 ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

# What cannot be done without: the rest makes things faster or checks more.
has_required() {
    for command in cc cmake ninja; do
        command -v "$command" >/dev/null 2>&1 || return 1
    done
    has_header cjson/cJSON.h || return 1
    case "$sets " in *" test "*) has_header cmocka.h || return 1 ;; esac
    case "$sets " in *" lint "* | *" bench "*) command -v python3 >/dev/null 2>&1 || return 1 ;; esac
}

name_missing() {
    missing=
    for set in $sets; do
        for probe in $(probes_of "$set"); do
            name=${probe%%=*}
            name=${name#h:}
            case " $missing " in *" $name "*) continue ;; esac
            has_probe "$probe" || missing="$missing $name"
        done
    done
    if [ -z "$missing" ]; then
        [ $quiet = yes ] || echo "deps: all there"
        return 0
    fi
    echo "deps: this is not a Debian system; please install:$missing" >&2
    echo "deps: (required are cc, cmake, ninja and cJSON; tern builds without the others)" >&2
    has_required
}

is_installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo "$@"
    else
        echo "deps: not root, and no sudo: as root, run: $*" >&2
        return 1
    fi
}

apt() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq "$@"
}

# apt_install PACKAGE...: leaves out what this release does not have.
apt_install() {
    apt update || return 1
    available=
    for package in "$@"; do
        if apt-cache show "$package" >/dev/null 2>&1; then
            available="$available $package"
        else
            echo "deps: $package is not packaged for this system; going on without it" >&2
        fi
    done
    # The list is split into words on purpose.
    # shellcheck disable=SC2086
    apt install --yes --no-install-recommends $available >/dev/null
}

install_missing() {
    missing=
    for set in $sets; do
        for package in $(packages_of "$set"); do
            case " $missing " in *" $package "*) continue ;; esac
            is_installed "$package" || missing="$missing $package"
        done
    done
    if [ -z "$missing" ]; then
        [ $quiet = yes ] || echo "deps: all there"
        return 0
    fi
    if [ $dry = yes ]; then
        echo "would run: apt-get update"
        echo "would run: apt-get install --yes --no-install-recommends$missing"
        return 0
    fi
    echo "deps: installing$missing"
    # shellcheck disable=SC2086
    apt_install $missing && return 0
    has_required || {
        echo "deps: could not install what is needed" >&2
        return 1
    }
    echo "deps: could not install; going on, since what is required is there" >&2
}

if command -v apt-get >/dev/null 2>&1 && command -v dpkg-query >/dev/null 2>&1; then
    install_missing
else
    name_missing
fi
