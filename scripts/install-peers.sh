#!/bin/sh
# Brings by apt, which needs root, what is missing for `make interop`, `make contract` and `make loadtest`: Python with
# venv, and Node.js with npm.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib/private.sh

# Distributions differ in whether node brings npm along.
set --
has_venv || set -- python3 python3-venv
command -v node >/dev/null || set -- "$@" nodejs
command -v npm >/dev/null || set -- "$@" npm
[ $# -gt 0 ] || exit 0
[ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null || fail "it takes apt and root to install $*"
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" </dev/null
