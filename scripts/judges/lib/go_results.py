"""go_results.py JSON LIST TSV [ASKED]   writes the results of Go tests: JSON is what go tool test2json wrote,
LIST has the names of all tests. Of a test with subtests only the subtests are cases, unless it failed
by itself. With ASKED, a file of names, only those tests are cases: the others ask no broker."""

import json
import pathlib
import re
import sys

# Watermill names its subtests by random UUIDs.
UUID = re.compile(r"/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def reason(lines):
    """The lines that a test itself logged, without those of the framework."""
    kept = [line.strip() for line in lines]
    kept = [line for line in kept if line and not line.startswith(("=== ", "--- ", "PASS", "FAIL"))]
    ends = [line for line in kept if "_test.go:" in line or "Error:" in line or line.startswith("panic:")] or kept
    return " ".join(" ".join(ends[-3:]).split())[:300]


def main():
    source, names, target = (pathlib.Path(arg) for arg in sys.argv[1:4])
    asked = set(pathlib.Path(sys.argv[4]).read_text().split()) if len(sys.argv) > 4 else None
    found, output = {}, {}
    for line in source.read_text(errors="replace").splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        test = event.get("Test")
        if test is None:
            continue
        action = event.get("Action")
        if action == "output":
            output.setdefault(test, []).append(event.get("Output", ""))
        elif action == "run":
            found.setdefault(test, "")
        elif action in ("pass", "fail", "skip"):
            found[test] = action
    for test in names.read_text().split():
        found.setdefault(test, "never")
    parents = {test.rsplit("/", 1)[0] for test in found if "/" in test}
    failed = {test for test, result in found.items() if result not in ("pass", "skip")}
    with target.open("w") as out:
        for test, result in sorted(found.items()):
            if asked is not None and test.split("/")[0] not in asked:
                continue
            if test in parents and (result in ("pass", "skip") or any(other.startswith(test + "/") for other in failed)):
                continue
            text = {"": "did not end", "never": "did not run: the suite ended before it", "pass": ""}.get(result)
            if text is None:
                text = reason(output.get(test, []))
            out.write(f"{UUID.sub('', test)}\t{result if result in ('pass', 'skip') else 'fail'}\t{text}\n")


main()
