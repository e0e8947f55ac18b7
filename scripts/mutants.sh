#!/usr/bin/env bash
# Switches defences off, one at a time, and checks that the test named for each then fails.
#
#   scripts/mutants.sh                  every patch in mutants/
#   scripts/mutants.sh NAME…            these: a folder, which stands for a promise, or a file without .patch
#   scripts/mutants.sh --touched BASE   those whose file, or which themselves, changed since the commit BASE
#   scripts/mutants.sh --sample N       N of them: those that --touched names, then others. Each commit draws others
#   scripts/mutants.sh --within MINUTES begins no patch after so many minutes. What is left out is named, not a failure
#   scripts/mutants.sh --here           in this work tree, which must be clean, and its target folder, right after `make test`
#                                       has passed: no test is run without a patch first
#   scripts/mutants.sh --list           only says what each would break, where, and the test that notices
#   scripts/mutants.sh --check          only says which do not apply to the files as they are here; applies and builds nothing
#
# A patch is a diff below a header of `what:`, `function:` (what it changes: `Type::function`, or the name of a script),
# `package:`, `target:` (arguments that choose the test binary, such as `--lib`) and `test:` (its full name). It is applied
# to a work tree of the last commit, so uncommitted changes do not count; the test must pass there first. For that each
# test binary is built and run once; then each patch builds the one binary of its test.
#
# Builds and the work tree go to MUTANTS_TARGET (default: target/mutants), which must not be the target folder of another
# work tree: cargo would take the one's binaries for the other's. A new one begins with the dependencies that were built
# in CARGO_TARGET_DIR. Later runs build what has changed since.
# Ends with 1 when a mutant survives, a patch does not apply or build, or a test fails without one.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
root=$PWD
export RUST_BACKTRACE=0
limit=${MUTANT_SECONDS:-180}

field() { sed -n "s/^$2: *//p;/^diff /q" "$1" | head -1; }
files() { sed -n 's|^+++ b/||p' "$1"; }
# What one build and one list of tests serve.
binary() { echo "$(field "$1" package) $(field "$1" target)"; }

list=false check=false in_place=false base='' sample='' within=''
while [[ ${1:-} = --* ]]; do
  case $1 in
    --list) list=true ;;
    --check) check=true ;;
    --here) in_place=true ;;
    --touched)
      base=$(git rev-parse --verify --quiet "${2:-}^{commit}") || { echo "no such commit: ${2:-}" >&2; exit 1; }
      shift ;;
    --sample | --within)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || { echo "$1 needs a number" >&2; exit 1; }
      [ "$1" = --sample ] && sample=$2 || within=$2
      shift ;;
    *) echo "no such option: $1; the head of this file has them all" >&2; exit 1 ;;
  esac
  shift
done

# `make check` also runs where little is there: a macOS has bash 3.2.
if ! command -v git >/dev/null; then
  $check && { echo "mutants: SKIPPED, since git is missing: install it to see which patches apply"; exit 0; }
  echo "git is missing: install it" >&2; exit 1
fi
if ! $check; then
  { [ "${BASH_VERSINFO[0]}" -ge 4 ] && command -v flock && command -v timeout; } >/dev/null ||
    { echo "a run needs bash 4 or newer, flock and timeout (brew install bash flock coreutils)" >&2; exit 1; }
fi

