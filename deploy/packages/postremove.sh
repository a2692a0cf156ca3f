#!/bin/sh
# Runs after the files are removed. The records and their owner stay: deleting them is a
# separate decision.
set -e

if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
fi
case "$1" in
  purge | 0)
    if [ -d /var/lib/chronik ]; then
      echo "chronik: the data in /var/lib/chronik is kept; if you no longer need it, remove it: rm -r /var/lib/chronik"
    fi
    ;;
esac
