# bench-tls.sh: the rows tls, logins and idletls of bench.sh, which sources it.
#
# Both brokers have three listeners (plain text, TLS, and TLS with SCRAM-SHA-512), the same server
# certificate (ECDSA P-256, of `chronikd secure init`), and the same user. The clients offer TLS 1.3
# with X25519 only; Kafka is limited to TLS_AES_128_GCM_SHA256, which Go's TLS chooses by itself.
# HEAP=1g is that of Kafka, in all three rows. CONNECTIONS=10000 are those of idletls.

tls="$work/tls" tls_user=admin tls_plain='' tls_addr='' tls_logins='' tls_kafka='' tls_kafka_pid=''

tls_files() { # the authority, the certificate and the user, once
  [ ! -d "$tls" ] || return 0
  "$chronikd" secure init "$tls" --advertise 127.0.0.1:9093 --no-context <<<bench-password >/dev/null || exit 1
  cat "$tls/server-key.pem" "$tls/server.pem" >"$tls/kafka.pem"
  (umask 077 && printf bench-password >"$tls/$tls_user.password")
  cat >"$tls/bench.yaml" <<YAML
listeners:
  - {name: plain, listen: "127.0.0.1:0"}
  - {name: tls, listen: "127.0.0.1:0", security: tls}
  - {name: logins, listen: "127.0.0.1:0", security: tls, sasl: [SCRAM-SHA-512]}
tls: {certificate: $tls/server.pem, key: $tls/server-key.pem}
bootstrap.users: $tls/users
max.connections: 20000
YAML
}

# tls_start replaces chronik and Kafka by those with TLS.
tls_start() {
  tls_files
  stop_chronik
  addr='' work_data="$work/tls-data"
  start_chronik --config "$tls/bench.yaml"
  IFS=' ' read -r tls_plain tls_addr tls_logins < <(sed -nE 's/.*"msg":"ready".*"listen":\[([^]]*)\].*/\1/p' "$work/chronikd.log" | tr -d '"' | tr , ' ')
  [ -n "$tls_logins" ] || { echo "bench: chronikd does not report three listeners"; exit 1; }
  if ! "$tools/kt" --classpath >/dev/null; then
    echo "NOT MEASURED: Kafka. chronik alone:"
    return 0
  fi
  local port="${KAFKA_PORT:-19392}" listeners
  tls_kafka=$((port + 10))
  listeners="PLAINTEXT://127.0.0.1:$tls_kafka,SSL://127.0.0.1:$((tls_kafka + 1)),SASL_SSL://127.0.0.1:$((tls_kafka + 2))"
  "$tools/up" --port "$tls_kafka" --dir "$work/kafka-tls" --heap "${HEAP:-1g}" -c "${housekeeping[0]}" \
    -c "listeners=$listeners,CONTROLLER://127.0.0.1:$((tls_kafka + 4))" -c "advertised.listeners=$listeners" \
    -c listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL \
    -c ssl.keystore.type=PEM -c "ssl.keystore.location=$tls/kafka.pem" -c ssl.enabled.protocols=TLSv1.3 \
    -c ssl.cipher.suites=TLS_AES_128_GCM_SHA256 -c sasl.enabled.mechanisms=SCRAM-SHA-512 \
    -c "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;" >/dev/null || exit 1
  tls_kafka_pid="$(cat "$work/kafka-tls/node1/pid")"
}

tls_stop() {
  stop_chronik
  [ ! -d "$work/kafka-tls" ] || "$tools/down" --dir "$work/kafka-tls" --wipe >/dev/null 2>&1
  tls_kafka='' tls_kafka_pid='' addr='' work_data=''
}

row_tls() {
  local kafka='' kafka_pid='' t load
  tls_start
  if [ -n "$tls_kafka" ]; then
    kafka="127.0.0.1:$((tls_kafka + 1))" kafka_pid="$tls_kafka_pid"
    # Its compiler needs some time under load, over TLS too.
    "$bench" --bootstrap-servers "$kafka" --tls-ca "$tls/ca.pem" --create-topic --delete-topic --topic "$(topic)" -d "${WARM_KAFKA:-15s}" --warmup 0s >/dev/null
  fi
  addr="$tls_addr"
  title "tls: 128 connections over TLS, one record of 256 B in flight each, acks=all"
  against --tls-ca "$tls/ca.pem" -c 128 -s 256
  title "tls: one kgo producer over TLS, 1 KiB, acks=all"
  against "${large[@]}" --tls-ca "$tls/ca.pem" --batched -s 1024
  t="$(topic)"
  fill "$tls_plain" "$t" 1024
  [ -z "$kafka" ] || fill "127.0.0.1:$tls_kafka" "$t" 1024
  load=(--tls-ca "$tls/ca.pem" --topic "$t" --create-topic=false --mode consume -s 1024 -c 1)
  title "tls: raw fetches of 4 MiB over TLS, warm, records of 1 KiB"
  against "${load[@]}" --clients own
  title "tls: a kgo consumer over TLS, warm, records of 1 KiB"
  against "${load[@]}" --clients batched
  title "tls: chronik, 128 connections over TLS beside plain text"
  "$bench" compare --a "$tls_addr" --name-a tls --set-a "tls-ca=$tls/ca.pem" --pid-a "$pid" --b "$tls_plain" --name-b plain --pid-b "$pid" \
    --rounds "$rounds" --discard 1 --create-topic --topic "$(topic)" -d "$time" --warmup "$warmup" -c 128 -s 256 2>&1 | table
  tls_stop
  start_chronik
}

