# Sourced by judges that are tests of Rust crates, after lib.sh.

# crate NAME VERSION [DEPENDENCY VERSION]...   sets dir to a copy of the sources of a crate. It builds with the dependencies of its
# own lock file, except for those that are named: a newer compiler may refuse an old version.
crate() {
  local found crate="$1" version="$2"
  shift 2
  need cargo python3
  dir="$cache/$crate-$version"
  [ ! -e "$dir/Cargo.toml" ] || return 0
  mkdir -p "$work/fetch/src"
  touch "$work/fetch/src/lib.rs"
  printf '[package]\nname = "fetch"\nversion = "0.1.0"\nedition = "2021"\n[workspace]\n[dependencies]\n%s = "=%s"\n' "$crate" "$version" >"$work/fetch/Cargo.toml"
  found="$(cd "$work/fetch" && cargo metadata --format-version 1 2>"$work/cargo.log" |
    python3 -c 'import json, os, sys; print(*(os.path.dirname(p["manifest_path"]) for p in json.load(sys.stdin)["packages"] if p["name"] == sys.argv[1]))' "$crate" 2>/dev/null)"
  [ -d "$found" ] || { tail -n 3 "$work/cargo.log" >&2; missing "$crate $version could not be fetched: does this machine reach a registry of crates?"; }
  rm -rf "$dir.new"
  cp -r "$found" "$dir.new"
  chmod -R u+w "$dir.new"
  rm -f "$dir.new"/rust-toolchain* # the crate builds with the compiler that is installed
  while [ $# -gt 0 ]; do
    (cd "$dir.new" && cargo update "$1" --precise "$2") >"$work/cargo.log" 2>&1 || broken "$crate does not accept $1 $2" "$work/cargo.log"
    shift 2
  done
  mv "$dir.new" "$dir"
}

# cargo_build TESTS [CARGO-FLAG...]   builds the integration tests TESTS (names of files in tests/, separated by spaces) of the crate
# in dir. Without debug information they are a third as large.
cargo_build() {
  tests="$1"
  shift
  (cd "$dir" && CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR="$dir/target" cargo test --locked --no-run --message-format json "$@" $(printf -- '--test %s ' $tests)) \
    >"$work/programs.json" 2>"$work/build.log" && return 0
  python3 -c '
import json, sys
for line in open(sys.argv[1]):
    message = json.loads(line).get("message", {})
    if message.get("level") == "error":
        print(message["rendered"])' "$work/programs.json" >>"$work/build.log"
  broken "the suite does not build" "$work/build.log"
}

# cargo_suite SECONDS   runs what cargo_build has built, and writes the results. SECONDS bounds each file.
cargo_suite() {
  local limit="$1" test program
  for test in $tests; do
    program="$(python3 -c '
import json, sys
for line in open(sys.argv[1]):
    found = json.loads(line)
    if found.get("executable") and found["target"]["name"] == sys.argv[2]:
        print(found["executable"])' "$work/programs.json" "$test")"
    [ -x "$program" ] || broken "cargo built no tests $test" "$work/build.log"
    (cd "$dir" && "$program" --list --format terse </dev/null | sed -n 's/: test$//p') | grep -E -- "${CASES:-.}" >"$work/list"
    [ -s "$work/list" ] || continue
    cd "$dir" || exit 1
    bounded "$limit" "$program" --test-threads 2 --exact $(cat "$work/list") >"$OUT/$test.log" 2>&1 </dev/null
    cd "$work" || exit 1
    python3 "$lib/cargo_results.py" "$test" "$OUT/$test.log" "$work/list" "$limit" >>"$OUT/$name.tsv"
  done
}
