#!/bin/sh
# Runs the tests of the CPU's kernels on an emulated CPU with AVX-512 (Bochs), for machines without it.
# usage: avx512.sh [TEST...] (cpu_gemm_way ...; all of unit/cpu_*); called by elsewhere.sh, in a copy of the checkout.
#
# A kernel of Debian's and an init that runs the tests go onto a CD; their output comes over a serial line. The
# kernels for AVX-512 alone are tried, as all takes some hundred times as long as it would on the CPU itself.
set -eu

out=build/avx512
root=$out/root
libraries=$root/lib/x86_64-linux-gnu
# shellcheck disable=SC2046
[ $# -gt 0 ] || set -- $(find tests/unit -name 'test_cpu_*.c' | sed 's,.*/test_,,; s,\.c$,,' | sort)

build_tests() {
    cmake --preset minimal >/dev/null
    targets=
    for test in "$@"; do
        targets="$targets test_unit_$test"
    done
    # shellcheck disable=SC2086
    cmake --build build/minimal -j "${TERN_JOBS:-2}" --target $targets
}

# What the guest does. Its kernel takes Bochs' XSAVES for broken, and would leave AVX out.
write_init() {
    cat >"$root/init" <<'END'
#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t devtmpfs dev /dev
$b grep -q avx512bw /proc/cpuinfo || echo 'FAILED: the guest has no AVX-512'
export LD_LIBRARY_PATH=/lib/x86_64-linux-gnu OMP_NUM_THREADS=1 TERN_TEST_BEST_ISA=1
cd /tests
for test in $($b cat list); do
    echo "== $test"
    if ./test_$test >/tmp/out 2>&1; then
        echo "passed after $($b cut -d. -f1 /proc/uptime) s of the guest's time"
    else
        $b tail -n 60 /tmp/out
        echo "FAILED: $test"
    fi
done
echo 'all have run'
$b sleep 2
$b poweroff -f
END
    chmod +x "$root/init"
}

make_cd() {
    rm -rf "$out"
    mkdir -p "$root/bin" "$root/proc" "$root/dev" "$root/tmp" "$root/tests" "$root/lib64" "$libraries"
    cp /bin/busybox "$root/bin/"
    printf '%s\n' "$@" >"$root/tests/list"
    for test in "$@"; do
        cp "build/minimal/tests/unit/test_$test" "$root/tests/"
        ldd "build/minimal/tests/unit/test_$test" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p'
    done | sort -u | while IFS= read -r library; do
        cp -L "$library" "$libraries/"
    done
    cp -L /lib64/ld-linux-x86-64.so.2 "$root/lib64/"
    write_init
    mkdir -p "$out/cd/boot/grub" "$out/kernel"
    (cd "$out" && apt-get -qq -o APT::Sandbox::User=root download "$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: //p')" &&
        dpkg -x linux-image-*.deb kernel)
    cp "$out"/kernel/boot/vmlinuz-* "$out/cd/boot/vmlinuz"
    (cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) >"$out/cd/boot/init.gz"
    cat >"$out/cd/boot/grub/grub.cfg" <<'END'
set timeout=0
menuentry tests {
    linux /boot/vmlinuz console=ttyS0 quiet mitigations=off nosmp tsc=reliable clearcpuid=xsaves,xsavec,mpx,pku
    initrd /boot/init.gz
}
END
    grub-mkrescue -o "$out/tests.iso" "$out/cd" >/dev/null 2>&1
}

boot() {
    cat >"$out/bochsrc" <<END
display_library: term
cpu: model=corei7_skylake_x, count=1, ips=50000000
memory: guest=1024, host=1024
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/vgabios/vgabios.bin
ata0-master: type=cdrom, path=$out/tests.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$out/serial.txt
log: $out/bochs.log
error: action=ignore
END
    echo continue >"$out/commands" # Debian's Bochs has a debugger, which waits
    : >"$out/serial.txt"
    # it draws a screen, for which it wants a terminal
    TERM=xterm script -qfc "stty rows 25 cols 80; bochs -q -f $out/bochsrc -rc $out/commands" \
        /dev/null >/dev/null 2>&1 </dev/null &
    emulator=$!
    tail -f --pid=$emulator "$out/serial.txt" | sed -un 's/\r$//; /^== /,/^all have run/p'
    wait $emulator || true
}

build_tests "$@"
make_cd "$@"
boot
grep -q 'all have run' "$out/serial.txt" && ! grep -q '^FAILED' "$out/serial.txt"
