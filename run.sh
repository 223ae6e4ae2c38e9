#!/bin/sh
# ./run.sh [ARGS]: installs what is missing, builds, and runs cellar with ARGS.
# Without ARGS: a chat with the small model that comes along; without a terminal on stdin, one question and its answer.
# CELLAR_NO_INSTALL=1: installs nothing, but prints the command that would.
set -u
root=$(cd "$(dirname "$(readlink -f "$0")")" && pwd) || exit 1
. "$root/tools/setup.sh"

# shellcheck disable=SC2086  # a list of words
need $run_packages
build_quietly

cellar=$root/build/release/cellar
model=$root/models/cellar-recall.gguf
[ "$#" -eq 0 ] || exec "$cellar" "$@"
if [ -t 0 ]; then exec "$cellar" chat "$model"; fi
exec "$cellar" run "$model" -p "What is the capital of Norway?"
