#!/bin/sh
# Brings by apt, which needs root, what is missing for `make interop`, `make contract`, `make loadtest` and
# `make browser`: Python with venv, Node.js with npm, and Chromium, without which `make browser` says that it is skipped.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib/private.sh

# Distributions differ in whether node brings npm along.
set --
has_venv || set -- python3 python3-venv
command -v node >/dev/null || set -- "$@" nodejs
command -v npm >/dev/null || set -- "$@" npm
find_chromium >/dev/null && browser= || browser=chromium
[ -n "$*$browser" ] || exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    [ $# -eq 0 ] || fail "it takes apt and root to install $*"
    printf 'install-peers: it takes apt and root to install Chromium\n'
    exit 0
fi
apt-get update -qq
install() {
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" </dev/null
}
[ $# -eq 0 ] || install "$@"
[ -z "$browser" ] || install chromium-headless-shell || install chromium ||
    printf 'install-peers: Chromium cannot be installed here\n'
