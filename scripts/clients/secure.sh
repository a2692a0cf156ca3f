#!/usr/bin/env bash
# Every client library against a broker of `chronikd secure init`: each logs in by SCRAM-SHA-512 over
# TLS, by certificate and by token (OAUTHBEARER) with the settings of docs/clients.md, writes in a
# transaction and reads as a member of a group. A wrong password, a stranger's authority, no
# certificate, tokens that are not signed or forged, and missing rights must each end with the error
# that the client has for it. A library that has share groups also runs the program of share.sh.
# LIBRARIES="kgo java" names some of them; PAGE=FILE is another page.
[ -n "${WORK:-}" ] || exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" secure
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
page="${PAGE:-$root/docs/clients.md}"
secure="$WORK/secure" export_dir="$WORK/secure-programs"
mkdir -p "$export_dir"
export KEYS="$secure" CHRONIKCTL_CONFIG="$secure/no-contexts"

# What each client says. Without an entry the case must succeed.
declare -A want=(
  [kgo wrong-password]='SASL_AUTHENTICATION_FAILED.*: Authentication failed\.'
  [kgo wrong-ca]='certificate signed by unknown authority'
  [kgo no-certificate]='tls: certificate required'
  [kgo unsigned]='SASL_AUTHENTICATION_FAILED.*: Authentication failed\.'
  [kgo forged]='SASL_AUTHENTICATION_FAILED.*: Authentication failed\.'
  [kgo hidden-topic]='TOPIC_AUTHORIZATION_FAILED'
  [kgo hidden-group]='GROUP_AUTHORIZATION_FAILED'
  [kgo share-hidden-topic]='TOPIC_AUTHORIZATION_FAILED'
  [kgo share-hidden-group]='GROUP_AUTHORIZATION_FAILED'
  [confluent wrong-password]='_AUTHENTICATION.*Authentication failed\.'
  [confluent wrong-ca]='certificate verify failed'
  [confluent no-certificate]='_SSL|_TRANSPORT.*certificate'
  [confluent unsigned]='_AUTHENTICATION.*Authentication failed\.'
  [confluent forged]='_AUTHENTICATION.*Authentication failed\.'
  [confluent hidden-topic]='TOPIC_AUTHORIZATION_FAILED'
  [confluent hidden-group]='GROUP_AUTHORIZATION_FAILED'
  [confluent share-hidden-topic]='TOPIC_AUTHORIZATION_FAILED'
  [confluent share-hidden-group]='GROUP_AUTHORIZATION_FAILED'
  [kcat wrong-password]='Authentication failed\.'
  [kcat wrong-ca]='certificate verify failed'
  [kcat no-certificate]='certificate required'
  [kcat hidden-topic]='Topic authorization failed'
  [kcat hidden-group]='Group authorization failed'
  [kafka-python wrong-password]='KafkaTimeoutError' # it does not say why
  [kafka-python wrong-ca]='CERTIFICATE_VERIFY_FAILED'
  [kafka-python no-certificate]='CERTIFICATE_REQUIRED'
  [kafka-python unsigned]='KafkaTimeoutError'
  [kafka-python forged]='KafkaTimeoutError'
  [kafka-python hidden-topic]='TopicAuthorizationFailed'
  [kafka-python hidden-group]='GroupAuthorizationFailed'
  [kafkajs wrong-password]='KafkaJSSASLAuthenticationError.*Authentication failed\.'
  [kafkajs wrong-ca]='certificate'
  [kafkajs no-certificate]='certificate required'
  [kafkajs unsigned]='Closed connection' # it takes the broker's answer of RFC 7628 for a success, and sends a request
  [kafkajs forged]='Closed connection'
  [kafkajs hidden-topic]='Not authorized to access topics'
  [kafkajs hidden-group]='KafkaJSGroupCoordinatorNotFound' # what it makes of the coordinator's refusal
  [sarama wrong-password]='Authentication failed'
  [sarama wrong-ca]='certificate signed by unknown authority'
  [sarama no-certificate]='certificate required'
  [sarama unsigned]='Authentication failed\.'
  [sarama forged]='Authentication failed\.'
  [sarama hidden-topic]='not authorized to access this topic'
  [sarama hidden-group]='not authorized to access this group'
  [java wrong-password]='SaslAuthenticationException: Authentication failed\.'
  [java wrong-ca]='SslAuthenticationException'
  [java no-certificate]='SslAuthenticationException'
  [java unsigned]='SaslAuthenticationException: Authentication failed\.'
  [java forged]='SaslAuthenticationException: Authentication failed\.'
  [java hidden-topic]='TopicAuthorizationException: Not authorized to access topics: \[hidden\]'
  [java hidden-group]='GroupAuthorizationException: Not authorized to access group: hidden'
  [java share-hidden-topic]='TopicAuthorizationException: Not authorized to access topics'
  [java share-hidden-group]='GroupAuthorizationException: Not authorized to access group: hidden'
)
refused="wrong-password wrong-ca no-certificate unsigned forged hidden-topic hidden-group"

