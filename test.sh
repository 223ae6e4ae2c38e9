#!/bin/sh
# ./test.sh [ARGS]: installs what is missing, builds, and runs all tests. ARGS go to ctest, such as -R kv.
# CELLAR_NO_INSTALL=1: installs nothing, but prints the command that would.
set -eu
root=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
. "$root/tools/setup.sh"

# shellcheck disable=SC2086  # lists of words
need $run_packages $test_packages
cd "$root"
cmake --preset release -DCELLAR_TESTS=ON
cmake --build build/release -j "$(jobs_for_build)"
exec ctest --test-dir build/release --output-on-failure --no-tests=error -j "$(nproc)" "$@"
