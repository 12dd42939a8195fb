#!/bin/sh
# Makes build/peers/venv with the newest PyTorch from PyPI. TORCH_INDEX_URL names another index,
# such as https://download.pytorch.org/whl/cpu, which saves 3 GB of CUDA libraries.
# usage: setup.sh; may be called again, does nothing when PyTorch is there.
set -eu

cd "$(dirname "$0")/../.."
venv=build/peers/venv
python=$venv/bin/python

if [ -x $python ] && $python -c 'import torch' 2>/dev/null; then
    exit 0
fi
command -v python3 >/dev/null || {
    echo "peers: python3 is missing (Debian: python3-venv)" >&2
    exit 1
}
mkdir -p build/peers
python3 -m venv $venv || {
    echo "peers: python3 cannot make environments (Debian: python3-venv)" >&2
    exit 1
}
echo "peers: installing PyTorch into $venv; this takes minutes" >&2
$python -m pip install --quiet --no-input \
    ${TORCH_INDEX_URL:+--index-url "$TORCH_INDEX_URL"} torch numpy
