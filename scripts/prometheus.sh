#!/usr/bin/env bash
# prometheus.sh          checks deploy/prometheus: promtool reads the configuration
#                        and the rules, and the tests of every alert pass.
# prometheus.sh live     also starts three brokers of a cluster and a Prometheus that
#                        scrapes them, loads them for some seconds, and runs every
#                        query of the rules and of deploy/grafana against what was
#                        scraped: a name that a broker does not export is an error,
#                        and so is a query that finds nothing although the load
#                        should show.
#                        At last a Prometheus with secured.yml scrapes a broker of
#                        `chronikd secure init`.
# Takes promtool and prometheus from the PATH, else out of Debian's package, which
# is unpacked into .cache and not installed: no service is started.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

PATH="$PATH:$PWD/.cache/prometheus/usr/bin"
if ! command -v promtool >/dev/null; then
  command -v apt-get >/dev/null || { echo "promtool is missing: install Prometheus"; exit 1; }
  mkdir -p .cache/prometheus
  cd .cache/prometheus
  apt-get download -qq prometheus >/dev/null 2>&1 || { apt-get update -qq && apt-get download -qq prometheus; } ||
    { echo "promtool is missing, and apt-get download prometheus fails"; exit 1; }
  dpkg -x prometheus_*.deb .
  rm prometheus_*.deb
  cd ../..
fi

(
  cd deploy/prometheus
  promtool check config prometheus.yml >/dev/null
  promtool test rules rules_test.yml
  sed -n 's/.*- alert: //p' rules.yml | while read -r alert; do
    [ "$(grep -c "alertname=\"$alert\",alertstate=\"firing\"}'$" rules_test.yml)" = 2 ] || { echo "$alert: rules_test.yml must say when it fires and when it does not"; exit 1; }
    grep -q "^ *- {labels: '{alertname=\"$alert\"}', value: 1}$" rules_test.yml || { echo "$alert: rules_test.yml must say that it stays for a day"; exit 1; }
    grep -q "^        alertname: $alert$" rules_test.yml ||
      { echo "$alert: rules_test.yml must compare its labels and annotations after a day"; exit 1; }
  done
)
[ "${1:-}" = live ] || exit 0

# ---- brokers under load, and a Prometheus that scrapes them ------------------------
command -v kcat >/dev/null || { echo "kcat is missing (Debian: kcat)"; exit 1; }
for bin in chronikd chronikctl chronik-bench; do [ -x "bin/$bin" ] || { echo "bin/$bin is missing: make build"; exit 1; }; done
work="$(mktemp -d "${TMPDIR:-/tmp}/chronik-prometheus.XXXXXX")"
pids=()
finish() {
  local rc=$?
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  [ "$rc" = 0 ] || tail -n 5 "$work"/*.log || true
  rm -rf "$work"
  exit "$rc"
}
trap finish EXIT
until_true() {
  for _ in $(seq 300); do
    if "$@" >/dev/null 2>&1; then return 0; fi
    sleep 0.2
  done
  echo "never: $*"
  exit 1
}
read -r -a ports < <(python3 scripts/free-ports.py 7)
web="127.0.0.1:${ports[0]}" seeds=() admins=()
for i in 1 2 3; do
  seeds+=("127.0.0.1:${ports[i]}")
  admins+=("127.0.0.1:${ports[i + 3]}")
done
kafka="$(IFS=,; echo "${seeds[*]}")"
for i in 0 1 2; do
  bin/chronikd --data-dir "$work/data$i" --listen "${seeds[i]}" --admin-listen "${admins[i]}" --set cluster.name=test \
    --set node.id=$((i + 1)) --set cluster.seeds="$kafka" 2>"$work/chronikd$i.log" &
  pids+=($!)
done
for at in "${admins[@]}"; do until_true bin/chronikd health --admin-listen "$at"; done

cp deploy/prometheus/rules.yml "$work/"
sed 's/15s/1s/' deploy/prometheus/prometheus.yml >"$work/prometheus.yml"
echo "- targets: [$(IFS=,; echo "${admins[*]}")]" >"$work/targets.yml"
prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/tsdb" --web.listen-address="$web" --log.level=warn >"$work/prometheus.log" 2>&1 &
pids+=($!)

# Writing, reading, a group with a lag, a request that fails, a cut connection.
bench() { bin/chronik-bench --bootstrap-servers "$kafka" "$@" >>"$work/bench.log" 2>&1; }
bench --create-topic --topic load --partitions 3 -c 8 -d 12s --warmup 0s --topic-config segment.bytes=1048576 &
load=$!
sleep 3
kcat -b "$kafka" -q -G watchers load >/dev/null 2>"$work/kcat.log" &
pids+=($!)
bench --mode consume --topic load -c 2 -d 5s --warmup 0s
bin/chronikctl --brokers "$kafka" consume nothing-there >/dev/null 2>&1 || true
wait "$load"
until_true curl -fs "http://$web/-/ready"

# All of it shows some scrapes, evaluations and commits later: what a minute does not
# bring is missing, and an alert that fires is wrong at once.
right=
for _ in $(seq 30); do
  sleep 2
  for at in "${admins[@]}"; do curl -fs "http://$at/metrics"; done >"$work/metrics"
  if python3 scripts/queries.py "http://$web" "$work/metrics" >"$work/queries"; then right=yes; break; fi
  if grep -q ' fires on a healthy broker$' "$work/queries"; then break; fi
done
cat "$work/queries"
[ -n "$right" ]

# ---- a broker of `secure init`, and a Prometheus with its token --------------------
read -r -a ports < <(python3 scripts/free-ports.py 3)
web="127.0.0.1:${ports[0]}"
bin/chronikd secure init "$work/secure" --no-context --advertise "localhost:${ports[1]}" <<<"a password of $RANDOM" >/dev/null
bin/chronikd --config "$work/secure/chronikd.yaml" --admin-listen "localhost:${ports[2]}" 2>"$work/secured.log" &
pids+=($!)
sed "s/15s/1s/; s#/var/lib/chronik/secure#$work/secure#" deploy/prometheus/secured.yml >"$work/prometheus.yml"
echo "- targets: [\"localhost:${ports[2]}\"]" >"$work/targets.yml"
prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/secured" --web.listen-address="$web" --log.level=warn >"$work/prometheus.log" 2>&1 &
pids+=($!)
scraped() { curl -fs "http://$web/api/v1/query?query=up" | grep -q '"1"\]'; }
until_true scraped
