#!/usr/bin/env bash
# helm.sh HELM   checks deploy/helm/chronik: helm lints it and renders it with one broker, three, and
# with security, and deploy/helm/validate decodes the result strictly as objects of Kubernetes. Then
# three processes run what it renders: the command, the arguments, the environment and the files of
# each pod, at addresses of loopback. They are restarted in the order of a StatefulSet, each when the
# readiness probe of the one before succeeds, while records are written, and the containers of helm
# test run. CHART is another directory with the chart, PROGRAMS another one than bin with chronikd and
# chronikctl.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
helm="$1" chart="${CHART:-deploy/helm/chronik}" kubernetes=1.31.0
work="$(mktemp -d "${TMPDIR:-/tmp}/chronik-helm.XXXXXX")"
trap 'rm -rf "$work"' EXIT
export HELM_CACHE_HOME="$work/cache" HELM_CONFIG_HOME="$work/config" HELM_DATA_HOME="$work/data"

(cd deploy/helm/validate && CGO_ENABLED=0 go build -trimpath -o "$work/validate" .)
render() { # render FILE ARGUMENTS...
  local file="$work/$1"
  shift
  "$helm" lint --quiet --strict --kube-version "$kubernetes" "$chart" "$@"
  "$helm" template broker "$chart" --kube-version "$kubernetes" --namespace streams "$@" >"$file"
  "$work/validate" <"$file"
}
render one.yaml
render three.yaml --set replicas=3 --set antiAffinity=preferred --set serviceMonitor.enabled=true --set config.num\\.partitions=6
render secure.yaml --set replicas=3 --set security.secret=secure --set serviceMonitor.enabled=true
if "$helm" template broker "$chart" --kube-version "$kubernetes" --set replicas=2 >/dev/null 2>&1; then
  echo "the chart accepts 2 brokers"
  exit 1
fi
CHRONIKD="${PROGRAMS:-$PWD/bin}/chronikd" CHRONIK_CHARTS="$work/one.yaml $work/three.yaml $work/secure.yaml" \
  go test -count=1 -timeout 20m -v -run '^TestChart$' ./internal/testing/system/
