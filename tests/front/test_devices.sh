#!/bin/sh
# tern devices, env, explain; and what a program says when CUDA is hidden.
# usage: test_devices.sh TERN EXAMPLES
set -eu

tern=$1
examples=$2
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/tern-devices.XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM
cd "$work"
unset CUDA_VISIBLE_DEVICES TERN_SIM_DEVICES TERN_DEVICE_POLICY
failed=0

wrong() {
    echo "devices: $*"
    head -c 2000 output | sed 's/^/    /'
    failed=1
}

# expect STATUS TEXT COMMAND...: the exit status and a part of the output.
expect() {
    want=$1
    text=$2
    shift 2
    status=0
    "$@" >output 2>&1 </dev/null || status=$?
    if [ "$status" != "$want" ] || ! grep -qF -- "$text" output; then
        wrong "'$*' gave status $status, wanted $want and '$text':"
    fi
}

# Every code has a page and every page a code.
"$tern" explain | grep -v '^[0-9]' | sort >pages
"$tern" explain --codes | sort >codes
cmp -s pages codes || { diff pages codes >output || :; wrong "pages and codes differ:"; }
while read -r code; do
    expect 0 "How to repair" "$tern" explain "$code"
done <codes
expect 1 "'no-such' is no code" "$tern" explain no-such
expect 0 "What it means" "$tern" explain "[no-gpu]" # as lines have it
expect 1 "'[]' is no code" "$tern" explain "[]"
expect 2 "one argument too many" "$tern" explain ok ok
# CUDA's numbers and names, each of which has a page.
expect 0 "CUDA's 803: cudaErrorSystemDriverMismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" "$tern" explain 803
expect 0 "try: restart the machine; of a container" "$tern" explain 803
expect 0 "try: run sudo rmmod nvidia_uvm; sudo modprobe nvidia_uvm" "$tern" explain cudaErrorUnknown
"$tern" explain 2 >output # which is mostly met by a program that runs
if grep -q 'try: ' output; then wrong "a step of the driver's start for an out of memory:"; fi
expect 0 "driver was updated without a restart" "$tern" explain CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
expect 0 "driver-too-old" "$tern" explain cudaErrorInsufficientDriver
expect 1 "'8030' is no code: tern explain lists them all" "$tern" explain 8030
expect 0 "803 cudaErrorSystemDriverMismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" "$tern" explain
expect 1 "'' is no code" "$tern" explain ""
sed -n 's/^CUDA(\([0-9]*\),.*/\1/p' "$source/tools/tern/explain_cuda.def" >numbers
while read -r number; do
    expect 0 "How to repair" "$tern" explain "$number"
done <numbers
test -s numbers || wrong "no numbers of CUDA's in explain_cuda.def"
# The codes of the driver that the library has words for; 100 is a reason of its own.
sed -n 's/^CODE(\([0-9]*\),.*/\1/p' "$source/core/cuda/driver_codes.def" >numbers
while read -r code; do
    expect 0 "How to repair" "$tern" explain "$code"
    "$tern" explain init-failed >output
    [ "$code" = 100 ] || grep -qw "$code" output || wrong "no word of the driver's $code:"
done <numbers
test -s numbers || wrong "no numbers of the driver's in driver_codes.def"
# Codes of the runtime that errors give advice for, or by which a device is lost.
for code in 98 209 214 221 222 223 226 700 702 709 710 714 715 716 717 718 719 721 810 911; do
    expect 0 "How to repair" "$tern" explain $code
done
expect 0 "also where there is no driver at all: tern devices tells which" "$tern" explain 35

# Devices as text and as JSON.
expect 0 "threads in use" env CUDA_VISIBLE_DEVICES= "$tern" devices
expect 0 "CUDA is not used: CUDA_VISIBLE_DEVICES is empty [hidden-by-empty-list]" \
    env CUDA_VISIBLE_DEVICES= "$tern" devices
