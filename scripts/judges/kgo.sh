#!/usr/bin/env bash
# franz-go's tests of kgo that ask a broker. KGO_TEST_RECORDS bounds the records of the tests that pass them
# through several groups or transactions (the suite's default is 500,000).
. "$(dirname "${BASH_SOURCE[0]}")/lib/lib.sh"
go_module github.com/twmb/franz-go v1.22.3
brokers 3
export KGO_SEEDS="$BROKERS" KGO_TEST_RECORDS="${KGO_TEST_RECORDS:-50000}" KGO_LOG_LEVEL=none
go_suite pkg/kgo 1200
python3 "$lib/go_asked.py" "$dir/pkg/kgo" getSeedBrokers scramSeeds oauthSeeds >"$work/asked"
python3 "$lib/go_results.py" "$OUT/$name.json" "$work/list" "$OUT/$name.tsv" "$work/asked"
