#!/bin/sh
# Runs before the files are removed. Arguments: "remove" or "upgrade NEW" for a .deb, 0 (last
# removal) or 1 (upgrade) for an .rpm. An upgrade leaves the broker running.
set -e

case "$1" in
  remove | deconfigure | 0)
    if [ -d /run/systemd/system ]; then
      systemctl --no-reload disable --now chronikd || true
    fi
    ;;
esac