expect 0 '"reason":	"hidden-by-bad-list"' env CUDA_VISIBLE_DEVICES=x "$tern" devices --json
expect 0 '"visible_devices":	"x"' env CUDA_VISIBLE_DEVICES=x "$tern" env --json
no_utf8=$(printf 'a\344\303\244b')
for command in env devices; do
    expect 0 "hidden-by-bad-list" env "CUDA_VISIBLE_DEVICES=$no_utf8" "$tern" $command --json
    iconv -f UTF-8 -t UTF-8 output >/dev/null 2>&1 || wrong "tern $command --json is no UTF-8:"
done
env "CUDA_VISIBLE_DEVICES=$no_utf8" "$tern" env --json >output
grep -qF "$(printf '"a\357\277\275\303\244b"')" output || wrong "what is no UTF-8 is not replaced:"
# What tern itself sets is not the user's.
env -u OPENBLAS_CORETYPE "$tern" env --json >output
if grep -q OPENBLAS_CORETYPE output; then wrong "a variable that nobody set:"; fi
expect 0 "CUDA_VISIBLE_DEVICES" env CUDA_VISIBLE_DEVICES= "$tern" env
expect 0 "some/lib: relative folders are not searched" \
    env TERN_PLUGIN_PATH=some/lib TERN_SIM_DEVICES= CUDA_VISIBLE_DEVICES=0 "$tern" env
mkdir plugins
ln -s nowhere plugins/libtern_cuda.so
expect 0 "plugins: has a link to nothing of that name" \
    env TERN_PLUGIN_PATH="$work/plugins" CUDA_VISIBLE_DEVICES=0 "$tern" env
printf '' >file
expect 0 "file: is no folder" env TERN_PLUGIN_PATH="$work/file" CUDA_VISIBLE_DEVICES=0 "$tern" env
ln -sf libtern_cuda.so plugins/libtern_cuda.so
expect 0 "plugins: cannot be looked into: Too many levels" \
    env TERN_PLUGIN_PATH="$work/plugins" CUDA_VISIBLE_DEVICES=0 "$tern" env
own=$(env -u OMP_NUM_THREADS "$tern" devices | grep -o '[0-9]* threads')
expect 0 ", $own in use" env OMP_NUM_THREADS=4294967297 "$tern" devices
expect 0 ", 3 threads in use" env OMP_NUM_THREADS=3,2 "$tern" devices
expect 0 "CUDA_VISIBLE_DEVICES 0;1" env CUDA_VISIBLE_DEVICES="0;1" "$tern" env
expect 0 "CUBLAS_WORKSPACE_CONFIG :8:2" \
    env CUBLAS_WORKSPACE_CONFIG=:8:2 CUDA_VISIBLE_DEVICES= "$tern" env
expect 0 "PYTORCH_ALLOC_CONF  max_split_size_mb:99" \
    env PYTORCH_ALLOC_CONF=max_split_size_mb:99 CUDA_VISIBLE_DEVICES= "$tern" env
expect 0 "TERN_FOO            a\n  fake yes\x1b" \
    env TERN_FOO="$(printf 'a\n  fake yes\033')" CUDA_VISIBLE_DEVICES= "$tern" env
expect 0 "odd\nfolder: has no such file" \
    env TERN_PLUGIN_PATH="$(printf '/odd\nfolder')" CUDA_VISIBLE_DEVICES=0 "$tern" env
for name in NVIDIA_API_KEY TERN_HUB_TOKEN CUDA_SECRET NVIDIA_PASSWORD; do
    expect 0 "$name" env $name=nvapi-1234 CUDA_VISIBLE_DEVICES= "$tern" env --json
    if grep -qF nvapi-1234 output || ! grep -qF '(set)' output; then wrong "what $name holds is shown:"; fi
done
expect 2 "'--yaml' is no option of this command" "$tern" env --yaml
expect 2 "'x' is no option of this command" "$tern" devices x --json
expect 2 "'x' is no option of this command" "$tern" devices --json x
mkdir logs
expect 0 "TERN_LOG_FILE=logs cannot be opened, there is no log: " \
    env TERN_LOG_FILE=logs "$tern" env
