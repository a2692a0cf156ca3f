"""table.py RESULTS EXPECTED JUDGE...   prints how many cases of each judge passed, and compares
them with the known failures. RESULTS/JUDGE/JUDGE.tsv and RESULTS/JUDGE/rc are what run.sh leaves
there; EXPECTED/JUDGE.txt has the known failures (README.md). Exits with 1 if a result differs from
what is known, or if a judge did not run."""

import os
import pathlib
import re
import sys

# From the worst to the best: of several lines of a case, the worst counts.
RESULTS = ("fail", "skip", "notasked", "pass")


def read_results(path):
    """Returns a dict of case to (result, reason), and a list of what is wrong in the file."""
    cases, wrong = {}, []
    if not path.is_file():
        return cases, [f"{path.name} was not written"]
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        fields = line.split("\t")
        if len(fields) == 2:
            fields.append("")
        if len(fields) != 3 or fields[1] not in RESULTS or not fields[0]:
            wrong.append(f"{path.name}:{number}: is no line 'case<TAB>{'|'.join(RESULTS)}<TAB>reason': {line!r}")
            continue
        case, result, reason = fields
        if result == "notasked" and not reason:
            wrong.append(f"{path.name}:{number}: {case} is not asked and has no reason")
        if case not in cases or RESULTS.index(result) < RESULTS.index(cases[case][0]):
            cases[case] = (result, reason)
    return cases, wrong


def read_expected(path):
    """Returns a dict of case to reason, and a list of what is wrong in the file."""
    cases, wrong = {}, []
    if not path.is_file():
        return cases, wrong
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        case, _, reason = (part.strip() for part in line.partition(" # "))
        if not reason:
            wrong.append(f"{path.name}:{number}: {case} has no reason: write 'case # reason'")
        if case in cases:
            wrong.append(f"{path.name}:{number}: {case} is listed twice")
        cases[case] = reason
    return cases, wrong


def differences(cases, expected, whole):
    """Yields a sentence for each case whose result is not the expected one. whole reports whether
    all cases of the judge were asked for."""
    for case, (result, reason) in sorted(cases.items()):
        known = expected.get(case)
        if result == "fail" and known is None:
            yield f"FAIL {case}: {reason}" if reason else f"FAIL {case}"
        if known is None or known.startswith("sometimes:"):
            continue
        if result == "pass":
            yield f"PASSES {case}: it is listed as a known failure ({known}); remove it from the list"
        if result in ("skip", "notasked"):
            yield f"STALE {case}: it is listed as a known failure and was not run ({result}); remove it from the list"
    for case in sorted(expected):
        if whole and case not in cases:
            yield f"STALE {case}: it is listed as a known failure, and the judge has no such case; remove it from the list"


def main():
    results, expected_dir = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    whole = not os.environ.get("CASES") and not os.environ.get("CLASSES")
    rows, failed = [], False
    for judge in sys.argv[3:]:
        rc, seconds = (results / judge / "rc").read_text().split()
        if rc == "77":
            rows.append((judge, "not run: something that it needs is not installed", "", "", "", "", seconds))
            failed = True
            continue
        cases, wrong = read_results(results / judge / f"{judge}.tsv")
        expected, more = read_expected(expected_dir / f"{judge}.txt")
        wrong += more
        if rc != "0":
            wrong.append(f"{judge}.sh ended with {rc}")
        if not cases:
            wrong.append("no case ran" if whole else "no case matches CASES or CLASSES")
        wrong += differences(cases, expected, whole)
        for text in wrong:
            print(f"{judge}: {re.sub(chr(10), ' ', text)}")
        failed = failed or bool(wrong)
        count = {result: sum(1 for found, _ in cases.values() if found == result) for result in RESULTS}
        known = sum(1 for case, (found, _) in cases.items() if found == "fail" and case in expected)
        rows.append((judge, count["pass"], known, count["fail"] - known, count["skip"], count["notasked"], seconds))
    print()
    print("| judge | passed | known failures | other failures | skipped by the suite | not asked | seconds |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    sys.exit(1 if failed else 0)


main()
