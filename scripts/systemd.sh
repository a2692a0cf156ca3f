#!/usr/bin/env bash
# systemd.sh   holds deploy/systemd/chronikd.service against systemd's own
# checks: every line is understood, also with secured.conf, and the sandbox is rated
# 2.0 of 10 or better.
# Needs systemd-analyze (Debian: systemd) and bin/chronikd; systemd need not run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
command -v systemd-analyze >/dev/null || { echo "NOT RUN: the unit's check, because systemd-analyze is not there"; exit 0; }
[ -x bin/chronikd ] || { echo "bin/chronikd is missing: make build"; exit 1; }

work="$(mktemp -d "${TMPDIR:-/tmp}/chronik-unit.XXXXXX")"
trap 'rm -rf "$work"' EXIT
unit="$work/chronikd.service"
# verify looks for the program at the place where packages put it.
sed "s|/usr/bin/chronikd|$PWD/bin/chronikd|" deploy/systemd/chronikd.service >"$unit"
complaints="$(systemd-analyze verify --man=no --recursive-errors=no "$unit" 2>&1)" || { echo "$complaints"; exit 1; }
[ -z "$complaints" ] || { echo "$complaints"; exit 1; }
mkdir "$unit.d"
sed "s|/usr/bin/chronikd|$PWD/bin/chronikd|" deploy/systemd/secured.conf >"$unit.d/secured.conf"
complaints="$(systemd-analyze verify --man=no --recursive-errors=no "$unit" 2>&1)" || { echo "with secured.conf: $complaints"; exit 1; }
[ -z "$complaints" ] || { echo "with secured.conf: $complaints"; exit 1; }
rating="$(systemd-analyze security --offline=true --threshold=20 "$unit" 2>&1)" || { echo "$rating"; exit 1; }
echo "$rating" | tail -1
for key in Type=notify WatchdogSec= TimeoutStopSec= LimitNOFILE= StateDirectory= RestartPreventExitStatus= SystemCallFilter=adjtimex; do
  grep -q "^$key" "$unit" || { echo "the unit lost its $key"; exit 1; }
done
if grep -q '^ProtectClock=' "$unit"; then echo "ProtectClock= forbids adjtimex: the broker would not see whether somebody keeps the clock right"; exit 1; fi