expect 0 "tern devices: TERN_LOG_FILE=no/log cannot be opened" \
    env TERN_LOG_FILE=no/log "$tern" devices --json
expect 0 "" env TERN_LOG_FILE=new "$tern" env
if grep -q 'tern env:' output || [ -e new ]; then wrong "a log that can be made, or was:"; fi
if env TERN_SIM_DEVICES=3 "$tern" devices | grep -q 'cuda:0 .*(simulated)'; then
    expect 0 "cuda:2   simulated device 2 (simulated)" env TERN_SIM_DEVICES=3 "$tern" devices
    expect 0 "cuda:0   simulated device 2 (simulated)" \
        env TERN_SIM_DEVICES=3 CUDA_VISIBLE_DEVICES=2,0 "$tern" devices
    expect 0 "cuda:1   simulated device 0 (simulated)" \
        env TERN_SIM_DEVICES=3 CUDA_VISIBLE_DEVICES=2,0 "$tern" devices
    expect 0 "0 % busy, memory 0 %, 20 degrees, 1000 MHz" env TERN_SIM_DEVICES=1 "$tern" devices
    expect 0 "memory_utilization_percent 0" env TERN_SIM_DEVICES=1 "$tern" env
    expect 0 '"utilization_percent":	0' env TERN_SIM_DEVICES=1 "$tern" devices --json
    expect 0 "0 % busy, memory 0 %, 1000 MHz" \
        env TERN_SIM_DEVICES=1 TERN_SIM_FAIL=nvmlDeviceGetTemperature@1=3 "$tern" devices
    expect 0 "         20 degrees, 1000 MHz" \
        env TERN_SIM_DEVICES=1 TERN_SIM_FAIL=nvmlDeviceGetUtilizationRates@1=3 "$tern" devices
    env TERN_SIM_DEVICES=1 TERN_SIM_ABSENT=nvidia-ml "$tern" devices >output
    if grep -q busy output; then wrong "utilisation without NVML:"; fi
    for setting in MEMORY=x FAIL=cudaMalloc RACES=0 CAPABILITY=99.9 PROCESSES=x ORDER=random:x; do
        expect 0 "TERN_SIM_$setting is not understood" env TERN_SIM_DEVICES=1 "TERN_SIM_$setting" \
            "$tern" devices
        grep -qF "[plugin-broken]" output || wrong "the reason is another one:"
    done
    expect 0 "compute capability 9.0" env TERN_SIM_DEVICES=1 "$tern" devices
    # A device that is there and cannot be opened, here both times that it is asked for.
    alone=cudaHostAlloc@1=46,cudaHostAlloc@2=46
    expect 0 "cannot be used: memory_info: opening the device on cuda:0 (simulated): cudaErrorDevices" \
        env TERN_SIM_DEVICES=1 TERN_SIM_FAIL=$alone "$tern" devices
    expect 0 '"fault":	"memory_info: opening the device on cuda:0' \
        env TERN_SIM_DEVICES=1 TERN_SIM_FAIL=$alone "$tern" devices --json
    [ "$(grep -c cudaErrorDevicesUnavailable output)" = 1 ] || wrong "the fault is said again:"
    expect 0 "nvidia-smi -q -d COMPUTE" env TERN_SIM_DEVICES=1 TERN_SIM_FAIL=$alone "$tern" env
    expect 0 "begins with a device that is not there [hidden-by-bad-list]" \
        env TERN_SIM_DEVICES=3 CUDA_VISIBLE_DEVICES=7 "$tern" devices
    expect 0 "[no-device]" env TERN_SIM_DEVICES=3 CUDA_VISIBLE_DEVICES=0 TERN_SIM_FAIL=cudaGetDeviceCount@1=100 \
        "$tern" devices
    # A list that shows some of what it seems to.
    expect 0 "tern devices: CUDA_VISIBLE_DEVICES=0,,1 ends before '', which is no device: 1 visible" \
        env TERN_SIM_DEVICES=2 CUDA_VISIBLE_DEVICES=0,,1 "$tern" devices
    for level in off error warning debug; do
        expect 0 "tern devices: CUDA_VISIBLE_DEVICES=0,,1 ends before" \
            env TERN_LOG=$level TERN_SIM_DEVICES=2 CUDA_VISIBLE_DEVICES=0,,1 "$tern" devices
    done
    expect 0 "of '0;1' only the number in front counts; commas stand between devices: 1 visible" \
        env TERN_SIM_DEVICES=2 "CUDA_VISIBLE_DEVICES=0;1" "$tern" devices
    expect 0 "CUDA_VISIBLE_DEVICES=1,7 names 2 devices, and the list ends before the first" \
        env TERN_SIM_DEVICES=2 CUDA_VISIBLE_DEVICES=1,7 "$tern" env
    expect 0 "CUDA_VISIBLE_DEVICES=0,-1,1 ends at '-1', what follows is not read: 1 visible" \
        env TERN_SIM_DEVICES=2 "CUDA_VISIBLE_DEVICES=0,-1,1" "$tern" devices
    for list in 1,0 0,-1 " 0 , 1" 0; do
        env TERN_SIM_DEVICES=2 "CUDA_VISIBLE_DEVICES=$list" "$tern" devices >/dev/null 2>output
        [ ! -s output ] || wrong "something is said of the list '$list':"
    done
    for list in GPU-0 GPU-73696d75; do
        expect 0 "UUID that is no device's, or the beginning of several [hidden-by-bad-list]" \
            env TERN_SIM_DEVICES=3 CUDA_VISIBLE_DEVICES=$list "$tern" devices
    done
    expect 0 '"uuid":	"GPU-73696d75-6c61-7465-6400-000000000001"' \
        env TERN_SIM_DEVICES=2 CUDA_VISIBLE_DEVICES=GPU-73696d75-6c61-7465-6400-000000000001 \
        "$tern" devices --json
