#!/bin/sh
# Installs the build into an empty folder and builds a stranger's project against it: the example of README.md, all public headers,
# and the C header from C. Usage: install_test.sh CHECKOUT BUILD
set -eu
checkout=$(cd "$1" && pwd)
build=$(cd "$2" && pwd)
base=$(mktemp -d)
trap 'rm -rf "$base"' EXIT
prefix=$base/prefix
mkdir "$base/stranger"
cd "$base/stranger"

cmake --install "$build" --prefix "$prefix" >install.log || { cat install.log; exit 1; }
# What is installed must not need the checkout.
if grep -rlF -e "$checkout" -e "$build" "$prefix/include" "$prefix/lib"*/cmake "$prefix"/lib*/*/cmake 2>/dev/null; then
    echo "FAILED: the files above name the checkout"
    exit 1
fi

# The first C++ example of the README.
sed -n '/^```cpp$/,/^```$/p' "$checkout/README.md" | sed '1d;/^```$/,$d' >example.cc
grep -q 'int main' example.cc || { echo "FAILED: README.md has no example with a main function"; exit 1; }
for header in "$prefix"/include/cellar/*.h; do
    [ -e "$header" ] || { echo "FAILED: no public headers are installed"; exit 1; }
    echo "#include <cellar/$(basename "$header")>"
done >headers.cc
cat >c_header.c <<'END'
#include <cellar/cellar.h>
END
cat >CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.25)
project(stranger LANGUAGES C CXX)
find_package(cellar REQUIRED)
add_executable(example example.cc headers.cc c_header.c)
target_link_libraries(example PRIVATE cellar::cellar)
target_compile_options(example PRIVATE -Wall -Wextra -Werror)
END
cmake -S . -B build -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release >configure.log 2>&1 || { cat configure.log; exit 1; }
cmake --build build >build.log 2>&1 || { cat build.log; exit 1; }

# It runs, with the model that comes along.
answer=$(./build/example "$checkout/models/cellar-recall.gguf" </dev/null)
[ -n "$answer" ] || { echo "FAILED: the example prints nothing"; exit 1; }
echo "the installed library answers: $answer"
