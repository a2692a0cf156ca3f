#!/bin/sh
# Runs after the files were removed. Records stay, and so does the user that owns
# them: deleting them is a separate decision.
set -e

if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
fi
case "$1" in
  purge | 0)
    if [ -d /var/lib/chronik ]; then
      echo "chronik: the data in /var/lib/chronik is kept; if it is not needed any more, remove it: rm -r /var/lib/chronik"
    fi
    ;;
esac
