#!/bin/sh
# Tries the checkout on another system, in a folder below build/elsewhere that is root to it (chroot). As root.
# usage: elsewhere.sh SYSTEM [COMMAND...]; called by ./run elsewhere, in the checkout.
#
#   bookworm, trixie, sid, noble   Debian 12, 13 and what comes next, Ubuntu 24.04: ./run COMMAND... there, without
#                                  one ./run demo and ./run test; nothing but git is installed before
#   arm64                          the preset minimal with simulated devices, compiled for aarch64, and its tests in
#                                  an emulator (QEMU): an hour
#   avx512                         the tests of the CPU's kernels (or of those named: cpu_softmax ...), preset minimal, on
#                                  an emulated CPU with AVX-512 (Bochs; avx512.sh)
#
# The folder stays for the next call. /proc, /dev and /sys are mounted for this command and what it starts
# alone, so that a later rm -r meets none of them.
set -eu

say() { printf 'elsewhere: %s\n' "$*"; }
die() {
    say "$*" >&2
    exit 1
}

if [ "${1:-}" = --inside ]; then # in a space of mounts of its own
    shift
    inside=yes
else
    inside=no
fi
system=${1:-}
[ $# -eq 0 ] || shift
mirror=http://deb.debian.org/debian
release=$system
components=main
script=
case $system in
bookworm | trixie | sid) ;;
noble) # Debian has neither its keys nor, in 12, its script
    mirror=http://archive.ubuntu.com/ubuntu
    components=main,universe
    script=/usr/share/debootstrap/scripts/gutsy
    ;;
arm64 | avx512) release=bookworm ;;
*)
    echo "usage: ./run elsewhere bookworm|trixie|sid|noble|arm64|avx512 [COMMAND...]" >&2
    exit 2
    ;;
esac
root=build/elsewhere/$system

# before a system is made
if [ "$system" = avx512 ]; then
    for test in "$@"; do
        case $test in
        cpu_*) [ -f "tests/unit/test_$test.c" ] || die "there is no test $test (tests/unit/test_cpu_*.c)" ;;
        *) die "$test is no test of the CPU's kernels (cpu_softmax ...)" ;;
        esac
    done
fi

if [ $inside = no ]; then
    [ "$(id -u)" = 0 ] || die "call it as root: another root folder and mounts are for root alone"
    sh tools/run/deps.sh --quiet elsewhere
    exec unshare --mount sh "$0" --inside "$system" "$@"
fi

make_system() {
    [ ! -f "$root/made" ] || return 0
    say "making $root from $mirror"
    rm -rf "$root"
    mkdir -p "$root"
    unchecked=
    [ -z "$script" ] || unchecked=--no-check-gpg
    # shellcheck disable=SC2086
    debootstrap $unchecked --variant=minbase --components=$components --include=ca-certificates,git \
        "$release" "$root" "$mirror" $script >"$root.log" 2>&1 ||
        die "debootstrap failed; its output is in $root.log"
    # mirrors of sid fall behind, and then apt does not take their lists for valid
    [ "$release" != sid ] || echo 'Acquire::Check-Valid-Until "false";' >"$root/etc/apt/apt.conf.d/90-valid"
    touch "$root/made"
}

mount_all() {
    for folder in proc dev sys dev/pts; do
        mount --bind "/$folder" "$root/$folder"
    done
    cp /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
}

# The tree as it is here, changes and new files included; builds there stay.
copy_tree() {
    mkdir -p "$root/tern"
    find "$root/tern" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
    # files that are gone are still in git's list
    git ls-files --cached --others --exclude-standard | while IFS= read -r file; do
        [ ! -e "$file" ] || printf '%s\n' "$file"
    done | tar -cf - -T - | tar -xf - -C "$root/tern"
    chroot "$root" sh -c 'cd /tern && git init -q . && git add -A'
}

there() { chroot "$root" sh -c "cd /tern && $*"; }

# Compiles with the cross compiler, at the speed of this machine, and runs what comes of it in the emulator. What
# needs a compiler or Python of the other kind is left out, and so are a limit of address space, which the
# emulator itself does not survive, the long runs of examples, and reads told from writes, which it does not tell.
on_arm64() {
    there 'dpkg --add-architecture arm64 && apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq \
        install --yes --no-install-recommends gcc-aarch64-linux-gnu g++-aarch64-linux-gnu cmake ninja-build \
        pkg-config python3 qemu-user-static libc6-dev-arm64-cross libcjson-dev:arm64 libcmocka-dev:arm64 \
        zlib1g-dev:arm64 libgomp1:arm64 >/dev/null'
    formats=/proc/sys/fs/binfmt_misc
    [ -e $formats/register ] || mount -t binfmt_misc binfmt_misc $formats
    if [ ! -e $formats/qemu-aarch64 ]; then # the kernel then starts aarch64 programs in the emulator
        header='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
        mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
        printf '%s' ":qemu-aarch64:M::$header:$mask:$(pwd)/$root/usr/bin/qemu-aarch64-static:F" >$formats/register
    fi
    there cmake --preset minimal -DTERN_SIM=ON -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake
    there cmake --build build/minimal -j "${TERN_JOBS:-2}"
    there ctest --test-dir build/minimal --parallel "${TERN_JOBS:-2}" --timeout 1500 --output-on-failure \
        -LE "'front|python'" -E "'^(unit/bridge|api/out_of_memory|api/examples|sim/memory)\$'" "$@"
}

on_avx512() {
    there 'DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends gcc g++ cmake ninja-build \
        pkg-config python3 libc6-dev libcjson-dev libcmocka-dev zlib1g-dev bochs bochs-term bochsbios vgabios xorriso \
        grub-pc-bin grub-common mtools cpio busybox-static >/dev/null'
    there sh tools/run/avx512.sh "$@"
}

make_system
mount_all
copy_tree
if [ "$system" = arm64 ]; then
    on_arm64 "$@"
elif [ "$system" = avx512 ]; then
    on_avx512 "$@"
elif [ $# -gt 0 ]; then
    there ./run "$@"
else
    there './run demo --digits && ./run test'
fi
