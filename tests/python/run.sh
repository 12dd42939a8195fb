#!/bin/sh
# The tests in Python of test_NAME.py, by $TERN_TEST_PYTHON or python3; 77 where there is none.
# usage: run.sh SOURCE LIBRARY NAME
set -eu
python=${TERN_TEST_PYTHON:-python3}
if ! "$python" -c 'import ctypes, sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
    echo "skipped: $python is not there, older than 3.9, or without ctypes"
    exit 77
fi
TERN_LIBRARY=$2 exec "$python" -B "$1/tests/python/test_$3.py"
