# Sourced. Kills and restarts brokers that scripts/cluster-up.sh or scripts/kafka/up has started: DIRS and
# PIDS come from there, and ADMINS unless it is Kafka. A broker that was restarted has its process id
# in DIR/pid.

# node_pid NODE   prints the process id of broker NODE (1, 2 or 3).
node_pid() {
  local dirs pids
  read -ra dirs <<<"$DIRS"
  read -ra pids <<<"$PIDS"
  cat "${dirs[$1 - 1]}/pid" 2>/dev/null || echo "${pids[$1 - 1]}"
}

# ended PID   waits until a process has ended, whoever its parent is.
ended() {
  while [ -e "/proc/$1/stat" ] && ! grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null; do sleep 0.05; done
}

# restart_node NODE SIGNAL   ends broker NODE with SIGNAL, starts it again with the same arguments, and
# waits until no partition has a replica out of sync. One caller at a time; the others wait.
restart_node() {
  local dirs dir pid args rc
  read -ra dirs <<<"$DIRS"
  dir="${dirs[$1 - 1]}"
  (
    flock 9
    pid="$(node_pid "$1")"
    mapfile -d '' -t args <"/proc/$pid/cmdline"
    kill "-$2" "$pid"
    ended "$pid"
    while :; do
      env -u CHRONIK_PORT -u CHRONIK_ADMIN_PORT "${args[@]}" 9>&- </dev/null >>"$dir/log" 2>&1 &
      echo $! >"$dir/pid"
      rc=0
      in_sync $! || rc=$?
      # free-ports.py of another test binds each port for a moment.
      [ $rc = 2 ] && tail -n 1 "$dir/log" | grep -q 'address already in use' || exit $rc
    done
  ) 9>"${dirs[0]}/restart"
}

# in_sync PID   waits until every broker is ready and every replica in sync, at most two minutes. Returns
# 2 if process PID has ended.
in_sync() {
  local admins admin i out
  if [ -z "$ADMINS" ]; then kafka_in_sync "$1"; return; fi
  IFS=, read -ra admins <<<"$ADMINS"
  for i in $(seq 600); do
    kill -0 "$1" 2>/dev/null || return 2
    for admin in "${admins[@]}"; do
      curl -fsS --max-time 5 "http://$admin/readyz" >/dev/null 2>&1 || { sleep 0.2; continue 2; }
      out="$(curl -fsS --max-time 5 "http://$admin/metrics" 2>/dev/null)" || { sleep 0.2; continue 2; }
      grep -qxE 'chronik_partitions_(under_replicated|without_leader) 0' <<<"$out" || { sleep 0.2; continue 2; }
      ! grep -qE '^chronik_partitions_(under_replicated|without_leader) [1-9]' <<<"$out" || { sleep 0.2; continue 2; }
    done
    return 0
  done
  echo "the brokers did not come into sync within two minutes"
  return 1
}

# kafka_in_sync is in_sync for Kafka, which has no admin port.
kafka_in_sync() {
  local i
  for i in $(seq 60); do
    kill -0 "$1" 2>/dev/null || return 2
    [ "$("$root/scripts/kafka/kt" broker-api-versions --bootstrap-server "$BROKERS" 2>/dev/null | grep -c 'isFenced: false')" = 3 ] || continue
    [ -n "$("$root/scripts/kafka/kt" topics --bootstrap-server "$BROKERS" --describe --under-replicated-partitions 2>/dev/null || echo failed)" ] || return 0
  done
  echo "Kafka's brokers did not come into sync"
  return 1
}

# rolling   restarts one broker after the other until it is stopped with SIGTERM: by SIGTERM and by
# SIGKILL in turns. Prints each restart. Between two of them the cluster is whole for a moment.
rolling() {
  local node stopping='' round=0 signals=(TERM KILL)
  trap 'stopping=1' TERM
  while :; do
    for node in 1 2 3; do
      sleep "${RESTART_PAUSE:-2}" &
      wait $! || true
      [ -z "$stopping" ] || return 0
      restart_node "$node" "${signals[(round + node) % 2]}" || return 1
      echo "restarted broker $node with SIG${signals[(round + node) % 2]}"
    done
    round=$((round + 1))
  done
}

# end_restarted   stops the brokers that restart_node has started.
end_restarted() {
  local dirs dir
  read -ra dirs <<<"$DIRS"
  for dir in "${dirs[@]}"; do
    [ -e "$dir/pid" ] || continue
    kill -TERM "$(cat "$dir/pid")" 2>/dev/null || true
  done
  for dir in "${dirs[@]}"; do
    [ -e "$dir/pid" ] || continue
    ended "$(cat "$dir/pid")"
    rm "$dir/pid"
  done
}
