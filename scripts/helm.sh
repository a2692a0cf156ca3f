#!/usr/bin/env bash
# helm.sh [HELM KUBECONFORM]   checks deploy/helm/chronik: helm lints it and renders it with one
# broker, three, and with security, and kubeconform compares the result with the schemas of
# Kubernetes. Then three processes run what it renders: the command, the arguments, the environment
# and the files of each pod, at addresses of loopback. They are restarted in the order of a
# StatefulSet, each when the readiness probe of the one before succeeds, while records are written,
# and the containers of helm test run. Needs bin/chronikd and bin/chronikctl.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
helm="${1:-helm}" kubeconform="${2:-kubeconform}" chart=deploy/helm/chronik
schemas="${KUBERNETES_SCHEMAS:-https://raw.githubusercontent.com/yannh/kubernetes-json-schema/master/v1.31.0-standalone-strict/pod-v1.json}"
work="$(mktemp -d "${TMPDIR:-/tmp}/chronik-helm.XXXXXX")"
trap 'rm -rf "$work"' EXIT
export HELM_CACHE_HOME="$work/cache" HELM_CONFIG_HOME="$work/config" HELM_DATA_HOME="$work/data"

render() { # render FILE ARGUMENTS...
  local file="$work/$1"
  shift
  "$helm" lint --quiet --strict "$chart" "$@"
  "$helm" template broker "$chart" --namespace streams "$@" >"$file"
}
render one.yaml
render three.yaml --set replicas=3 --set antiAffinity=preferred --set serviceMonitor.enabled=true --set config.num\\.partitions=6
render secure.yaml --set replicas=3 --set security.secret=secure --set serviceMonitor.enabled=true
if "$helm" template broker "$chart" --set replicas=2 >/dev/null 2>&1; then echo "the chart accepts 2 brokers"; exit 1; fi

if ! command -v "$kubeconform" >/dev/null; then
  echo "NOT RUN: the schemas of Kubernetes, because kubeconform is not there"
elif curl -fsS --retry 2 --max-time 20 -o /dev/null "$schemas"; then
  "$kubeconform" -strict -summary -skip ServiceMonitor -kubernetes-version 1.31.0 "$work"/{one,three,secure}.yaml
else
  echo "NOT RUN: the schemas of Kubernetes, because $schemas does not answer"
fi
CHRONIKD="$PWD/bin/chronikd" CHRONIK_CHARTS="$work/three.yaml $work/secure.yaml" \
  go test -count=1 -timeout 20m -v -run '^TestChart$' ./internal/testing/system/
