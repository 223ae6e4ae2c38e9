#!/bin/sh
# Runs run.sh and test.sh in a pretended machine: a folder of stubs is all of PATH. Usage: scripts_test.sh CHECKOUT
set -u
checkout=$(cd "$1" && pwd)
base=$(mktemp -d)
trap 'rm -rf "$base"' EXIT
failures=0
# The lists of packages.
root=$checkout
# shellcheck source=tools/setup.sh
. "$checkout/tools/setup.sh"

stub() { # stub NAME, body on stdin
    { printf '#!/bin/sh\n'; cat; } >"$bin/$1"
    chmod +x "$bin/$1"
}

# A machine that has everything; the cases take away. $calls records what was called.
new_machine() {
    case_name=$1
    box=$base/$case_name
    bin=$box/bin
    calls=$box/calls
    mkdir -p "$bin" "$box/checkout/tools" "$box/elsewhere"
    cp "$checkout/run.sh" "$checkout/test.sh" "$box/checkout/"
    cp "$checkout/tools/setup.sh" "$box/checkout/tools/"
    : >"$calls"
    for tool in sh cat dirname readlink tail sed sleep mkdir awk env grep chmod ln; do ln -s "$(command -v $tool)" "$bin/$tool"; done
    echo "$run_packages $test_packages" >"$box/installed"
    stub dpkg-query <<END
for word in \$(cat $box/installed); do
    if [ "\$word" = "\$3" ]; then printf 'installed '; exit 0; fi
done
exit 1
END
    stub apt-get <<END
echo "apt-get \$*" >>$calls
[ ! -f $box/apt-fails ] || exit 100
[ "\$1" != install ] || for tool in cmake g++ ninja pkg-config; do [ -e $bin/\$tool ] || ln -s $bin/hidden-\$tool $bin/\$tool; done
END
    stub sudo <<END
echo "sudo" >>$calls
exec "\$@"
END
    stub id <<END
cat $box/uid
END
    echo 0 >"$box/uid"
    stub nproc <<END
echo 2
END
    stub cmake <<END
echo "cmake \$*" >>$calls
case "\$*" in
    *--preset*) mkdir -p build/release; echo >build/release/build.ninja ;;
    *--build*)
        [ ! -f $box/build-fails ] || { echo "[1/2] compiling"; echo "the compiler says no"; exit 1; }
        { echo '#!/bin/sh'; echo 'echo "args: \$# \$*"; echo "in: \$PWD"'; } >build/release/cellar
        chmod +x build/release/cellar
        ;;
esac
END
    cp "$bin/cmake" "$bin/hidden-cmake"
    stub ctest <<END
echo "ctest \$*" >>$calls
END
    for tool in g++ ninja pkg-config; do
        stub $tool </dev/null
        stub hidden-$tool </dev/null
    done
}

lacks() { # lacks PACKAGE...: the machine has all but these
    for package in "$@"; do
        sed -i "s/\\(^\\| \\)$package\\( \\|\$\\)/ /" "$box/installed"
    done
}

go() { # go SCRIPT ARGS...: runs it from another folder; leaves $status, $box/out, $box/err
    script=$1
    shift
    (cd "$box/elsewhere" && PATH=$bin CELLAR_NO_INSTALL=${no_install-} sh "$box/checkout/$script" "$@") >"$box/out" 2>"$box/err" </dev/null
    status=$?
}

expect() { # expect WHAT COMMAND...
    what=$1
    shift
    if ! "$@" >/dev/null 2>&1; then
        echo "FAILED: $case_name: $what"
        sed 's/^/    out: /' "$box/out"
        sed 's/^/    err: /' "$box/err"
        sed 's/^/    call: /' "$calls"
        failures=$((failures + 1))
    fi
}
calls_none() { ! grep -q "$1" "$calls"; }

no_install=

new_machine everything_is_here
go run.sh bench --prompt "two words"
expect "exit code" [ "$status" = 0 ]
expect "arguments pass" grep -qx "args: 3 bench --prompt two words" "$box/out"
expect "runs in the caller's folder" grep -qx "in: $box/elsewhere" "$box/out"
expect "no apt-get" calls_none apt-get
expect "only the program is built" grep -q -- "--target cellar" "$calls"
expect "nothing else on stderr" [ ! -s "$box/err" ]
go run.sh
expect "configures once" [ "$(grep -c -- --preset "$calls")" = 1 ]
expect "one question without a terminal" grep -q "^args: 4 run $box/checkout/models/.*.gguf -p " "$box/out"