# settings   writes each block of the page that a marker "<!-- login: FILE -->" precedes. A file of
# settings gets this broker's addresses and paths and goes to $KEYS; the lines of a program's fragment
# must stand in the program that is tested, in their order.
settings() {
  local file way address
  awk -v dir="$export_dir" '
    /^<!-- login: [a-zA-Z._-]+ -->$/ { file = $3; line = NR; next }
    /^```/ && inside { close(inside); inside = ""; next }
    /^```[a-z]+$/ && line == NR - 1 { inside = dir "/" file; next }
    inside { print > inside }
  ' "$page"
  for way in scram mtls oauth; do
    address="${way^^}"
    for file in "$way.properties" "$way.conf"; do
      [ -s "$export_dir/$file" ] || { echo "the page has no settings for $file"; exit 1; }
      sed -e "s|broker\.example\.com:9093|${!address}|; s|/etc/chronik/|$secure/|; s|PASSWORD|$(cat "$secure/alice.password")|" \
        "$export_dir/$file" >"$secure/$file"
    done
  done
  for file in kgo.go sarama.go kafka_python.py kafkajs.js; do
    [ -s "$export_dir/$file" ] || { echo "the page has no settings for $file"; exit 1; }
    # A block's lines stand in the program as they are, whatever is between two of them.
    awk 'NR == FNR { program[NR] = $0; lines = NR; next }
      { while (++at <= lines && program[at] != $0) { }; if (at > lines) { print "the tested program does not have this line of the page: " $0; exit 1 } }
    ' "$here/secure/${file/kgo.go/kgo/main.go}" "$export_dir/$file" || exit 1
  done
}

ctl() {
  "$root/bin/chronikctl" --brokers "$SCRAM" --admin off --tls-ca "$secure/ca.pem" --sasl SCRAM-SHA-512 --sasl-user admin \
    --sasl-password-file "$WORK/admin.password" "$@" >/dev/null
}

broker() { # starts it and sets its addresses
  local ports who ready='' _
  read -ra ports < <(python3 "$root/scripts/free-ports.py" 3)
  export SCRAM="localhost:${ports[0]}" MTLS="localhost:${ports[1]}" OAUTH="localhost:${ports[2]}"
  (umask 077 && head -c 18 /dev/urandom | base64 >"$WORK/admin.password")
  "$root/bin/chronikd" secure init "$secure" --advertise "$SCRAM" --advertise "$MTLS" --advertise "$OAUTH" --no-context \
    --password-file "$WORK/admin.password" >/dev/null
  (cd "$root" && go run ./scripts/clients/secure/keys "$secure")
  # The first listener stays as it is.
  sed -i -e "s/\(\"$MTLS\".*\), sasl: .*}/\1, client-certificates: require}/" -e "s/\(\"$OAUTH\".*, sasl: \)\[.*\]/\1[OAUTHBEARER, PLAIN]/" "$secure/chronikd.yaml"
  echo "oauth: {jwks: $secure/jwks.json, issuer: https://login.example.com, audience: chronik}" >>"$secure/chronikd.yaml"
  echo "connection.failed.authentication.delay.ms: 1" >>"$secure/chronikd.yaml" # many logins fail here
  "$root/bin/chronikd" --config "$secure/chronikd.yaml" --admin-listen off 2>"$secure/log" &
  pid=$!
  for _ in $(seq 600); do
    if grep -qs '"msg":"ready"' "$secure/log"; then ready=yes; break; fi # the file may not exist yet
    sleep 0.1
  done
  [ -n "$ready" ] || { echo "chronikd did not start:"; cat "$secure/log"; exit 1; }
  (umask 077 && echo "correct-horse" >"$secure/alice.password")
  ctl user add alice --password-file "$secure/alice.password"
  for who in alice CN=carol robot; do
    ctl acl add "$who" read,write topic:open- --prefix
    ctl acl add "$who" read group:open- --prefix
    ctl acl add "$who" write transactional-id:open- --prefix
  done
}
trap '[ -z "${pid:-}" ] || { kill -TERM "$pid" && wait "$pid"; }' EXIT

