#!/usr/bin/env bash
# Runs the tests of all crates. A test that failed because the machine stood still is run again.
#
#   scripts/tests.sh [OPTION of cargo test…]
#
# The tests use the leases and time-outs of the product, which are fractions of a second. A virtual machine may get no
# processor for as long as that, and to a lease or a time-out this is the same as a server that is away. So a meter runs
# beside the tests: it sleeps for 20 ms at a time and notes each time it slept 100 ms too long. A failed test is run
# again, alone, if the machine stood still in that run, within the 20 seconds before the failure. Every other failure
# counts. So does the failure of a doc test, and of a program that did not end as a test program ends. What is run again
# is printed, with how long the machine stood still. Without bash 5 there is no meter, and every failure counts. What the
# failed tests said is printed again at the end, without backtraces, where it is found.
set -euo pipefail
cd "$(dirname "$0")/.."

tick=20000 stop=100000 before=20000000 # microseconds
again_for=300 # seconds

work=$(mktemp -d)
: >"$work/stops"
trap 'kill $meter 2>/dev/null || :; rm -rf "$work"' EXIT

# Writes the end and the length of each stop, in microseconds.
measure() {
  local last now
  exec 9<> <(:) # a pipe that nobody writes to: reading from it is a sleep that starts no program
  last=${EPOCHREALTIME/[.,]/}
  while true; do
    read -r -t 0.02 -u 9 || :
    now=${EPOCHREALTIME/[.,]/}
    ((now - last - tick < stop)) || echo "$now $((now - last - tick))" >>"$work/stops"
    last=$now
  done
}

# The longest stop shortly before the moment $1, in milliseconds.
longest_stop() {
  local end length longest=0
  while read -r end length; do
    ((end < $1 - before || length < longest)) || longest=$length
  done <"$work/stops"
  echo $((longest / 1000))
}

# Copies the output of cargo, and notes what failed, what it said, and how many tests passed.
count() {
  local at line is_said=
  while IFS= read -r line; do
    printf '%s\n' "$line"
    case $line in
      'test '*' ... FAILED')
        at=${EPOCHREALTIME:-0} line=${line#test }
        echo "${at/[.,]/} ${line% ... FAILED}" >>"$work/failed" ;;
      'test result: FAILED. '*) line=${line#*passed; }; echo "${line%% *}" >>"$work/reports" ;;
      '---- '*' ----') is_said=yes ;;
      failures: | 'stack backtrace:') is_said= ;;
      'test result: ok. '*) line=${line#*ok. }; echo "${line%% *}" >>"$work/passed" ;;
      error:\ *\ target\ failed: | error:\ *\ targets\ failed:) line=${line#error: }; echo "${line%% *}" >"$work/targets" ;;
    esac
    [ -z "$is_said" ] || printf '%s\n' "$line" >>"$work/said"
  done
}

# Whether all that failed is tests that can be named, and the machine stood still before each of them.
is_excused() {
  local at name lasted
  [ -s "$work/failed" ] || return
  # A program that ended otherwise, by a signal for instance, is a failed target without a report.
  [ "$(cat "$work/targets")" -eq "$(wc -l <"$work/reports")" ] 2>/dev/null || return
  # The line of a failure is not found if another thread has written into it.
  [ "$(awk '{ sum += $1 } END { print sum }' "$work/reports")" -eq "$(wc -l <"$work/failed")" ] || return
  while read -r at name; do
    lasted=$(longest_stop "$at")
    case $name in *' '*) return 1 ;; esac
    [ "$lasted" -gt 0 ] || return
    echo "tests: $name failed, and the machine had stood still for $lasted ms: it is run again"
  done <"$work/failed"
}

meter=
[ -z "${EPOCHREALTIME:-}" ] || { measure & meter=$!; }
names=()
limit=
while [ -z "$limit" ] || [ $SECONDS -lt "$limit" ]; do
  for noted in stops failed reports passed targets said; do : >"$work/$noted"; done
  if "${CARGO:-cargo}" test --locked --workspace --all-features --no-fail-fast "$@" \
    ${names[@]+-- --exact --test-threads=1 "${names[@]}"} 2>&1 | count; then
    passed=$(awk '{ sum += $1 } END { print sum + 0 }' "$work/passed")
    [ "$passed" -ge ${#names[@]} ] && exit 0
    echo "tests: only $passed of ${#names[@]} tests were found again" >&2
    exit 1
  fi
  if ! is_excused; then
    cat "$work/said"
    exit 1
  fi
  limit=${limit:-$((SECONDS + again_for))}
  mapfile -t names < <(cut -d' ' -f2 "$work/failed" | sort -u)
done
echo "tests: the machine stands still too often for these tests" >&2
exit 1
