#!/usr/bin/env bash
# Switches defences off, one at a time, and checks that the test named for each then fails.
#
#   scripts/mutants.sh                  every patch in mutants/
#   scripts/mutants.sh NAME…            these: a folder, which stands for a promise, or a file without .patch
#   scripts/mutants.sh --touched BASE   those whose file, or which themselves, changed since the commit BASE
#   scripts/mutants.sh --list           says what each breaks, and the test that notices
#   scripts/mutants.sh --check          only says which do not apply to the files as they are here; applies and builds nothing
#
# A patch is a diff below a header of `what:`, `package:`, `target:` (arguments that choose the test binary, such as
# `--lib`) and `test:` (its full name). It is applied to a work tree of the last commit, so uncommitted changes do not
# count; the test must pass there first. Builds go to MUTANTS_TARGET (default: target/mutants), which must not be the
# target folder of another work tree: cargo would take the one's binaries for the other's.
# Ends with 1 when a mutant survives, a patch does not apply or build, or a test fails without one.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD
export CARGO_TARGET_DIR=${MUTANTS_TARGET:-$root/target/mutants} RUST_BACKTRACE=0
# Nobody debugs them, and most of the time goes into building.
export CARGO_PROFILE_DEV_DEBUG=none
limit=${MUTANT_SECONDS:-180}

field() { sed -n "s/^$2: *//p;/^diff /q" "$1" | head -1; }

list=false check=false base=
while [[ ${1:-} = --* ]]; do
  case $1 in
    --list) list=true ;;
    --check) check=true ;;
    --touched)
      base=$(git rev-parse --verify --quiet "${2:-}^{commit}") || { echo "no such commit: ${2:-}" >&2; exit 1; }
      shift ;;
    *) echo "no such option: $1; the head of this file has them all" >&2; exit 1 ;;
  esac
  shift
done
patches=()
for name in "${@:-*}"; do
  mapfile -t found < <(find mutants -path "mutants/$name.patch" -o -path "mutants/$name/*.patch" -o -path "mutants/*/$name.patch" | sort)
  [ ${#found[@]} -gt 0 ] || { echo "neither a folder nor a patch of mutants/: $name" >&2; exit 1; }
  patches+=("${found[@]}")
done
if [ -n "$base" ]; then
  changed=$(git diff --name-only "$base") kept=()
  for patch in "${patches[@]}"; do
    { echo "$patch"; sed -n 's|^+++ b/||p' "$patch"; } | grep -qxF "$changed" && kept+=("$patch")
  done
  patches=("${kept[@]}")
  [ ${#patches[@]} -gt 0 ] || { echo "no defence was touched since $base"; exit 0; }
fi
for patch in "${patches[@]}"; do
  for name in what package target test; do
    [ -n "$(field "$patch" "$name")" ] || { echo "$patch: no \`$name:\` in its header" >&2; exit 1; }
  done
  $list && printf '%-34s %s\n%-34s %s\n' "$(basename "$patch" .patch)" "$(field "$patch" what)" '' "$(field "$patch" test)"
done
$list && exit 0
if $check; then
  failed=0
  for patch in "${patches[@]}"; do
    git apply --check --recount "$patch" || { echo "$patch does not apply: make it again" >&2; failed=1; }
  done
  exit $failed
fi

tree=$(mktemp -d "${TMPDIR:-/tmp}/stockade-mutants.XXXXXX")
log=$tree.log
trap 'git worktree remove --force "$tree" 2>/dev/null; rm -rf "$tree" "$log"' EXIT
trap 'exit 1' INT TERM
git worktree add --quiet --detach "$tree" HEAD || exit 1
cd "$tree"

# Builds, then runs exactly one test. 0: it passed, 1: it failed, 2: it does not build, 3: there is no such test.
attempt() {
  read -ra target <<<"$(field "$1" target)"
  local build=(cargo test --locked --quiet -p "$(field "$1" package)" --all-features "${target[@]}")
  "${build[@]}" --no-run >"$log" 2>&1 || return 2
  timeout --kill-after=10 "$limit" "${build[@]}" -- --exact "$(field "$1" test)" >"$log" 2>&1
  local status=$?
  if [ $status -eq 0 ]; then grep -q '^running 1 test' "$log" || return 3; return 0; fi
  return 1
}

failed=0
row() { printf '%-34s %-10s %5s s  %s\n' "$1" "$2" "$3" "$4"; }
problem() { failed=1; tail -n 25 "$log" | sed 's/^/    /'; }
declare -A passes
for patch in "${patches[@]}"; do
  patch=$root/$patch
  key="$(field "$patch" package) $(field "$patch" target) $(field "$patch" test)"
  [ -n "${passes[$key]:-}" ] && continue
  SECONDS=0
  attempt "$patch"
  case $? in
    0) passes[$key]=yes ;;
    2) row "(none)" "NO BUILD" $SECONDS "$key"; problem; exit 1 ;;
    3) row "(none)" "NO TEST" $SECONDS "$key"; passes[$key]=no; failed=1 ;;
    *) row "(none)" FAILS $SECONDS "$key"; passes[$key]=no; problem ;;
  esac
done

killed=0
for patch in "${patches[@]}"; do
  patch=$root/$patch
  name=$(basename "$patch" .patch) test=$(field "$patch" test)
  SECONDS=0
  if ! git apply --recount "$patch" >"$log" 2>&1; then
    row "$name" "NO PATCH" 0 "$test"; problem
    continue
  fi
  attempt "$patch"
  case $? in
    0) row "$name" SURVIVED $SECONDS "$test"; failed=1 ;;
    1) row "$name" killed $SECONDS "$test"; killed=$((killed + 1)) ;;
    2) row "$name" "NO BUILD" $SECONDS "$test"; problem ;;
    *) row "$name" "NO TEST" $SECONDS "$test"; failed=1 ;;
  esac
  git checkout --quiet -- .
done
echo "$killed of ${#patches[@]} mutants killed"
exit $failed
