#!/usr/bin/env bash
# packages-test.sh   installs the packages of dist/, or of the directory PACKAGES, for this machine into a clean
# Debian root, as root: the files, the user, that nothing is started; a start by
# hand as that user, records in and out; under a systemd of its own, where this
# machine lets one boot, the unit with readiness, sandbox, restart, stop and
# upgrade; removal and purge, which keep the data. The .rpm is installed and erased
# in the same root by rpm, without its dependencies (no Fedora is tried).
# lintian checks the .deb where it is installed.
# Needs mmdebstrap and rpm (Debian: mmdebstrap rpm iproute2 lintian).
# shellcheck disable=SC2015 # A && B || fail is meant as it stands
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ "$(id -u)" = 0 ] || { echo "NOT RUN: the packages' test takes root"; exit 0; }
for tool in mmdebstrap rpm ip dpkg-deb; do
  command -v "$tool" >/dev/null || { echo "NOT RUN: the packages' test, because $tool is not there (Debian: mmdebstrap rpm iproute2)"; exit 0; }
done
packages="${PACKAGES:-$PWD/dist}"
deb=("$packages"/chronik_*_"$(dpkg --print-architecture)".deb) rpm=("$packages"/chronik-*."$(uname -m)".rpm)
[ -e "${deb[0]}" ] && [ -e "${rpm[0]}" ] || { echo "there are no packages in $packages: make packages"; exit 1; }

work="$(mktemp -d "${TMPDIR:-/tmp}/chronik-packages.XXXXXX")"
root="$work/root"
space='' broker='' manager='' topic=''
finish() {
  local rc=$?
  [ -z "$manager" ] || end_manager
  [ -z "$broker" ] || kill "$broker" 2>/dev/null || true
  [ -z "$space" ] || kill -KILL "$space" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf --one-file-system "$work" || true
  exit "$rc"
}
trap finish EXIT
fail() { echo "packages: $*"; exit 1; }
until_true() {
  for _ in $(seq 300); do
    if "$@" >"$work/said" 2>&1; then return 0; fi
    sleep 0.2
  done
  cat "$work/said"
  fail "never: $*"
}

if command -v lintian >/dev/null; then
  lintian --allow-root --fail-on error,warning,info "${deb[0]}" || fail "lintian has complaints"
else
  echo "NOT RUN: lintian, because it is not installed"
fi
mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,bash "${DEBIAN_SUITE:-bookworm}" "$root" >"$work/log" 2>&1 || { tail -5 "$work/log"; fail "no clean root could be made"; }
cp "${deb[0]}" "$root/chronik.deb"
mkdir -p "$root/proc"
# A network and a mount namespace: the default ports are free there.
# shellcheck disable=SC2016 # the inner shell expands its own arguments
unshare --net --mount --propagation private sh -c 'ip link set lo up && mount -t proc proc "$1/proc" && touch "$2" && exec sleep 3600' sh "$root" "$work/up" &
space=$!
until_true test -e "$work/up"
inside() { nsenter -t "$space" -n -m chroot "$root" "$@"; }
as_chronik() { nsenter -t "$space" -n -m chroot --userspec=chronik:chronik "$root" "$@"; }
records() { # records COMMAND...: 100 records in and out with that chronikctl
  seq 100 >"$work/sent"
  "$@" topic create --if-not-exists "$topic"
  "$@" produce "$topic" <"$work/sent" 2>/dev/null
  "$@" consume "$topic" | cmp - "$work/sent"
}

# ---- .deb ---------------------------------------------------------------------
inside dpkg -i /chronik.deb
for f in usr/bin/chronikd usr/bin/chronikctl usr/bin/chronik-bench usr/lib/systemd/system/chronikd.service etc/chronik/chronikd.yaml \
  usr/share/man/man8/chronikd.8.gz usr/share/man/man5/chronikd.yaml.5.gz usr/share/man/man1/chronikctl.1.gz usr/share/man/man1/chronik-bench.1.gz \
  usr/share/doc/chronik/{README.md,copyright,changelog.gz,changelog.Debian.gz,third-party.gz} usr/share/chronik/prometheus/rules.yml \
  usr/share/chronik/grafana/{dashboards/overview.json,provisioning/dashboards/chronik.yml}; do
  [ -s "$root/$f" ] || fail "/$f is not there"