new_machine root_installs
lacks libpcre2-dev libxxhash-dev
go run.sh --version
expect "exit code" [ "$status" = 0 ]
expect "says which" grep -q "missing: libpcre2-dev libxxhash-dev$" "$box/err"
expect "updates first" grep -q "apt-get update" "$calls"
expect "exactly these" grep -q "^apt-get install.* libpcre2-dev libxxhash-dev$" "$calls"
expect "no sudo" calls_none sudo
expect "no test packages" calls_none gtest

new_machine fresh_machine
: >"$box/installed"
rm "$bin/cmake" "$bin/g++" "$bin/ninja" "$bin/pkg-config"
go run.sh --version
expect "exit code" [ "$status" = 0 ]
expect "tools too" grep -q "^apt-get install.* g++ cmake ninja-build pkg-config libhwy-dev " "$calls"
expect "it runs" grep -q "args: 1 --version" "$box/out"

new_machine users_take_sudo
echo 1000 >"$box/uid"
echo "g++" >"$box/installed"
go run.sh --version
expect "exit code" [ "$status" = 0 ]
expect "sudo" grep -qx sudo "$calls"

new_machine user_without_sudo
echo 1000 >"$box/uid"
: >"$box/installed"
rm "$bin/sudo"
go run.sh --version
expect "exit code" [ "$status" = 1 ]
expect "says what to run" grep -q "have somebody run: apt-get install" "$box/err"
expect "nothing runs" [ ! -s "$calls" ]

no_install=1
new_machine no_install
: >"$box/installed"
go run.sh --version
expect "exit code" [ "$status" = 1 ]
expect "prints the command" grep -q "^apt-get install -y --no-install-recommends libhwy-dev" "$box/out"
expect "nothing runs" [ ! -s "$calls" ]

new_machine no_install_needs_none
go run.sh --version
expect "exit code" [ "$status" = 0 ]
expect "it runs" grep -q "args: 1 --version" "$box/out"

no_install=yes
new_machine no_install_misspelt
: >"$box/installed"
go run.sh --version
expect "exit code" [ "$status" = 1 ]
expect "says so" grep -q "CELLAR_NO_INSTALL: 'yes'" "$box/err"
no_install=

new_machine apt_fails
: >"$box/installed"
: >"$box/apt-fails"
go run.sh --version
expect "exit code" [ "$status" = 1 ]
expect "says so" grep -q "installing failed" "$box/err"
expect "no build" calls_none cmake

new_machine build_fails
: >"$box/build-fails"
go run.sh --version
expect "exit code" [ "$status" = 1 ]
expect "shows the end of the log" grep -q "the compiler says no" "$box/err"
expect "names the log" grep -q "build/run.log" "$box/err"

new_machine another_system
: >"$box/installed"
rm "$bin/apt-get" "$bin/dpkg-query"
go run.sh --version
expect "tries" [ "$status" = 0 ]
expect "says so" grep -q "no Debian" "$box/err"

new_machine tests
lacks libgtest-dev librapidcheck-dev
go test.sh -R kv
expect "exit code" [ "$status" = 0 ]
expect "test packages" grep -q "^apt-get install.* libgtest-dev librapidcheck-dev$" "$calls"
expect "tests are on" grep -q "CELLAR_TESTS=ON" "$calls"
expect "ctest with arguments" grep -q "^ctest .*--no-tests=error.*-R kv$" "$calls"
new_machine tests_fail_to_build
: >"$box/build-fails"
go test.sh
expect "exit code" [ "$status" != 0 ]
expect "no ctest" calls_none ctest

# With a terminal the question is asked first. script gives it one, where the system has any to give.
if script -qec true /dev/null >/dev/null 2>&1; then
    for answer in n y; do
        new_machine "asks_$answer"
        echo "g++" >"$box/installed"
        (cd "$box/elsewhere" && (sleep 1; echo $answer; sleep 1) |
            PATH=$bin CELLAR_NO_INSTALL='' "$(PATH=/usr/bin:/bin command -v script)" -qec "sh $box/checkout/run.sh --version" "$box/typed") >"$box/out" 2>"$box/err"
        status=$?
        expect "asks" grep -q "Y/n" "$box/typed"
        if [ $answer = y ]; then
            expect "exit code" [ "$status" = 0 ]
            expect "installs" grep -q "apt-get install" "$calls"
        else
            expect "exit code" [ "$status" = 1 ]
            expect "installs nothing" [ ! -s "$calls" ]
            expect "says how" grep -q "to do it yourself: apt-get install" "$box/typed"
        fi
    done
fi

[ "$failures" = 0 ] || { echo "$failures expectations failed"; exit 1; }
echo "all expectations hold"
