"""apply.py EVENTS TABLE [once]   applies the events of Debezium in EVENTS (a line each: key, tab, value) to an empty table, and
compares it with TABLE (a row a line, columns separated by |). With once, an event that is there twice is a failure, too."""

import json
import pathlib
import sys


def main():
    rows, seen, twice, events = {}, set(), 0, 0
    for line in pathlib.Path(sys.argv[1]).read_text().splitlines():
        key, _, value = line.partition("\t")
        if not value:  # the tombstone behind a deletion
            continue
        event = json.loads(value)
        events += 1
        place = (event["op"], event["source"]["lsn"], event["source"]["txId"], key, json.dumps(event["after"], sort_keys=True))
        twice += place in seen
        seen.add(place)
        row = json.loads(key)["id"]
        if event["op"] == "d":
            rows.pop(row, None)
        else:
            after = event["after"]
            rows[row] = f"{after['id']}|{after['amount']}|{after['note']}"
    want = pathlib.Path(sys.argv[2]).read_text().splitlines()
    got = [rows[row] for row in sorted(rows)]
    print(f"{events} events make {len(got)} rows, the table has {len(want)}; {twice} events are there twice")
    if got != want or (len(sys.argv) > 3 and twice):
        sys.exit(1)


main()
