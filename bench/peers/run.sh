#!/bin/sh
# Compares tern with PyTorch, interleaved, and prints a table.
# ./run bench peers [options of compare.py]
set -eu

cd "$(dirname "$0")/../.."
sh bench/peers/setup.sh
exec build/peers/venv/bin/python bench/peers/compare.py "$@"
