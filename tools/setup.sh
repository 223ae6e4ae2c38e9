# Read by run.sh and test.sh (plain sh): finds and installs missing Debian packages, and builds.
# Needs: root, the absolute path of the checkout.
# shellcheck shell=sh disable=SC2034,SC2154

run_packages="g++ cmake ninja-build pkg-config libhwy-dev libpcre2-dev libutf8proc-dev nlohmann-json3-dev libcli11-dev libfmt-dev libexpected-dev libxxhash-dev libedit-dev"
test_packages="libgtest-dev librapidcheck-dev"
check_packages="clang libclang-rt-14-dev clang-format"

say() { printf '%s\n' "cellar: $*" >&2; }
die() { say "$*"; exit 1; }

# A tool may come from elsewhere than its package; a library is looked for as a package.
is_present() {
    case $1 in
        g++ | cmake | pkg-config | clang | clang-format) command -v "$1" >/dev/null 2>&1 && return 0 ;;
        ninja-build) command -v ninja >/dev/null 2>&1 && return 0 ;;
    esac
    command -v dpkg-query >/dev/null 2>&1 || return 1
    [ "$(dpkg-query -W -f='${db:Status-Status} ' "$1" 2>/dev/null)" = "installed " ]
}

# need PACKAGE...: returns when all are present, after installing what is missing. Ends the script where that cannot be.
need() {
    missing=
    for package in "$@"; do
        is_present "$package" || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    if ! command -v apt-get >/dev/null 2>&1; then
        # Other systems name their packages otherwise. Configuring says what it does not find.
        say "this is no Debian, so whether these are here is for CMake to find out:$missing"
        command -v cmake >/dev/null 2>&1 || die "cmake is missing"
        return 0
    fi
    sudo=
    [ "$(id -u)" = 0 ] || sudo="sudo "
    install="${sudo}apt-get install -y --no-install-recommends$missing"
    case ${CELLAR_NO_INSTALL:-0} in
        0) ;;
        1)
            say "packages are missing:$missing"
            printf '%s\n' "$install"
            exit 1
            ;;
        *) die "CELLAR_NO_INSTALL: '$CELLAR_NO_INSTALL' is neither 0 nor 1" ;;
    esac
    say "packages are missing:$missing"
    if [ -n "$sudo" ] && ! command -v sudo >/dev/null 2>&1; then
        die "neither root nor sudo; have somebody run: ${install#sudo }"
    fi
    if [ -t 0 ]; then
        printf '%s' "cellar: install them with '$install'? [Y/n] " >&2
        read -r answer || answer=n
        case $answer in
            '' | y | Y | yes | Yes) ;;
            *) die "nothing was installed; to do it yourself: $install" ;;
        esac
    fi
    ${sudo:+sudo} apt-get update -q >&2 </dev/null || say "apt-get update failed; trying with the lists that are here"
    # shellcheck disable=SC2086  # words, not one word
    ${sudo:+sudo} env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing >&2 </dev/null ||
        die "installing failed; the command was: $install"
}

# As many compilers as there are CPUs, but no more than there is memory for.
jobs_for_build() {
    cpus=$(nproc 2>/dev/null || echo 1)
    room=$(awk '/^MemAvailable:/ { print int($2 / 1048576) + 1 }' /proc/meminfo 2>/dev/null)
    if [ -n "$room" ] && [ "$room" -lt "$cpus" ]; then echo "$room"; else echo "$cpus"; fi
}

# Builds the program alone. The output goes to build/run.log; a terminal sees one moving line, and everybody the end of the log when it fails.
build_quietly() {
    log=$root/build/run.log
    mkdir -p "$root/build" || exit 1
    : >"$log" || exit 1
    (
        cd "$root" || exit 1
        if [ ! -f build/release/build.ninja ]; then
            cmake --preset release || exit 1
        fi
        cmake --build build/release --target cellar -j "$(jobs_for_build)"
    ) >"$log" 2>&1 </dev/null &
    builder=$!
    # Without job control a background job does not hear Ctrl-C.
    trap 'kill "$builder" 2>/dev/null; exit 130' INT TERM HUP
    while kill -0 "$builder" 2>/dev/null; do
        [ ! -t 2 ] || printf '\r\033[K%s' "cellar: building $(tail -n 1 "$log" | sed -n 's/^\(\[[0-9/]*\]\).*/\1/p')" >&2
        sleep 0.2
    done
    wait "$builder"
    status=$?
    trap - INT TERM HUP
    [ ! -t 2 ] || printf '\r\033[K' >&2
    if [ "$status" != 0 ]; then
        tail -n 30 "$log" >&2
        die "building failed; all of the output is in $log"
    fi
}
