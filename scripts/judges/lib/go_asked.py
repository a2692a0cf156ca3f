"""go_asked.py DIR FUNCTION...   prints the tests of the Go package in DIR that call one of the functions or use one of the
variables, directly or through other functions of the package's tests."""

import pathlib
import re
import sys


def main():
    uses = {}
    for path in pathlib.Path(sys.argv[1]).glob("*_test.go"):
        for match in re.finditer(r"^func (?:\([^)]*\) )?(\w+)[(\[].*?^}", path.read_text(), re.M | re.S):
            uses.setdefault(match[1], set()).update(re.findall(r"\w+", match[0][match.end(1) - match.start():]))
    reach = set(sys.argv[2:])
    while True:
        more = {name for name, words in uses.items() if name not in reach and words & reach}
        if not more:
            break
        reach |= more
    print(*sorted(name for name in reach if name.startswith("Test") and name != "TestMain"), sep="\n")


main()
