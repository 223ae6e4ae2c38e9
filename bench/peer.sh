#!/bin/sh
# Measures cellar against a peer engine on the same files and the same machine, in alternation, and prints a table.
#
#   bench/peer.sh [--build DIR] [--pairs N] [--threads N] [--no-pack] [--keep-models] [ITEM ...]
#
# ITEM is SHAPE:FORMAT:DEPTH:CACHE, as qwen2-0.5b:Q4_0:8192:q8_0; without any, all lines of docs/performance.md.
# The peer comes from npm into BUILD/peer. It needs Node 20 and the folder ../shared/peer beside the checkout.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build/release
if [ "${1:-}" = --build ]; then
    build=$(cd "$2" && pwd)
    shift 2
fi
recipe=$root/../shared/peer
peer=$build/peer

say() { echo "bench/peer.sh: $*" >&2; }

if ! command -v node >/dev/null; then
    say "there is no node; install Node 20 or newer"
    exit 1
fi
major=$(node -p 'process.versions.node.split(".")[0]')
if [ "$major" -lt 20 ]; then
    say "node is version $(node --version), the peer needs 20 or newer"
    exit 1
fi
if [ ! -f "$recipe/package.json" ]; then
    say "there is no $recipe with package.json and bench.mjs"
    exit 1
fi
for program in cellar make_model; do
    if [ ! -x "$build/$program" ]; then
        say "there is no $build/$program; build first, or give --build DIR"
        exit 1
    fi
done

mkdir -p "$peer"
cp "$recipe/package.json" "$recipe/bench.mjs" "$peer/"
if [ ! -d "$peer/node_modules/node-llama-cpp" ]; then
    say "installing the peer into $peer"
    (cd "$peer" && npm install --no-audit --no-fund >&2)
fi
exec node "$root/bench/peer.mjs" "$build" "$@"
