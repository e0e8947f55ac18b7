# shellcheck shell=sh disable=SC2034 # the scripts that source this use REMEDY, programs and folder
# Sourced by the scripts that test with other people's programs: what they need is installed below the target folder.

REMEDY="install Python 3 with venv (Debian: python3-venv) and Node.js 18.19 or newer with npm; as root, \
scripts/install-peers.sh does it by apt"

fail() {
    printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2
    exit 1
}

has_venv() {
    python3 -c 'import ensurepip, venv' 2>/dev/null
}

has_node() {
    command -v node >/dev/null && command -v npm >/dev/null
}

# private_folder NAME PINS: makes $folder the folder NAME below the target folder. Unless it was filled from the same
# pins, it is emptied, and `fill`, a function of the caller, fills it from within.
private_folder() {
    mkdir -p "${CARGO_TARGET_DIR:-target}/$1"
    folder=$(cd "${CARGO_TARGET_DIR:-target}/$1" && pwd)
    if [ "$(cat "$folder/pinned" 2>/dev/null || :)" != "$2" ]; then
        rm -rf "${folder:?}"/*
        printf '%s: installing in %s\n' "$1" "$folder"
        (cd "$folder" && fill)
        # Last: a folder without it is begun anew.
        printf '%s\n' "$2" >"$folder/pinned"
    fi
}

fill_python() {
    python3 -m venv python
    python/bin/pip install --quiet --disable-pip-version-check --no-deps --requirement "$1/requirements.txt"
}

fill_node() {
    cp "$1/package.json" "$1/package-lock.json" .
    # Its errors are shown, such as that there is no network.
    npm ci --loglevel=error --no-audit --no-fund --ignore-scripts >/dev/null
}

# Makes $programs the folder of `inventory` and `testbed`. As `make test` builds them, with the features that only tests
# ask for: so nothing is built twice.
build_programs() {
    "${CARGO:-cargo}" test --locked --workspace --all-features --no-run --test it
    programs=$(cd "${CARGO_TARGET_DIR:-target}/debug" && pwd)
}

find_chromium() {
    for name in chromium-headless-shell chromium chromium-browser google-chrome google-chrome-stable; do
        command -v $name && return
    done
    return 1
}