done
for page in docs/*.md; do
  cmp -s "$page" "$root/usr/share/doc/chronik/$page" || fail "/usr/share/doc/chronik/$page is missing or another one"
done
zgrep -q 'Apache License' "$root/usr/share/doc/chronik/third-party.gz" || fail "third-party.gz has no license in it"
[ "$(stat -c %U:%a "$root/etc/chronik/chronikd.yaml")" = root:644 ] || fail "the configuration file has another owner or mode"
[ "$(inside stat -c %U:%G:%a /var/lib/chronik)" = chronik:chronik:750 ] || fail "the data directory has another owner or mode"
inside getent passwd chronik | grep -q nologin || fail "there is no user chronik without a login"
[ -z "$(find "$root/etc/systemd" -name 'chronikd*')" ] || fail "the service was enabled by the installation"
for p in /proc/[0-9]*; do
  case "$(readlink "$p/exe" 2>/dev/null)" in "$root"/usr/bin/chronikd*) fail "the broker was started by the installation" ;; esac
done
inside chronikd config check --config /etc/chronik/chronikd.yaml
inside chronikd version
inside bash -c 'complete() { echo "complete $*"; }; . /usr/share/bash-completion/completions/chronikctl' | grep -q chronikctl || fail "no completion"
inside systemd-analyze verify --man=no chronikd.service

# Started by hand, as its user, with the configuration as installed.
(exec nsenter -t "$space" -n -m chroot --userspec=chronik:chronik "$root" chronikd --config /etc/chronik/chronikd.yaml) >"$work/broker.log" 2>&1 &
broker=$!
until_true inside chronikd health --config /etc/chronik/chronikd.yaml
topic=by-hand records inside chronikctl
kill -TERM "$broker"
wait "$broker" || fail "the stop was not clean"
broker=
[ -e "$root/var/lib/chronik/logs/chronik.dir" ] || fail "the data is not in /var/lib/chronik"
echo "packages: .deb installed, started by hand as chronik, 100 records in and out, stopped"

# ---- the unit, under a systemd that boots in this root -------------------------
cat >"$work/boot" <<'BOOT'
set -e
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
mount --bind -o ro "$1/proc/sys" "$1/proc/sys"
mount -t sysfs -o ro sysfs "$1/sys"
mount -t cgroup2 cgroup2 "$1/sys/fs/cgroup"
mount -t tmpfs tmpfs "$1/run"
mount --rbind /dev "$1/dev"
ip link set lo up
cd "$1"
mkdir -p old
pivot_root . old
umount -l /old
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system
BOOT
cgroups="$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)"
if [ -z "$cgroups" ] || ! mkdir "$cgroups/chronik-packages.$$" 2>/dev/null; then
  echo "NOT RUN: the unit under systemd, because there is no cgroup2 that this process may write to"
else
  # shellcheck disable=SC2016 # the inner shell expands its own arguments
  sh -c 'echo $$ >"$1/cgroup.procs" && exec unshare --kill-child=SIGKILL --net --mount --pid --fork --uts --ipc --cgroup --propagation private sh "$2" "$3"' \
    sh "$cgroups/chronik-packages.$$" "$work/boot" "$root" </dev/null >"$work/boot.log" 2>&1 &
  manager=$!
  end_manager() {
    kill -KILL "$manager" 2>/dev/null || true # and with it its pid 1 and everything in there
    wait "$manager" 2>/dev/null || true
    for _ in $(seq 50); do
      find "$cgroups/chronik-packages.$$" -depth -type d -exec rmdir {} + 2>/dev/null && break
      sleep 0.1
    done
  }
  trap finish EXIT
  init() { pgrep -P "$manager"; }
  until_true init
  pid1="$(init)"
  unit() { nsenter -t "$pid1" -m -u -i -n -p -C -r -w "$@"; }
  # What the unit does when it is told, and how it says so.
  tell() { unit systemctl show chronikd --value -p "$1"; }
  is() { [ "$(tell "$1")" = "$2" ]; }
  configure() { unit tee /run/systemd/system/chronikd.service.d/test.conf >/dev/null && unit systemctl daemon-reload; }
  booted() { unit systemctl is-system-running | grep -Eq 'running|degraded'; }
  until_true booted
  unit mkdir -p /run/systemd/system/chronikd.service.d
  unit systemctl start chronikd || { unit systemctl status chronikd --no-pager; fail "the unit does not start"; }
  is ActiveState active || { unit systemctl status chronikd --no-pager; fail "the unit is not active once systemctl start returns"; }
  case "$(tell StatusText)" in "serving "*" partitions on 127.0.0.1:9092"*) ;; *) fail "the status is $(tell StatusText)" ;; esac
  topic=by-unit records unit chronikctl
  limit="$(unit sh -c 'grep "^Max open files" "/proc/$1/limits"' sh "$(tell MainPID)")"
  wanted=1048576 # of the unit, as far as this machine lets it
  [ "$(ulimit -Hn)" = unlimited ] || [ "$(ulimit -Hn)" -ge "$wanted" ] || wanted="$(ulimit -Hn)"
  case "$limit" in *" $wanted "*" $wanted "*) ;; *) fail "the limit of open files is another: $limit" ;; esac

  # The sandbox hides nothing that the broker judges its machine by.
  unit chronikctl cluster health -o wide >"$work/health" || true # what it finds here is no matter
  for saw in 'files: ' 'memory: ' 'clock: the clock is ' 'boot: the machine' 'file_system: ' 'mount: ' 'space: '; do
    grep -q "^broker 1, $saw" "$work/health" || { cat "$work/health"; fail "the broker in its sandbox sees nothing of its ${saw%%:*}"; }
  done

  # Killed: it is started again, and what was acknowledged is there.
  unit systemctl kill -s KILL chronikd
  until_true is NRestarts 1
  until_true is ActiveState active
  unit chronikctl consume by-unit | cmp - "$work/sent"

  # It stands still: the watchdog ends it, and it is started again.
  printf '[Service]\nWatchdogSec=2s\nTimeoutAbortSec=2s\nRestartSec=100ms\n' | configure
  unit systemctl restart chronikd
  before="$(tell MainPID)"
  unit systemctl kill -s STOP chronikd
  another() { unit systemctl status chronikd --no-pager | head -12; [ "$(tell MainPID)" != "$before" ] && is ActiveState active && is NRestarts 1; }
  until_true another
  unit chronikctl consume by-unit | cmp - "$work/sent"

  # Stopped: drained, with 0.
  unit systemctl stop chronikd
  is Result success && is ExecMainStatus 0 || fail "the stop was not clean: $(tell Result), $(tell ExecMainStatus)"

  # A configuration that is wrong is said, and not tried again.
  printf '[Service]\nEnvironment=CHRONIK_NUM_PARTITIONS=0\nRestartSec=100ms\n' | configure
  if unit systemctl start chronikd 2>/dev/null; then fail "a wrong configuration started"; fi
  sleep 1
  is NRestarts 0 && is ActiveState failed && is ExecMainStatus 2 || fail "a wrong configuration: $(tell NRestarts) restarts, $(tell ActiveState), $(tell ExecMainStatus)"
  unit journalctl -u chronikd --no-pager | grep -q 'num.partitions: invalid value "0"' || fail "the log does not say what is wrong"
  unit systemctl reset-failed chronikd

  # Upgraded while it runs: it runs on as it was configured until it is restarted.
  unit rm /run/systemd/system/chronikd.service.d/test.conf
  unit systemctl daemon-reload
  echo 'num.partitions: 3' >>"$root/etc/chronik/chronikd.yaml"
  unit systemctl start chronikd
  before="$(tell MainPID)"
  dpkg-deb -R "${deb[0]}" "$work/newer"
  sed -i 's/^Version: .*/&+newer/' "$work/newer/DEBIAN/control"
  dpkg-deb -Znone -b "$work/newer" "$root/newer.deb" >/dev/null
  unit dpkg -i /newer.deb >"$work/said" 2>&1 || { cat "$work/said"; fail "the upgrade failed"; }
  grep -q 'systemctl restart chronikd' "$work/said" || { cat "$work/said"; fail "the upgrade does not say that the old broker runs on"; }
  is ActiveState active && is MainPID "$before" || fail "the upgrade stopped or restarted the broker"
  unit systemctl restart chronikd
  unit chronikctl consume by-unit | cmp - "$work/sent"
  unit chronikctl topic create after-upgrade
  unit chronikctl topic describe after-upgrade | grep -q '3 partitions' || fail "the upgrade took the configuration"

  # Removed while it runs: it is stopped first.
  unit dpkg --remove chronik
  is ActiveState inactive || is ActiveState failed || fail "it runs on after the removal"
  unit dpkg -i /chronik.deb
  end_manager
  manager=''
  echo "packages: the unit ran under systemd $(inside systemctl --version | awk 'NR == 1 { print $2 }') with its sandbox: ready, killed, hung, stopped, misconfigured, upgraded, removed"
