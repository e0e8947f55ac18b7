#!/bin/sh
# Installs the servers that tests and the demo start for themselves: redis-server, and PostgreSQL with contrib. With
# `--test-tools` also Valgrind, for the test that counts instructions, and Prometheus, for those of dashboards and alerts;
# where one can't be had, its tests are skipped.
#
# Does nothing when they are found: named by REDIS_SERVER and PG_BIN, on PATH, or in the usual folders. Otherwise says
# what it is going to install and how much that is, asks when there is a terminal to ask on, and uses apt, dnf, apk or
# brew. No service is started or enabled and no database cluster is created: what was configured stays as it was.
set -eu

say() {
    printf '%s\n' "$*"
}

fail() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}

# --- what is there ---------------------------------------------------------------------------------------------------

find_redis() {
    if [ -n "${REDIS_SERVER:-}" ]; then
        [ -f "$REDIS_SERVER" ] || fail "REDIS_SERVER=$REDIS_SERVER is no file: correct it, or unset it to look elsewhere"
        say "$REDIS_SERVER"
        return
    fi
    command -v redis-server && return
    for folder in /usr/local/bin /opt/homebrew/bin /usr/local/sbin /usr/sbin /opt/local/bin; do
        [ -f "$folder/redis-server" ] && say "$folder/redis-server" && return
    done
    return 1
}

is_postgres_folder() {
    [ -f "$1/postgres" ] && [ -f "$1/initdb" ]
}

find_postgres() {
    if [ -n "${PG_BIN:-}" ]; then
        is_postgres_folder "$PG_BIN" || fail "PG_BIN=$PG_BIN lacks postgres or initdb: correct it, or unset it to look elsewhere"
        say "$PG_BIN"
        return
    fi
    if file=$(command -v postgres) && file=$(readlink -f "$file" 2>/dev/null || say "$file"); then
        is_postgres_folder "$(dirname "$file")" && dirname "$file" && return
    fi
    found=
    for folder in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/libexec/postgresql* \
        /opt/homebrew/opt/postgresql*/bin /usr/local/opt/postgresql*/bin; do
        is_postgres_folder "$folder" && found=$folder
    done
    [ -n "$found" ] && say "$found"
}

# pg_stat_statements stands for the contrib package, which some distributions keep apart from the server.
has_contrib() {
    library=
    if [ -x "$1/pg_config" ]; then
        library=$("$1/pg_config" --pkglibdir 2>/dev/null || :)
    fi
    for folder in "$library" "$1/../lib" "$1"/../lib/postgresql* "$1/../lib64/pgsql" \
        "/usr/lib/$(basename "$1")" /usr/lib/postgresql /usr/lib64/pgsql; do
        for file in "$folder"/pg_stat_statements.so "$folder"/pg_stat_statements.dylib; do
            [ -f "$file" ] && return
        done
    done
    return 1
}

# The number before the first dot of a version. Empty if the program prints none.
major() {
    "$1" --version 2>/dev/null | sed -n "s/^$2\\([0-9][0-9]*\\).*/\\1/p"
}

# A server that is too old fails later, and less clearly.
check_versions() {
    version=$(major "$redis" '[A-Za-z]* server v=')
    [ "${version:-7}" -ge 7 ] ||
        fail "$redis is version $version, and 7.0 or newer is needed: install one from the packages of redis.io, or name one with REDIS_SERVER"
    version=$(major "$postgres/postgres" 'postgres (PostgreSQL) ')
    [ "${version:-15}" -ge 15 ] ||
        fail "$postgres has PostgreSQL $version, and 15 or newer is needed: install one from the packages of postgresql.org, or name its bin folder with PG_BIN"
}

# --- how it is installed ---------------------------------------------------------------------------------------------

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        fail "this needs root and there is no sudo: run it as root, or install redis-server and PostgreSQL with contrib yourself"
    fi
}

# Says what and how much, and asks.
announce() {
    say "setup: $1 is about to install: $2"
    [ -z "$3" ] || say "setup: $3"
    say "setup: no service is started or enabled, and no database cluster is created"
    if [ -t 0 ] && [ -t 1 ]; then
        printf 'setup: go on? [Y/n] '
        read -r answer
        case $answer in
            '' | [Yy]*) ;;
            *) fail "nothing was installed; name servers of your own with REDIS_SERVER and PG_BIN" ;;
        esac
    fi
}

is_installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null || :)" = installed ]
}

GUARD=/usr/sbin/policy-rc.d
NO_CLUSTER=/etc/postgresql-common/createcluster.d/stockade-setup.conf
guarded=
clusterless=

# Takes back what was only meant for the installation.
unguard() {
    [ -z "$guarded" ] || as_root rm -f "$GUARD"
    [ -z "$clusterless" ] || as_root rm -f "$NO_CLUSTER"
    guarded=
    clusterless=
}

guard() {
    trap unguard EXIT
    trap 'exit 1' HUP INT TERM
    # The system's own switch against starting services during an installation. One that is there already decides.
    if [ ! -e "$GUARD" ]; then
        guarded=yes
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$GUARD" >/dev/null
        as_root chmod 755 "$GUARD"
    fi
    # A drop-in beside the configuration, so that nobody's settings are touched.
    if [ ! -e "$NO_CLUSTER" ]; then
        clusterless=yes
        as_root mkdir -p "${NO_CLUSTER%/*}"
        printf 'create_main_cluster = false\n' | as_root tee "$NO_CLUSTER" >/dev/null
    fi
}

