#!/usr/bin/env bash
# Debezium's connector copies the changes of a table of PostgreSQL to a topic, exactly once, in a worker of Kafka Connect that is
# killed and started again meanwhile. The events, applied to nothing, must make the table.
. "$(dirname "${BASH_SOURCE[0]}")/lib/lib.sh"
. "$lib/java.sh"
need psql python3 curl
postgres="$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)"
[ -x "$postgres/initdb" ] || missing "PostgreSQL is not installed (Debian's package postgresql)"
class_path "$lib/debezium/pom.xml"
brokers 1
read -r db rest < <(ports 2)
# PostgreSQL refuses to run as root.
as=()
if [ "$(id -u)" = 0 ]; then
  id postgres >/dev/null 2>&1 || missing "PostgreSQL does not run as root, and there is no user postgres"
  as=(setpriv --reuid postgres --regid postgres --clear-groups)
fi
data="$(mktemp -d "${TMPDIR:-/tmp}/chronik-judge-postgres.XXXXXX")"
[ ${#as[@]} = 0 ] || chown postgres:postgres "$data"
trap 'stop; rm -rf "$data"' EXIT
trap 'stop; rm -rf "$data"; exit 143' INT TERM
(cd / && "${as[@]}" "$postgres/initdb" -D "$data/db" -U judge --auth trust) >"$OUT/initdb.log" 2>&1 || broken "initdb failed" "$OUT/initdb.log"
start "$OUT/postgres.log" "${as[@]}" "$postgres/postgres" -D "$data/db" -h 127.0.0.1 -p "$db" -k "$data" -c wal_level=logical -c fsync=off
sql() { psql -q -h 127.0.0.1 -p "$db" -U judge -d judge -v ON_ERROR_STOP=1 -tA "$@"; }
within 60 "the start of PostgreSQL" psql -q -h 127.0.0.1 -p "$db" -U judge -d postgres -c 'create database judge'
sql -c 'create table orders (id int primary key, amount int not null, note text)' -c 'alter table orders replica identity full' \
  -c "insert into orders select n, n * 10, 'snapshot' from generate_series(1, 1000) n" || broken "the table could not be made"
cat >"$work/worker.properties" <<CONFIG
bootstrap.servers=$BROKERS
group.id=debezium
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=false
value.converter.schemas.enable=false
config.storage.topic=connect-configs
offset.storage.topic=connect-offsets
status.storage.topic=connect-status
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
exactly.once.source.support=enabled
offset.flush.interval.ms=1000
listeners=http://127.0.0.1:$rest
CONFIG
worker=''
worker_up() {
  java_program 384m org.apache.kafka.connect.cli.ConnectDistributed "$work/worker.properties"
  start "$OUT/connect$1.log" "${program[@]}"
  worker="${pids[-1]}"
}
cat >"$work/connector.json" <<CONFIG
{"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "tasks.max": "1", "plugin.name": "pgoutput",
 "database.hostname": "127.0.0.1", "database.port": "$db", "database.user": "judge", "database.password": "judge",
 "database.dbname": "judge", "topic.prefix": "shop", "table.include.list": "public.orders", "exactly.once.support": "required",
 "topic.creation.default.replication.factor": "1", "topic.creation.default.partitions": "1"}
CONFIG
put() { curl -fsS --max-time 60 -X PUT -H 'Content-Type: application/json' -d "@$work/connector.json" "http://127.0.0.1:$rest/connectors/orders/config"; }
events() { "$CHRONIKCTL" --brokers "$BROKERS" consume shop.public.orders --isolation read-committed --key-separator "$(printf '\t')" >"$work/events" 2>/dev/null; }
# equal   the events make the table. same_once   and none of them is there twice.
equal() {
  events
  sql -c 'select id, amount, note from orders order by id' >"$work/table"
  python3 "$lib/debezium/apply.py" "$work/events" "$work/table"
}
same_once() {
  events
  python3 "$lib/debezium/apply.py" "$work/events" "$work/table" once
}
changes() { # changes FROM   inserts, changes and deletes rows
  sql -c "insert into orders select n, n, 'change' from generate_series($1, $1 + 499) n" \
    -c "update orders set amount = amount + 1 where id % 7 = 0" -c "delete from orders where id % 11 = 0"
}
worker_up 1
within 120 "the start of Kafka Connect" put
check snapshot upto 180 equal
changes 2001
check changes upto 120 equal
changes 3001
kill -KILL "$worker"
changes 4001
worker_up 2
check goes-on-after-a-kill upto 240 equal
check exactly-once same_once