fi

# ---- removal --------------------------------------------------------------------
inside dpkg --remove chronik
[ ! -e "$root/usr/bin/chronikd" ] && [ -e "$root/etc/chronik/chronikd.yaml" ] || fail "remove left the program, or took the configuration"
inside dpkg --purge chronik
[ ! -e "$root/etc/chronik/chronikd.yaml" ] && [ -d "$root/var/lib/chronik/logs" ] || fail "purge left the configuration, or took the data"
echo "packages: .deb removed and purged, the data is kept"

# ---- .rpm -----------------------------------------------------------------------
rpm -K --nosignature "${rpm[0]}" >/dev/null
rpm --root "$root" --dbpath /var/lib/rpm --initdb
rpm --root "$root" --dbpath /var/lib/rpm -i --nodeps --nosignature "${rpm[0]}"
inside chronikd config check --config /etc/chronik/chronikd.yaml
as_chronik chronikd version >/dev/null
rpm --root "$root" --dbpath /var/lib/rpm -V --nodeps chronik || fail "rpm -V sees differences right after the installation"
rpm --root "$root" --dbpath /var/lib/rpm -e --nodeps chronik
[ ! -e "$root/usr/bin/chronikd" ] && [ -d "$root/var/lib/chronik/logs" ] || fail "erase left the program, or took the data"
echo "packages: .rpm installed, verified and erased, the data is kept"
