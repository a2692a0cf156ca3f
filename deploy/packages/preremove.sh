#!/bin/sh
# Runs before the files are removed: of a .deb with "remove" or "upgrade NEW", of an .rpm
# with 0 (last removal) or 1 (upgrade). An upgrade leaves the broker running.
set -e

case "$1" in
  remove | deconfigure | 0)
    if [ -d /run/systemd/system ]; then
      systemctl --no-reload disable --now chronikd || true
    fi
    ;;
esac