# A package enables its service when it is first installed; whoever had it before keeps it as it was.
disable() {
    as_root deb-systemd-helper disable "$1.service" >/dev/null 2>&1 || :
    as_root update-rc.d "$1" disable >/dev/null 2>&1 || :
}

with_apt() {
    packages=
    [ -n "$redis" ] || packages="redis-server"
    [ -n "$postgres" ] || packages="$packages postgresql"
    new=
    is_installed redis-server || new="$new redis-server"
    is_installed postgresql-common || new="$new postgresql"

    # shellcheck disable=SC2086 # one word per package
    size() {
        LC_ALL=C apt-get install -y --print-uris --no-install-recommends $packages 2>/dev/null |
            grep -E '^(Need to get|After this operation)' | tr '\n' ' '
    }
    how_much=$(size || :)
    if [ -z "$how_much" ]; then
        say "setup: refreshing the list of packages"
        as_root apt-get update -qq
        how_much=$(size || :)
    fi
    announce apt "$packages" "$how_much"
    guard
    # shellcheck disable=SC2086
    install() {
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages </dev/null
    }
    # An old list names versions that are gone.
    install || { as_root apt-get update -qq && install; }
    for service in $new; do
        disable "$service"
    done
    unguard
}

with_dnf() {
    packages=
    if [ -z "$redis" ]; then
        if dnf -q list redis >/dev/null 2>&1; then
            packages=redis
        else
            packages="valkey valkey-compat-redis"
        fi
    fi
    [ -n "$postgres" ] || packages="$packages postgresql-server postgresql-contrib"
    # shellcheck disable=SC2086
    how_much=$(LC_ALL=C dnf install --assumeno $packages 2>/dev/null | grep -iE 'download size|installed size|after this operation' | tr '\n' ' ' || :)
    announce dnf "$packages" "$how_much"
    # shellcheck disable=SC2086
    as_root dnf install -y $packages
}

with_apk() {
    packages=
    [ -n "$redis" ] || packages=redis
    [ -n "$postgres" ] || packages="$packages postgresql postgresql-contrib"
    # shellcheck disable=SC2086
    how_much=$(apk add --simulate $packages 2>/dev/null | tail -n 1 || :)
    announce apk "$packages" "$how_much"
    # shellcheck disable=SC2086
    as_root apk add $packages
}

with_brew() {
    packages=
    [ -n "$redis" ] || packages=redis
    [ -n "$postgres" ] || packages="$packages postgresql@17"
    announce brew "$packages" "with what they depend on, about 150 MB on disk"
    # shellcheck disable=SC2086
    brew install $packages
}

# --- the tools of single tests ---------------------------------------------------------------------------------------

# Runs in a subshell: that it is missing, or not wanted, stops nothing else.
get_tool() {
    tool=$1
    if command -v apt-get >/dev/null; then
        size() {
            LC_ALL=C apt-get install -y --print-uris --no-install-recommends "$tool" 2>/dev/null |
                grep -E '^(Need to get|After this operation)' | tr '\n' ' '
        }
        how_much=$(size || :)
        [ -n "$how_much" ] || { as_root apt-get update -qq && how_much=$(size || :); }
        announce apt "$tool" "$how_much"
        is_installed "$tool" && new= || new=$tool
        guard
        install() {
            as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$tool" </dev/null
        }
        install || { as_root apt-get update -qq && install; }
        [ -z "$new" ] || disable "$new"
        unguard
    elif command -v dnf >/dev/null; then
        announce dnf "$tool" ""
        as_root dnf install -y "$tool"
    elif command -v apk >/dev/null; then
        announce apk "$tool" ""
        as_root apk add "$tool"
    elif command -v brew >/dev/null; then
        announce brew "$tool" ""
        brew install "$tool"
    else
        return 1
    fi
}

# --- and so ----------------------------------------------------------------------------------------------------------

look() {
    redis=$(find_redis) || redis=
    postgres=$(find_postgres) || postgres=
    if [ -n "$postgres" ] && ! has_contrib "$postgres"; then
        postgres=
    fi
}

# Said by these and not inside the substitutions above, where `fail` could only end a subshell.
[ -z "${REDIS_SERVER:-}" ] || find_redis >/dev/null
[ -z "${PG_BIN:-}" ] || find_postgres >/dev/null

look
if [ -z "$redis" ] || [ -z "$postgres" ]; then
    if command -v apt-get >/dev/null; then
        with_apt
    elif command -v dnf >/dev/null; then
        with_dnf
    elif command -v apk >/dev/null; then
        with_apk
    elif command -v brew >/dev/null; then
        with_brew
    else
        fail "no apt, dnf, apk or brew: install Redis 7 or newer and PostgreSQL 15 or newer with contrib, or name them with REDIS_SERVER and PG_BIN"
    fi
    look
    [ -n "$redis" ] || fail "redis-server is still not found; name it with REDIS_SERVER"
    [ -n "$postgres" ] || fail "PostgreSQL with pg_stat_statements is still not found; name its bin folder with PG_BIN"
    say "setup: installed redis-server ($redis) and PostgreSQL ($postgres)"
fi

check_versions

if [ "${1:-}" = --test-tools ]; then
    for tool in valgrind prometheus; do
        command -v "$tool" >/dev/null && continue
        if ! (get_tool "$tool") || ! command -v "$tool" >/dev/null; then
            say "setup: there is no $tool: the tests that need it will be skipped"
        fi
    done
fi

command -v cargo >/dev/null || fail "the servers are there, but cargo is not: install Rust 1.94 or newer"
