# Sourced by judges that are tests of Rust crates, after lib.sh.

# crate NAME VERSION   sets dir to a copy of the sources of a crate.
crate() {
  local found
  need cargo python3
  dir="$cache/$1-$2"
  [ ! -e "$dir/Cargo.toml" ] || return 0
  mkdir -p "$work/fetch/src"
  touch "$work/fetch/src/lib.rs"
  printf '[package]\nname = "fetch"\nversion = "0.1.0"\nedition = "2021"\n[workspace]\n[dependencies]\n%s = "=%s"\n' "$1" "$2" >"$work/fetch/Cargo.toml"
  found="$(cd "$work/fetch" && cargo metadata --format-version 1 2>"$work/cargo.log" |
    python3 -c 'import json, os, sys; print(*(os.path.dirname(p["manifest_path"]) for p in json.load(sys.stdin)["packages"] if p["name"] == sys.argv[1]))' "$1" 2>/dev/null)"
  [ -d "$found" ] || { tail -n 3 "$work/cargo.log" >&2; missing "$1 $2 could not be fetched: does this machine reach a registry of crates?"; }
  cp -r "$found" "$dir.new"
  chmod -R u+w "$dir.new"
  rm -f "$dir.new"/rust-toolchain* # the crate builds with the compiler that is installed
  mv "$dir.new" "$dir"
}

# cargo_suite SECONDS TESTS [CARGO-FLAG...]   builds and runs the integration tests TESTS (names of files in tests/, separated by
# spaces) of the crate in dir, and writes the results. SECONDS bounds each file.
cargo_suite() {
  local limit="$1" tests="$2" test programs
  shift 2
  (cd "$dir" && CARGO_TARGET_DIR="$dir/target" cargo test --locked --no-run --message-format json "$@" $(printf -- '--test %s ' $tests)) \
    >"$work/programs.json" 2>"$work/build.log" || broken "the suite does not build" "$work/build.log"
  for test in $tests; do
    programs="$(python3 -c '
import json, sys
for line in open(sys.argv[1]):
    found = json.loads(line)
    if found.get("executable") and found["target"]["name"] == sys.argv[2]:
        print(found["executable"])' "$work/programs.json" "$test")"
    [ -x "$programs" ] || broken "cargo built no tests $test" "$work/build.log"
    (cd "$dir" && "$programs" --list --format terse </dev/null | sed -n 's/: test$//p') | grep -E -- "${CASES:-.}" >"$work/list"
    [ -s "$work/list" ] || continue
    cd "$dir" || exit 1
    bounded "$limit" "$programs" --test-threads 2 --exact $(cat "$work/list") >"$OUT/$test.log" 2>&1 </dev/null
    cd "$work" || exit 1
    python3 "$lib/cargo_results.py" "$test" "$OUT/$test.log" "$work/list" "$limit" >>"$OUT/$name.tsv"
  done
}