# Each prints a line "CASE: ok" or "CASE: what the client says" for each case.
run_kgo() { (cd "$root" && go run ./scripts/clients/secure/kgo "$@"); }
run_java() {
  need_kafka
  KT_LOG=FATAL KT_TIER=1 KT_JVM="-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://$KEYS/token,file://$KEYS/forged" \
    "$kt" class "$here/secure/Secure.java" "$@"
}
run_confluent() {
  need_python confluent_kafka confluent-kafka
  "$python" "$here/secure/confluent.py" "$@"
}
run_kafka-python() {
  need_python kafka kafka-python
  "$python" "$here/secure/kafka_python.py" "$@"
}
run_kafkajs() {
  need_kafkajs
  node "$here/secure/kafkajs.js" "$@"
}
run_sarama() {
  need_sarama sarama-secure "$here/secure/sarama.go" github.com/xdg-go/scram@v1.1.2
  "$program" "$@"
}
# The programs of share groups get a topic, a group, and what to do.
share_kgo() { (cd "$root" && SETTINGS="$secure/scram.conf" go run ./scripts/clients/share/kgo "$@"); }
share_java() { KT_LOG=FATAL KT_TIER=1 SETTINGS="$secure/scram.properties" "$kt" class "$here/share/Shares.java" "$@"; }
share_confluent() { SETTINGS="$secure/scram.conf" "$python" "$here/share/confluent.py" "$@"; }
share() { # share LIBRARY   prints lines as the others do
  "share_$1" "open-share-$1" "open-share-$1" 100 >"$WORK/share-$1" 2>&1 && echo "share: ok" || echo "share: $(tail -n 3 "$WORK/share-$1" | tr '\n' ' ')"
  echo "share-hidden-topic: $("share_$1" hidden "open-share-$1-2" says 2>&1 | tail -n 1)"
  echo "share-hidden-group: $("share_$1" "open-share-$1" hidden says 2>&1 | tail -n 1)"
}
# kcat writes without a transaction, and knows tokens only as librdkafka makes them for tests.
run_kcat() {
  local name result
  command -v kcat >/dev/null || missing "kcat is not installed: apt-get install kcat"
  seq -f 'value %g' 0 9 >"$WORK/kcat.values"
  cp "$secure/mtls.conf" "$secure/kcat-mtls.conf"
  cp "$secure/scram.conf" "$secure/kcat-scram.conf"
  # Before 2.6.1 librdkafka repeats its nonce in SCRAM's last message; Kafka 4 and chronik refuse that.
  if [ "$(printf '%s\n' 2.6.1 "$(kcat -V | sed -nE 's/.*librdkafka ([0-9.]+).*/\1/p')" | sort -V | head -1)" != 2.6.1 ]; then
    sed -i -e 's/SCRAM-SHA-512/PLAIN/' -e "s/$SCRAM/$OAUTH/" "$secure/kcat-scram.conf"
  fi
  for name in "$@"; do
    result=ok
    case $name in
      scram | mtls) kcat_life "$secure/kcat-$name.conf" "open-kcat-$name" ;;
      wrong-password) kcat_says -L -F "$secure/kcat-scram.conf" -X sasl.password=wrong ;;
      wrong-ca) kcat_says -L -F "$secure/kcat-scram.conf" -X "ssl.ca.location=$secure/stranger.pem" ;;
      no-certificate) kcat_says -L -X security.protocol=ssl -X "ssl.ca.location=$secure/ca.pem" -b "$MTLS" ;;
      hidden-topic) kcat_says -P -t hidden -F "$secure/kcat-scram.conf" ;;
      hidden-group) kcat_says -F "$secure/kcat-scram.conf" -G hidden open-kcat-scram ;;
      *) continue ;;
    esac
    echo "$name: $result"
  done
}
kcat_life() {
  kcat -F "$1" -P -t "$2" <"$WORK/kcat.values" 2>"$WORK/kcat.err" &&
    timeout 60 kcat -F "$1" -X auto.offset.reset=earliest -c 10 -q -G "$2" "$2" >"$WORK/kcat.read" 2>>"$WORK/kcat.err" &&
    cmp -s "$WORK/kcat.values" "$WORK/kcat.read" || result="$(tail -3 "$WORK/kcat.err" | tr '\n' ' ')"
}
kcat_says() { result="$(timeout 60 kcat "$@" <"$WORK/kcat.values" 2>&1 | tr '\n' ' ')"; }

