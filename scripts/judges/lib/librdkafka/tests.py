"""tests.py list TEST.C                            prints the tests that ask a broker, from the table in test.c
tests.py results REPORTS LIST LIMIT REGEXP   prints the results of the tests in LIST that match. REPORTS has, for each
                                             number of a test, what the runner reported (NUMBER.json), its output (NUMBER.log) and its exit
                                             status (NUMBER.rc). LIMIT is what the reason says of one that was ended."""

import json
import pathlib
import re
import sys

# Sentences that say why a test failed or was skipped, in the runner's output.
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def tests(source):
    """The names in the table of tests, without those that need no broker (local) or a person (manual)."""
    table = source[source.index("struct test tests[]"):]
    for match in re.finditer(r"_TEST\((\d\w+),(.*?)\),\n(?=\s*(?:_TEST|/\*|#|\{|\n))", table, re.S):
        if not re.search(r"TEST_F_(LOCAL|MANUAL)\b", match[2]):
            yield match[1]


def reason(log, test):
    """What the runner said of a test that did not pass."""
    lines = [COLOURS.sub("", line) for line in log.splitlines()]
    for line in lines:
        if re.match(rf"\|\s*{test}\s+\|\s+(FAILED|SKIPPED)", line):
            text = line.split("|", 4)[-1].strip()
            if text:
                return text
    for i, line in enumerate(lines):
        if re.match(rf'### Test "{test}[" ].* failed at ', line):
            return " ".join(lines[i + 1:i + 2]) + " (" + line.removeprefix("### Test ").split(" at ")[1] + ")"
    words = [line for line in lines if test in line and ("FAIL" in line or "rror" in line or "SKIP" in line)]
    return words[-1] if words else (lines[-1] if lines else "")


def results(reports, listed, limit):
    """Yields the case, the result and the reason of each test."""
    for test in listed:
        number = test.split("_")[0]
        log = (reports / f"{number}.log").read_text(errors="replace")
        rc = int((reports / f"{number}.rc").read_text())
        try:
            state = json.loads((reports / f"{number}.json").read_text())["tests"][test]["state"]
        except (OSError, ValueError, KeyError):
            state = "" if rc else "SKIPPED"
        text = " ".join(reason(log, test).split())[:300]
        if state == "PASSED":
            yield test, "pass", ""
        elif state in ("SKIPPED", "NOTSTARTED") and rc == 0:
            yield test, "skip", text
        elif rc in (124, 137) and state not in ("FAILED",):
            yield test, "fail", f"did not end within {limit} s"
        else:
            yield test, "fail", text or f"ended with {rc}"


def main():
    if sys.argv[1] == "list":
        print(*tests(pathlib.Path(sys.argv[2]).read_text()), sep="\n")
        return
    reports, limit, wanted = pathlib.Path(sys.argv[2]), sys.argv[4], re.compile(sys.argv[5])
    listed = [test for test in pathlib.Path(sys.argv[3]).read_text().split() if wanted.search(test)]
    for row in results(reports, listed, limit):
        print(*row, sep="\t")


main()
