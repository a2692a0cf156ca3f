#!/usr/bin/env bash
# sarama's functional tests: five brokers behind toxiproxy. The suite fixes the ports of the proxies. It stops and starts
# brokers with docker, for which lib/sarama/docker stands.
. "$(dirname "${BASH_SOURCE[0]}")/lib/lib.sh"
go_module github.com/IBM/sarama v1.61.1
toxiproxy="$cache/toxiproxy-v2.5.0"
if [ ! -x "$toxiproxy/server" ]; then
  (cd "$work" && GOBIN="$toxiproxy" CGO_ENABLED=0 GOFLAGS=-mod=mod go install github.com/Shopify/toxiproxy/v2/cmd/server@v2.5.0) >"$work/toxiproxy.log" 2>&1 ||
    { tail -n 3 "$work/toxiproxy.log" >&2; missing "toxiproxy could not be built: does this machine reach a Go module proxy?"; }
fi
PROXIED=29091
for port in $(seq $PROXIED $((PROXIED + 4))); do
  ! (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null || missing "port $port, which the suite needs, is taken"
done
if [ -n "${BROKERS:-}" ]; then listener=(${BROKERS//,/ }); listener=("${listener[@]#*:}"); fi
brokers 5 --set auto.create.topics.enable=false --set default.replication.factor=2
read -r api < <(ports 1)
start "$OUT/toxiproxy.log" "$toxiproxy/server" -host 127.0.0.1 -port "$api"
within 60 "the start of toxiproxy" curl -fsS --max-time 5 "http://127.0.0.1:$api/version"
for i in 1 2 3 4 5; do
  curl -fsS --max-time 5 -X POST "http://127.0.0.1:$api/proxies" -d \
    "{\"name\": \"kafka$i\", \"listen\": \"127.0.0.1:$((PROXIED + i - 1))\", \"upstream\": \"127.0.0.1:${listener[i - 1]}\", \"enabled\": true}" \
    >/dev/null || broken "toxiproxy refused the proxy of broker $i" "$OUT/toxiproxy.log"
done
export TOXIPROXY_ADDR="http://127.0.0.1:$api" KAFKA_VERSION=4.3.1 BROKER_PIDS="$work/pids" BROKER_LOGS="$OUT" PATH="$lib/sarama:$PATH"
go_suite . 1500 -tags functional -test.skip '^(Benchmark|Fuzz)'
python3 "$lib/go_asked.py" "$dir" setupFunctionalTest FunctionalTestEnv >"$work/asked"
python3 "$lib/go_results.py" "$OUT/$name.json" "$work/list" "$OUT/$name.tsv" "$work/asked"
