"""junit_results.py XML TSV   writes the results that pytest left as JUnit XML."""

import pathlib
import sys
import xml.etree.ElementTree


def main():
    with pathlib.Path(sys.argv[2]).open("w") as out:
        for case in xml.etree.ElementTree.parse(sys.argv[1]).iter("testcase"):
            result, reason = "pass", ""
            for child in case:
                if child.tag in ("failure", "error"):
                    result, reason = "fail", child.get("message") or child.text or ""
                elif child.tag == "skipped" and result == "pass":
                    result, reason = "skip", child.get("message") or ""
            name = case.get("classname", "").rsplit(".", 1)[-1] + "." + case.get("name", "")
            out.write(f"{name}\t{result}\t{' '.join(reason.split())[:300]}\n")


main()
