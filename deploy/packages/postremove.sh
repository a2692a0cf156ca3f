#!/bin/sh
# Runs after the files are gone. Records stay, and so does the user that they
# belong to: deleting them is a decision of their own.
set -e

if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
fi
case "$1" in
  purge | 0)
    if [ -d /var/lib/chronik ]; then
      echo "chronik: the data in /var/lib/chronik is kept; remove it by hand if nobody needs it"
    fi
    ;;
esac
