#!/bin/sh
# Runs after the files are installed. Arguments: "configure [OLD]" for a .deb, 1 (first install)
# or 2 (upgrade) for an .rpm. It starts nothing: the administrator edits the configuration first.
set -e

if ! getent group chronik >/dev/null; then
  groupadd --system chronik
fi
if ! getent passwd chronik >/dev/null; then
  useradd --system --gid chronik --home-dir /var/lib/chronik --no-create-home \
    --shell /usr/sbin/nologin --comment "chronik broker" chronik
fi
# For a start by hand; the unit's StateDirectory= creates the same directory.
if [ ! -e /var/lib/chronik ]; then
  install -d -o chronik -g chronik -m 0750 /var/lib/chronik
fi

if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
fi
case "$1" in
  configure) upgrade="$2" ;;
  1) upgrade="" ;;
  *) upgrade=yes ;;
esac
if [ -n "$upgrade" ]; then
  if [ -d /run/systemd/system ] && systemctl -q is-active chronikd; then
    echo "chronik: the previous version is still running; to restart: systemctl restart chronikd"
  fi
else
  echo "chronik: edit /etc/chronik/chronikd.yaml, then start the broker: systemctl enable --now chronikd"
fi