fi

# A program that asked for CUDA: one line, the CPU, success, and the reason in its results.
if [ -x "$examples/mlp_mnist" ]; then
    # run_example NAME=VALUE...: with these in its environment, too.
    run_example() {
        env CUDA_VISIBLE_DEVICES= "$@" "$examples/mlp_mnist" --data digits --device cuda --steps 3 \
            --quiet --json r.json
    }
    run_example >output 2>said || wrong "a run without CUDA failed:"
    [ "$(wc -l <said)" = 1 ] || { cp said output; wrong "not one line on stderr:"; }
    grep -q '^tern: using the CPU instead of CUDA: .*\[hidden-by-empty-list\]' said || wrong "another line"
    if ! grep -q '"device":.*"cpu"' r.json || ! grep -q 'hidden-by-empty-list' r.json; then
        cp r.json output
        wrong "the results do not name the reason:"
    fi
    if run_example TERN_DEVICE_POLICY=require >output 2>&1; then
        wrong "require was no error:"
    fi
    grep -q 'hidden-by-empty-list' output || wrong "require gave another reason:"
fi

# What docs/guide/gpu-not-used.md shows, but for the lines about the machine's CPU.
page=${TERN_TEST_SOURCE:-}/docs/guide/gpu-not-used.md
if [ -e "$page" ] && [ -x "$examples/mlp_mnist" ] &&
    env TERN_SIM_DEVICES=1 "$tern" devices | grep -q 'cuda:0'; then
    ln -s "$examples/mlp_mnist" mlp_mnist
    awk '/^```/ { inside = !inside; if (inside) n++; next }
         inside { print >("shown" n) }' "$page"
    for shown in shown*; do
        command=$(sed -n '1s/^\$ //p' "$shown")
        env PATH="$(dirname "$tern"):$PATH" CUDA_VISIBLE_DEVICES= sh -c "$command" >output 2>&1 || :
        grep -vE '^(\$ |cpu  |         |\.\.\.$)' "$shown" | while IFS= read -r line; do
            grep -qF -- "$line" output || echo "'$command' does not print '$line'"
        done >missing
        [ ! -s missing ] || { cp missing output; wrong "the page shows something else:"; }
    done
    [ -e shown3 ] || wrong "the page's blocks were not found"
fi
exit "$failed"
