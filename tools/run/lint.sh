#!/bin/sh
# All checks that need no run of the library. Each prints what is wrong; the exit status says
# whether anything was.
# usage: lint.sh; called by ./run lint, in the checkout.
set -eu

bad=0
checked=0

# check NAME COMMAND...
check() {
    name=$1
    shift
    checked=$((checked + 1))
    if "$@"; then
        printf 'ok      %s\n' "$name"
    else
        printf 'WRONG   %s\n' "$name"
        bad=$((bad + 1))
    fi
}

shell_files() {
    for file in run tools/run/*.sh tests/install/*.sh tests/*/*.sh tools/cuda/*.sh bench/peers/*.sh; do
        [ ! -f "$file" ] || printf '%s\n' "$file"
    done | sort -u
}

check_shell() {
    for file in $(shell_files); do
        if command -v dash >/dev/null 2>&1; then
            dash -n "$file" || return 1
        else
            sh -n "$file" || return 1
        fi
    done
    bash -n .ci/run || return 1
    if command -v shellcheck >/dev/null 2>&1; then
        # shellcheck disable=SC2046
        shellcheck $(shell_files) .ci/run
    fi
}

# Every header's comments as the reference shows them; a warning is an error.
check_reference() {
    command -v doxygen >/dev/null 2>&1 || {
        echo "reference: doxygen is missing, not checked"
        return 0
    }
    mkdir -p build/docs
    warnings=$(doxygen Doxyfile 2>&1 >/dev/null)
    [ -n "$warnings" ] || return 0
    printf '%s\n' "$warnings"
    return 1
}

check_format() {
    command -v clang-format >/dev/null 2>&1 || {
        echo "format: clang-format is missing, not checked"
        return 0
    }
    # releases break lines in other places
    case $(clang-format --version) in
    *"version 14."*) ;;
    *)
        echo "format: not checked: it is that of clang-format 14, and this is $(clang-format --version)"
        return 0
        ;;
    esac
    unformatted=$(python3 tools/check_format.py)
    [ -n "$unformatted" ] || return 0
    printf '%s\n' "$unformatted" | sed 's/^/format: /'
    return 1
}

check layers python3 tools/check_layers.py
check sizes python3 tools/check_sizes.py
check headers python3 tools/check_headers.py
check sim-headers python3 tools/check_sim_headers.py
check semantics python3 tools/check_semantics.py
check ops python3 tools/check_ops.py
check op-table python3 tools/gen_ops.py --check
check recipe python3 tools/try_recipe.py --check
check kernels sh tools/cuda/check_device.sh
check docs python3 tools/check_docs.py
check shell check_shell
check format check_format
check reference check_reference
printf 'lint: %d checks, %d wrong\n' "$checked" "$bad"
[ "$bad" -eq 0 ]