patches=()
for name in "${@:-*}"; do
  found=()
  while IFS= read -r patch; do found+=("$patch"); done < \
    <(find mutants -path "mutants/$name.patch" -o -path "mutants/$name/*.patch" -o -path "mutants/*/$name.patch" | sort)
  [ ${#found[@]} -gt 0 ] || { echo "neither a folder nor a patch of mutants/: $name" >&2; exit 1; }
  patches+=("${found[@]}")
done

# The functions that a patch names exist in the files that it changes.
names_its_function() {
  local word file files=() names
  while IFS= read -r file; do files+=("$file"); done < <(files "$1")
  names=$(field "$1" function)
  for word in ${names//[^A-Za-z0-9_.]/ }; do
    [[ " ${files[*]##*/} " = *" $word "* ]] || grep -qwF "$word" "${files[@]}" 2>/dev/null || return 1
  done
}
incomplete=false
for patch in "${patches[@]}"; do
  for name in what function package target test; do
    [ -n "$(field "$patch" "$name")" ] || { echo "$patch: add \`$name:\` to its header" >&2; incomplete=true; }
  done
done
$incomplete && exit 1

# The others in the order of their binaries, so that neighbours share a build; the number of commits says where to begin.
rotated() {
  local order=() first
  mapfile -t order < <(for patch in "$@"; do printf '%s\t%s\n' "$(binary "$patch")" "$patch"; done | sort | cut -f 2)
  [ ${#order[@]} -gt 0 ] || return 0
  first=$(($(git rev-list --count HEAD) * ${sample:-0} % ${#order[@]}))
  printf '%s\n' "${order[@]:first}" "${order[@]:0:first}"
}
touched=() others=()
changed=$([ -z "$base" ] || git diff --name-only "$base")
for patch in "${patches[@]}"; do
  # Not a pipe: grep ends at the first match, and then the pipe fails for who still writes.
  if [ -z "$base" ] || grep -qxF "$changed" < <(echo "$patch"; files "$patch"); then touched+=("$patch")
  else others+=("$patch"); fi
done
if [ -n "$sample" ]; then
  mapfile -t patches < <(rotated "${touched[@]}"; rotated "${others[@]}")
  left=()
  for patch in "${patches[@]:sample}"; do
    [ -n "$base" ] && [[ " ${touched[*]} " = *" $patch "* ]] && left+=("$(basename "$patch" .patch)")
  done
  [ ${#left[@]} -eq 0 ] || echo "${#left[@]} were touched as well, and are left out: ${left[*]}"
  patches=("${patches[@]:0:sample}")
else
  patches=("${touched[@]}")
  [ ${#patches[@]} -gt 0 ] || { echo "no defence was touched since $base"; exit 0; }
fi

for patch in "${patches[@]}"; do
  $list && printf '%-34s %s\n%-34s %s\n%-34s %s\n' "$(basename "$patch" .patch)" "$(field "$patch" what)" \
    '' "$(field "$patch" function)" '' "$(field "$patch" test)"
done
$list && exit 0
if $check; then
  failed=0
  for patch in "${patches[@]}"; do
    git apply --check --recount "$patch" || { echo "$patch does not apply: make it again" >&2; failed=1; }
    names_its_function "$patch" || { echo "$patch: its files have no $(field "$patch" function)" >&2; failed=1; }
  done
  exit $failed
fi

built=$(realpath -m "${CARGO_TARGET_DIR:-target}")
if $in_place; then
  git diff --quiet HEAD || { echo "--here would undo your changes: commit or stash them" >&2; exit 1; }
  export CARGO_TARGET_DIR=$built
else
  # Nobody debugs them, and most of the time goes into building, of which an incremental build repeats little.
  export CARGO_TARGET_DIR=${MUTANTS_TARGET:-$root/target/mutants} CARGO_PROFILE_DEV_DEBUG=none CARGO_INCREMENTAL=1
fi
mkdir -p "$CARGO_TARGET_DIR"
exec 9>"$CARGO_TARGET_DIR/.mutants"
flock --nonblock 9 || { echo "another run uses $CARGO_TARGET_DIR: set MUTANTS_TARGET" >&2; exit 1; }
log=$CARGO_TARGET_DIR/mutants.log
# One path for all runs: what was built for it before need not be built again.
if $in_place; then tree=$root; else tree=$CARGO_TARGET_DIR/tree; fi
trap 'git -C "$tree" checkout --quiet -- . 2>/dev/null' EXIT
trap 'exit 1' INT TERM
if ! $in_place; then
  if [ ! -e "$CARGO_TARGET_DIR/debug" ] && [ -d "$built/debug" ]; then
    mkdir "$CARGO_TARGET_DIR/debug"
    (cd "$built/debug" && find .fingerprint build deps -mindepth 1 -maxdepth 1 ! -name '*stockade*' ! -name '*inventory*' \
      -print0 | tar --create --null --files-from - | tar --extract --directory "$CARGO_TARGET_DIR/debug")
  fi
  git worktree prune
  commit=$(git rev-parse HEAD)
  if [ -e "$tree/.git" ]; then git -C "$tree" checkout --quiet --force --detach "$commit" || exit 1
  else git worktree add --quiet --force --detach "$tree" "$commit" || exit 1; fi
fi
cd "$tree" || exit 1

# Sets the command that chooses the test binary of a patch.
choose() {
  read -ra command <<<"$(field "$1" target)"
  command=(cargo test --locked -p "$(field "$1" package)" --all-features "${command[@]}")
}
build() { "${command[@]}" --no-run >"$log" 2>&1 9>&-; }
run() { timeout --kill-after=10 "$1" "${command[@]}" -- --exact "${@:2}" >"$log" 2>&1 9>&-; }

failed=0
row() { printf '%-34s %-10s %4s + %3s s  %s\n' "$1" "$2" "$3" "$4" "$5"; }
problem() { failed=1; tail -n 25 "$log" | sed 's/^/    /'; }

# Builds a binary and runs its tests without any patch, all at once; what does not pass there runs once more by itself.
declare -A passes
run_unpatched() {
  local began=$SECONDS test
  build || { row "(none)" "NO BUILD" $((SECONDS - began)) 0 "${command[*]}"; problem; exit 1; }
  local built=$((SECONDS - began))
  run $((limit * 3)) "$@"
  for test in "$@"; do grep -qF "test $test ... ok" "$log" && passes[$test]=yes; done
  for test in "$@"; do
    [ -n "${passes[$test]:-}" ] && continue
    run "$limit" "$test" && grep -q '^running 1 test' "$log" && passes[$test]=yes && continue
    if grep -q '^running 0 tests' "$log"; then row "(none)" "NO TEST" 0 0 "$test"; else row "(none)" FAILS 0 0 "$test"; fi
    problem
  done
  row "(none)" "" $built $((SECONDS - began - built)) "$# tests"
}

mapfile -t binaries < <(for patch in "${patches[@]}"; do binary "$root/$patch"; done | sort -u)
killed=0 tried=0
for binary in "${binaries[@]}"; do
  here=() tests=()
  for patch in "${patches[@]}"; do
    [ "$(binary "$root/$patch")" = "$binary" ] || continue
    here+=("$patch"); tests+=("$(field "$root/$patch" test)")
  done
  choose "$root/${here[0]}"
  mapfile -t tests < <(printf '%s\n' "${tests[@]}" | sort -u)
  if $in_place; then for test in "${tests[@]}"; do passes[$test]=yes; done
  elif [ -z "$within" ] || [ $SECONDS -lt $((within * 60)) ]; then run_unpatched "${tests[@]}"; fi
  for patch in "${here[@]}"; do
    name=$(basename "$patch" .patch) test=$(field "$root/$patch" test)
    if [ -n "$within" ] && [ $SECONDS -ge $((within * 60)) ]; then echo "left out for lack of time: $patch"; continue; fi
    tried=$((tried + 1))
    [ -n "${passes[$test]:-}" ] || { row "$name" UNKNOWN 0 0 "$test"; continue; }
    if ! git apply --recount "$root/$patch" >"$log" 2>&1; then row "$name" "NO PATCH" 0 0 "$test"; problem; continue; fi
    began=$SECONDS
    if ! build; then row "$name" "NO BUILD" $((SECONDS - began)) 0 "$test"; problem
    else
      built=$((SECONDS - began))
      if run "$limit" "$test"; then result=SURVIVED failed=1; else result=killed killed=$((killed + 1)); fi
      row "$name" $result $built $((SECONDS - began - built)) "$test"
    fi
    git checkout --quiet -- .
  done
done
echo "$killed of $tried mutants killed in $SECONDS s"
exit $failed