run() { # run LIBRARY   all its cases, and compares what it prints
  local out="$WORK/secure-$1.out" name said expected failed=0 n=0 shares=''
  # shellcheck disable=SC2086 # the cases
  "run_$1" scram mtls oauth $refused >"$out" 2>"$out.err" || { local rc=$?; cat "$out" "$out.err"; exit $rc; }
  if declare -F "share_$1" >/dev/null; then
    shares="share share-hidden-topic share-hidden-group"
    share "$1" >>"$out"
  fi
  for name in scram mtls oauth $refused $shares; do
    said="$(sed -n "s/^$name: //p" "$out")" expected="${want[$1 $name]:-^ok$}"
    if [ "$1" = kcat ] && [[ "oauth unsigned forged" = *"$name"* ]]; then continue; fi
    n=$((n + 1))
    if [ "$said" = ok ] && [ "$expected" != '^ok$' ] || ! grep -qE -- "$expected" <<<"$said"; then
      failed=1
      echo "FAIL $1 $name: it says \"$said\", not $expected"
    fi
  done
  [ $failed = 0 ] || { tail -5 "$out.err"; exit 1; }
  echo "logins of $1: $n cases right"
}

libraries="${LIBRARIES:-kgo kcat confluent java kafka-python kafkajs sarama}"
broker
settings
topics=(hidden)
for name in $libraries; do topics+=("open-$name-scram" "open-$name-mtls" "open-$name-oauth"); done
ctl topic create "${topics[@]}" --partitions 1
for name in $libraries; do
  declare -F "share_$name" >/dev/null || continue
  ctl topic create "open-share-$name" --partitions 2
  ctl config set group "open-share-$name" share.auto.offset.reset=earliest
done
declare -A pids
failed=0 absent=0
for name in $libraries; do
  (trap - EXIT; run "$name") >"$WORK/secure-$name.said" 2>&1 &
  pids[$name]=$!
done
for name in $libraries; do
  rc=0
  wait "${pids[$name]}" || rc=$?
  cat "$WORK/secure-$name.said"
  case $rc in
    0) ;;
    77) absent=1 ;;
    *) failed=1 ;;
  esac
done
if grep -E '"level":"(error|dpanic|panic|fatal)"' "$secure/log"; then echo "the broker logged errors"; failed=1; fi
# No password and no token may stand in the log.
if grep -qF -e "$(cat "$secure/alice.password")" -e "$(cat "$WORK/admin.password")" -e "$(cat "$secure/token")" "$secure/log"; then
  echo "a secret is in the broker's log"; failed=1
fi
[ "$failed" = 0 ] || exit 1
[ "$absent" = 0 ] || exit 77
