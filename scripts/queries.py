"""queries.py PROMETHEUS METRICS   runs every query of deploy/grafana and of the rules
against a Prometheus that scrapes brokers under load, and holds their metric names
against METRICS, scrapes of these brokers. Prints what is wrong and fails.
"""

import glob
import json
import re
import sys
import urllib.error
import urllib.parse
import urllib.request

prometheus, scraped = sys.argv[1], sys.argv[2]

# Metrics that get their first series with the first event of their kind, which
# some seconds of load on a healthy broker need not bring.
RARE = {
    "chronik_connections_refused_total",
    "chronik_connections_closed_total",
    "chronik_budget_waits_total",
    "chronik_request_throttle_seconds_total",
    "chronik_segments_removed_total",
    "chronik_segments_removed_bytes_total",
    "chronik_elections_total",
    "chronik_isr_changes_total",
    "chronik_txn_marker_retries_total",
    "chronik_txn_ids_crowded_total",
    # Only with TLS, logins, an audit log or quotas.
    "chronik_tls_handshakes_total",
    "chronik_logins_total",
    "chronik_certificate_expiry_seconds",
    "chronik_audit_lines_total",
    "chronik_audit_events_counted_total",
    "chronik_quota_throttle_seconds_total",
    # Only while something waits.
    "chronik_partition_lso_age_seconds",
    "chronik_txn_markers_waiting",
    # Only with share groups.
    "chronik_share_partitions",
    "chronik_share_group_sessions",
    "chronik_share_group_records",
    "chronik_share_group_delivered_total",
    "chronik_share_group_redelivered_total",
    "chronik_share_group_timed_out_total",
    "chronik_share_group_acknowledged_total",
    "chronik_share_group_archived_total",
    "chronik_share_group_letters_copied_total",
    "chronik_share_group_letters_failed_total",
    "chronik_share_group_letters_failing_seconds",
}

# Queries of which an empty answer is the good one.
EMPTY_IS_WELL = re.compile(r"last_run_timestamp_seconds\{.*> 0")

with open(scraped, encoding="utf-8") as f:
    exported = set()
    for line in f:
        if line.startswith("# TYPE "):
            name, kind = line.split()[2:]
            exported |= {name + s for s in ("_bucket", "_sum", "_count")} if kind == "histogram" else {name}

wrong = []
with open("internal/metrics/names.go", encoding="utf-8") as f:
    known = f.read()
wrong += [f"{name}: there is no such metric" for name in sorted(RARE) if f'"{name}"' not in known]
queries = []  # (where, query, must find something)
for path in sorted(glob.glob("deploy/grafana/dashboards/*.json")):
    with open(path, encoding="utf-8") as f:
        board = json.load(f)
    for panel in board["panels"]:
        for target in panel["targets"]:
            queries.append((f"{path}: {panel['title']}", target["expr"], True))
    for var in board["templating"]["list"]:
        if var["type"] == "query":
            inside = re.fullmatch(r"label_values\((.*), (\w+)\)", var["definition"])
            queries.append((f"{path}: variable {var['name']}", inside.group(1), True))


def get(path, **params):
    url = f"{prometheus}/api/v1/{path}?{urllib.parse.urlencode(params)}"
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return json.load(answer)["data"], None
    except urllib.error.HTTPError as e:
        return None, json.load(e)["error"]


recorded = set()
for group in get("rules")[0]["groups"]:
    for rule in group["rules"]:
        where = f"rules.yml: {rule['name']}"
        if rule["health"] != "ok":
            wrong.append(f"{where}: {rule.get('lastError') or rule['health']}")
        if rule["type"] == "recording":
            recorded.add(rule["name"])
        elif rule["state"] == "firing":
            wrong.append(f"{where} fires on a healthy broker")
        queries.append((where, rule["query"], False))

METRIC = re.compile(r"\b(?:chronik|process|go)_[a-z0-9_]+\b|\bchronik:[a-z0-9_:]+")
used = set()
for where, query, finds in queries:
    # What Grafana fills in.
    query = query.replace("$__rate_interval", "10s").replace('"$instance"', '".*"').replace('"$topic"', '".*"').replace('"$group"', '".*"')
    # Labels and their values are no metrics.
    named = set(METRIC.findall(re.sub(r"\{[^}]*\}|\b(?:by|on) \([^)]*\)", "", query)))
    used |= named
    unknown = named - exported - recorded - RARE
    if unknown:
        wrong.append(f"{where}: the broker does not export {', '.join(sorted(unknown))}")
        continue
    data, error = get("query", query=query)
    if error:
        wrong.append(f"{where}: {error}")
    elif finds and not data["result"] and not named & RARE and not EMPTY_IS_WELL.search(query):
        wrong.append(f"{where}: finds nothing: {query}")

# Alerts and dashboards are there for what the broker tells: none of it is left out.
shown = {re.sub("_(bucket|sum|count)$", "", name) for name in used}
for name in sorted({re.sub("_(bucket|sum|count)$", "", n) for n in exported if n.startswith("chronik_")}):
    if name not in shown:
        wrong.append(f"{name} is exported, and no dashboard and no alert shows it")

print("\n".join(wrong) or f"{len(queries)} queries of dashboards and rules: all names are exported, all find what the load should show")
sys.exit(1 if wrong else 0)
