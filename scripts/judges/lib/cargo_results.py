"""cargo_results.py SUITE LOG LIST LIMIT   prints the results of the tests in LIST from the output of Rust's test
runner. A test that printed that it skips itself is not one that passed. LIMIT is what the reason says of one that
did not end."""

import pathlib
import re
import sys


def main():
    suite, limit = sys.argv[1], sys.argv[4]
    log = pathlib.Path(sys.argv[2]).read_text(errors="replace")
    outputs = {m[1]: m[2] for m in re.finditer(r"^---- (\S+) std(?:out|err) ----\n(.*?)(?=^---- |^failures:|\Z)", log, re.M | re.S)}
    found = {m[1]: m[2] for m in re.finditer(r"^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored)", log, re.M)}
    for test in pathlib.Path(sys.argv[3]).read_text().split():
        result = {"ok": "pass", "FAILED": "fail", "ignored": "skip"}.get(found.get(test), "fail")
        reason = ""
        if test not in found:
            reason = f"did not end within {limit} s"
        elif result == "fail":
            words = [line.strip() for line in outputs.get(test, "").splitlines() if line.strip() and "RUST_BACKTRACE" not in line]
            start = next((i for i, line in enumerate(words) if "panicked at" in line), 0)
            reason = " ".join(words[start:start + 4])[:300]
        print(f"{suite}.{test}", result, reason, sep="\t")


main()
