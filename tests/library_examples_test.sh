#!/bin/sh
# The examples of README.md (C++) and docs/library.md (C), as a reader would copy them: strictly compiled, linked with the archive, and run
# with the model that comes along. Usage: library_examples_test.sh CHECKOUT BUILD
set -eu
checkout=$(cd "$1" && pwd)
build=$(cd "$2" && pwd)
base=$(mktemp -d)
trap 'rm -rf "$base"' EXIT
cd "$base"
model=$checkout/models/cellar-recall.gguf
flags="-Wall -Wextra -Werror -I$checkout/include"
archive=$build/libcellar.a
libraries="$archive $(pkg-config --libs fmt libhwy libpcre2-8 libutf8proc libxxhash) -pthread"
[ -e "$archive" ] || { echo "FAILED: $archive is not built"; exit 1; }

# The first block of this language.
example() {
    sed -n "/^\`\`\`$2\$/,/^\`\`\`\$/p" "$checkout/$1" | sed '1d;/^```$/,$d' >"$3"
    grep -q 'int main' "$3" || { echo "FAILED: $1 has no $2 example with a main function"; exit 1; }
}
expect() {
    printf '%s' "$1" | grep -qF "$2" || { echo "FAILED: '$2' is missing in: $1"; exit 1; }
}

example README.md cpp example.cc
c++ -std=c++20 $flags -c example.cc -o example_cc.o
c++ example_cc.o $libraries -o example_cc
answer=$(./example_cc "$model")
expect "$answer" 4821
expect "$answer" Ada
expect "$answer" reused
if ./example_cc "$base/none.gguf" 2>message; then echo "FAILED: a missing model is no error"; exit 1; fi
expect "$(cat message)" none.gguf

example docs/library.md c example.c
cc -std=c99 -pedantic $flags -c example.c -o example_c.o
c++ example_c.o $libraries -o example_c
expect "$(./example_c "$model")" 4821
if ./example_c "$base/none.gguf" 2>message; then echo "FAILED: a missing model is no error"; exit 1; fi
expect "$(cat message)" none.gguf

# The public headers ask for nothing that the archive's users need not have, each alone.
for header in "$checkout"/include/cellar/*.h; do
    printf '#include <cellar/%s>\n' "$(basename "$header")" >alone.cc
    c++ -std=c++20 -pedantic $flags -fsyntax-only alone.cc
done
echo "the examples say: $answer"
