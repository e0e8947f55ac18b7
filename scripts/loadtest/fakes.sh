#!/bin/sh
# What loadtest.sh runs without the service: every way in which a service can be wrong makes the load test fail, and for
# its own reason; a fake that does nothing wrong passes.
#
# usage: fakes.sh
set -eu
stand_in=$(cd "$(dirname "$0")/../../loadtest/stand-in" && pwd)
folder=$(mktemp -d)
fake=
trap '[ -z "$fake" ] || kill $fake 2>/dev/null || :; rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM

# expect FAULT SCRIPT STATUS TEXT [OTHER]: how the stand-in ends against a fake with this fault, and what it says. OTHER is
# an instance whose operators' port it is not told of.
expect() {
    : >"$folder/url"
    node "$stand_in/fake.mjs" "$1" >"$folder/url" &
    fake=$!
    tries=0
    until [ -s "$folder/url" ]; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || { printf 'loadtest: the fake does not listen after 10 s\n' >&2; exit 1; }
        sleep 0.1
    done
    status=0
    url=$(cat "$folder/url")
    SKUS=5 FLASH_UNITS=20 READ_RATE=50 DROP_EVERY=1 TARGETS=$url${5:+,$5} OPS=$url \
        node "$stand_in/run.mjs" "$stand_in/../$2.js" 30 3 >"$folder/said" 2>&1 || status=$?
    kill $fake
    wait $fake 2>/dev/null || :
    fake=
    # shellcheck disable=SC2254 # a pattern
    case $status:$(cat "$folder/said") in
    $3:*$4*) printf 'loadtest: %s against the fake %s: status %s\n' "$2" "$1" $status ;;
    *)
        printf 'loadtest: %s against the fake %s: status %s, not %s with "%s":\n' "$2" "$1" $status "$3" "$4" >&2
        cat "$folder/said" >&2
        exit 1
        ;;
    esac
}

expect nothing browse 0 ''
expect nothing sale 0 ''
expect nothing transfers 0 ''
expect nothing flash 0 ''
expect loses sale 107 'it was lost'
expect loses transfers 107 'it was lost'
expect loses-last sale 99 'crossed: unsettled'
expect loses flash 99 'crossed: unsettled'
expect oversells flash 107 'oversold: 21 units of 20'
expect refuses flash 107 'nothing was sold'
expect overwrites browse 107 'opening*own deltas*quantity'
expect refuses sale 107 'nothing was sold'
expect refuses transfers 107 'nothing was sold'
expect refuses-most sale 99 'crossed: applied'
expect forgets soak 107 "can't read"
expect repeats sale 107 'applied twice'
expect repeats transfers 107 'applied twice'
expect tokenless sale 99 'crossed: checks'
expect cold browse 99 'crossed: cache_hits'
expect mute sale 99 'crossed: outcomes_known'
expect keyless browse 107 'applied twice'
expect nothing breakdown 0 ''
expect nothing avalanche 0 ''
expect stampedes breakdown 107 'asked too often'
expect stampedes avalanche 107 'asked too often'
expect keeps breakdown 107 'not loaded again'
expect forgets breakdown 107 'how often something was dropped'
expect locked breakdown 107 'the same ADMIN_TOKEN'
expect nothing breakdown 107 '1 operators*2 instances' http://127.0.0.1:1