row_logins() {
  local round kind side at flags process
  tls_start
  if [ -n "$tls_kafka" ]; then
    "$root/bin/chronikctl" --brokers "127.0.0.1:$tls_kafka" --admin off user add "$tls_user" --password-file "$tls/$tls_user.password" >/dev/null || exit 1
    # Its compiler needs some time under this very load.
    "$bench" connections logins --bootstrap-servers "127.0.0.1:$((tls_kafka + 2))" --tls-ca "$tls/ca.pem" --user "$tls_user" \
      --password-file "$tls/$tls_user.password" -d "${WARM_LOGINS:-30s}" --warmup 0s >/dev/null
  fi
  rm -f "$work"/logins.*
  for round in 0 $(seq "$rounds"); do # the first one warms up
    for kind in tls logins; do
      for side in chronik kafka; do
        at="$tls_addr" process="$pid" flags=()
        [ $kind = tls ] || { at="$tls_logins" flags=(--user "$tls_user" --password-file "$tls/$tls_user.password"); }
        if [ $side = kafka ]; then
          [ -n "$tls_kafka" ] || continue
          at="127.0.0.1:$((tls_kafka + 1))" process="$tls_kafka_pid"
          [ $kind = tls ] || at="127.0.0.1:$((tls_kafka + 2))"
        fi
        "$bench" connections logins --bootstrap-servers "$at" --tls-ca "$tls/ca.pem" "${flags[@]}" --server-pid "$process" \
          -d "$time" --warmup "$warmup" --json >"$work/json" || { cat "$work/json"; exit 1; }
        [ "$round" = 0 ] || tr -d '\n' <"$work/json" >>"$work/logins.$kind.$side"
        [ "$round" = 0 ] || echo >>"$work/logins.$kind.$side"
      done
    done
  done
  for kind in tls logins; do
    case $kind in tls) title "logins: connections per second, TLS without a login; 16 at once" ;;
      *) title "logins: connections per second, TLS and SCRAM-SHA-512; 16 at once" ;; esac
    spreads "$work/logins.$kind" <<'PY'
{"connections/s": lambda r: r["logins"] / r["measured"]["seconds"],
 "p50 ms": lambda r: r["latency"]["p50_us"] / 1000,
 "p99 ms": lambda r: r["latency"]["p99_us"] / 1000,
 "server CPU us each": lambda r: r["measured"]["server_cpu_seconds"] * 1e6 / r["logins"]}
PY
  done
  tls_stop
  start_chronik
}

row_idletls() {
  local round side n="${CONNECTIONS:-10000}"
  rm -f "$work"/idle.*
  for round in $(seq "$rounds"); do # each with brokers that have just started
    tls_start
    for side in chronik kafka; do
      local at="$tls_addr" process="$pid"
      if [ $side = kafka ]; then
        [ -n "$tls_kafka" ] || continue
        at="127.0.0.1:$((tls_kafka + 1))" process="$tls_kafka_pid"
      fi
      "$bench" connections idle --bootstrap-servers "$at" --tls-ca "$tls/ca.pem" --server-pid "$process" -c "$n" --json >"$work/json" || { cat "$work/json"; exit 1; }
      { tr -d '\n' <"$work/json"; echo; } >>"$work/idle.$side"
    done
    tls_stop
    rm -rf "$work/tls-data"
  done
  title "idletls: $n idle connections over TLS; resident memory of brokers that have just started, Kafka with a heap of ${HEAP:-1g}"
  spreads "$work/idle" <<'PY'
{"MB before": lambda r: r["before_bytes"] / 1e6,
 "MB when all are open": lambda r: r["opened_bytes"] / 1e6,
 "MB after 10 s": lambda r: r["rested_bytes"] / 1e6,
 "KB each": lambda r: (r["rested_bytes"] - r["before_bytes"]) / 1e3 / r["alive"]}
PY
  start_chronik
}

# spreads FILES: medians, minima and maxima of FILES.chronik and FILES.kafka, which have a line of
# JSON for each round, and of the ratios within rounds. The figures are a dictionary of Python.
spreads() {
  python3 - "$1" "$(cat)" <<'PY'
import json, os, statistics, sys
files, figures = sys.argv[1], eval(sys.argv[2])
sides = {}
for side in ("chronik", "kafka"):
    if os.path.exists(f"{files}.{side}"):
        sides[side] = [json.loads(line) for line in open(f"{files}.{side}", encoding="utf-8")]
def text(values):
    return f"{statistics.median(values):,.4g} ({min(values):,.4g}..{max(values):,.4g})"
for name, of in figures.items():
    all = {side: [of(run) for run in runs] for side, runs in sides.items()}
    parts = [f"{side} {text(values)}" for side, values in all.items()]
    if len(all) == 2:
        parts.append("ratio " + text([a / b for a, b in zip(all["chronik"], all["kafka"])]))
    print(f"{name}: " + ", ".join(parts))
PY
}
