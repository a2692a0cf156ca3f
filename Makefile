# chronik. `make help` lists the targets.

SHELL := /bin/bash
BIN := bin
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# Functions at 16 bytes instead of 32: chronikd and chronikctl have 400 kB less, and the same speed.
LDFLAGS := -s -w -funcalign=16 -X main.version=$(VERSION)
# No program needs HTTP/2 of net/http, which has 0.35 MB in each; scripts/release has the same tag.
GOFLAGS_BUILD := -trimpath -tags nethttpomithttp2 -ldflags '$(LDFLAGS)'
GOLANGCI := $(shell command -v golangci-lint 2>/dev/null || echo $(shell go env GOPATH)/bin/golangci-lint)
GOLANGCI_VERSION := v2.15.0
VALE := $(shell command -v vale 2>/dev/null || echo $(shell go env GOPATH)/bin/vale)
VALE_VERSION := v3.22.0
HELM := $(shell command -v helm 2>/dev/null || echo $(shell go env GOPATH)/bin/helm)
HELM_VERSION := v3.18.4
GOVULNCHECK := $(shell command -v govulncheck 2>/dev/null || echo $(shell go env GOPATH)/bin/govulncheck)
GOVULNCHECK_VERSION := v1.8.0
# Packages of test and test-race, and the time limit of a package's tests: a busy machine
# may take longer than the ten minutes that Go allows. test-race tests a package that hung once more.
PKGS ?= ./...
TEST_TIMEOUT ?= 15m
RACE_TIMEOUT ?= 25m
# How many packages are tested at once: two for each processor, since many tests wait for a disk, for
# elections or for sessions.
PACKAGES_AT_ONCE ?= $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))
# How long each fuzz target runs. `make crash` kills the running broker KILLS times and models
# MODEL_RUNS histories with losses of power. MODEL_RUNS, SIM_WALKS (of each config), SIM_HISTORIES and
# ROUNDS are numbers, or durations like 45s in which another history begins.
FUZZTIME ?= 30s
KILLS ?= 50
KILLED ?= ^TestKill
MODEL_RUNS ?= 5000
# The attacks of `make hostile`, and the duration of `make hostile-soak`.
ATTACKS ?= all
# How many logins `make timing` times as users that exist, and as others.
TIMING ?= 10000
SOAK ?= 10m
# The browser of `make screenshots`, and a regular expression for the pictures to take.
CHROMIUM ?= $(firstword $(shell command -v chromium chromium-browser google-chrome 2>/dev/null))
PAGES ?= .
# The duration of `make chaos`, the walks and the histories of whole brokers of `make sim`, and the faults of `make cluster-torture`.
CHAOS ?= 10m
SIM_WALKS ?= 1000000
SIM_HISTORIES ?= 5000
ROUNDS ?= 100

.DEFAULT_GOAL := help

.PHONY: help
help: ## prints this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## bin/chronikd, bin/chronikctl and bin/chronik-bench, static
	CGO_ENABLED=0 go build $(GOFLAGS_BUILD) -o $(BIN)/chronikd ./cmd/chronikd
	CGO_ENABLED=0 go build $(GOFLAGS_BUILD) -o $(BIN)/chronikctl ./cmd/chronikctl
	CGO_ENABLED=0 go build $(GOFLAGS_BUILD) -o $(BIN)/chronik-bench ./cmd/chronik-bench

.PHONY: run
run: build ## start a broker on localhost:9092 with its data in ./data
	exec $(BIN)/chronikd

# Packages whose rules the tag breakrules can switch off.
RULES := ./internal/storage/ ./internal/storage/journal/ ./internal/metadata/ ./internal/metadata/raftstore/ \
	./internal/replica/ ./internal/replica/progress/ ./internal/replica/stream/ ./internal/controller/ ./internal/controller/election/ ./internal/testing/sim/ \
	./internal/coordinator/txn/ ./internal/coordinator/group/ ./internal/coordinator/sharestate/ \
	./internal/sharegroup/window/ ./internal/shareleader/ ./internal/shareleader/deadletter/ \
	./internal/archive/tier/ ./internal/archive/tierread/ ./internal/archive/upload/ ./internal/archive/writer/

# `make lint` has all of vet.
QUICKLY := -vet=off
# Tests have small heaps with much garbage, and a fifth of their time went into its collection.
GARBAGE := GOGC=200
# Those that take the longest begin first, and the others run beside them.
LONG := ./internal/testing/brokers ./internal/testing/system ./internal/storage

.PHONY: test test-all test-rules
test: ## all tests that need nothing but Go
	@$(MAKE) --no-print-directory -j2 test-all test-rules
test-all:
	$(GARBAGE) go test $(QUICKLY) -p=$(PACKAGES_AT_ONCE) -timeout $(TEST_TIMEOUT) $(if $(filter ./...,$(PKGS)),$(LONG)) $(PKGS)
test-rules: # one package at a time, while long tests wait
	$(GARBAGE) go test $(QUICKLY) -p=1 -timeout $(TEST_TIMEOUT) -tags breakrules -run Rule $(RULES)

.PHONY: quick
quick: ## tests the packages that differ from BASE (default main), and for the rest of a minute those that import them
	scripts/quick.sh

.PHONY: test-race
test-race: ## all tests with the race detector (SHORT=-short without the longest)
	scripts/race.sh $(SHORT) -p=$(PACKAGES_AT_ONCE) -timeout $(RACE_TIMEOUT) $(PKGS)

.PHONY: test-pauses
test-pauses: ## all tests COUNT times, while goroutines pause at random places
	go run ./scripts/pauses -short -p=$(PACKAGES_AT_ONCE) -timeout $(RACE_TIMEOUT) -count=$(or $(COUNT),1) $(PKGS)

.PHONY: lint
lint: ## gofmt, golangci-lint with all of go vet, and go vet with the tags of tests
	@out=$$(gofmt -l cmd internal pkg scripts); test -z "$$out" || { echo "gofmt -w these files:"; echo "$$out"; exit 1; }
	go vet -tags breakrules $(RULES) ./internal/testing/brokers/
	go vet -tags removals ./internal/testing/removed/
	@test -x "$(GOLANGCI)" || { echo "golangci-lint is missing: go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)"; exit 1; }
	$(GOLANGCI) run ./...

.PHONY: prose
prose: ## the words and sentences of comments, messages and pages (vale)
	@test -x "$(VALE)" || { echo "vale is missing: go install github.com/vale-cli/vale/v3/cmd/vale@$(VALE_VERSION)"; exit 1; }
	git ls-files -z '*.go' '*.md' | xargs -0 $(VALE) --output=line
	go test -run 'Messages|DroppedNames|LinesFit' ./internal/testing/lint

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (default 30s)
	scripts/fuzz.sh $(FUZZTIME)

.PHONY: crash crash-histories
crash-histories: build
	CHRONIKD=$(CURDIR)/$(BIN)/chronikd CHRONIK_KILLS=$(KILLS) go test -count=1 -timeout 60m -v -run '$(KILLED)' ./internal/testing/system/
	CHRONIK_MODEL_RUNS=$(MODEL_RUNS) go test -count=1 -timeout 60m -v -run '^TestModel' ./internal/storage/
crash: crash-histories ## kill -9 of the real binary under load, KILLS times; MODEL_RUNS modelled losses of power
	CHRONIK_MODEL_RUNS=1 go test -count=1 -timeout 60m -v -tags breakrules -run Rule ./internal/storage/
	CHRONIK_EVERY_CALL=1 go test -count=1 -timeout 60m -run 'PowerLoss|Fault|AtEveryCall' ./internal/storage/
	CHRONIK_EVERY_CALL=1 go test -count=1 -timeout 60m -run 'EveryCall|CanBeKilled' ./internal/archive/snapshots/ ./internal/archive/restore/
	CHRONIK_INSPECT_RUNS=1 go test -count=1 -timeout 60m -run "AtEachCall|AtEveryCall" ./internal/inspect/
	go test -count=1 -timeout 60m -run 'Crash|Model|Power' ./internal/statelog/ ./internal/metadata/raftstore/ ./internal/metadata/copies/ ./internal/storage/checkpoint/ ./internal/storage/journal/ ./internal/testing/crashfs/

# A history without end fails with a dump, rather than take all memory of the machine.
.PHONY: sim sim-histories
sim-histories:
	CHRONIK_SIM_WALKS=$(SIM_WALKS) go test -count=1 -timeout 6h -v -run '^TestWalks$$' ./internal/testing/sim/
	ulimit -v 12000000 && CHRONIK_SIM_HISTORIES=$(SIM_HISTORIES) go test -count=1 -timeout 6h -v -run '^TestRandomFaults$$' ./internal/testing/brokers/
sim: sim-histories ## SIM_WALKS random walks (default 1000000) of one partition and SIM_HISTORIES of three whole brokers (5000); each rule removed once
	CHRONIK_SIM_RULES=20000 go test -count=1 -timeout 6h -v -tags breakrules -run Rule ./internal/testing/sim/
	CHRONIK_SIM_RULES=500 go test -count=1 -timeout 6h -v -tags breakrules -run Rule ./internal/testing/brokers/
	go test -count=1 -timeout 6h -v -tags removals -run WithoutEachRule ./internal/testing/removed/

.PHONY: chaos
chaos: build ## for CHAOS, 20 consumers of both protocols join, leave, crash and pause while kill -9 stops the broker
	CHRONIKD=$(CURDIR)/$(BIN)/chronikd CHRONIK_CHAOS=$(CHAOS) go test -count=1 -timeout 6h -v -run '^TestGroupsInChaos$$' ./internal/testing/system/

.PHONY: cluster-torture
cluster-torture: build ## ROUNDS faults (default 100) of three brokers under load: processes, networks, disks, losses of power (SEED=n FAULT=text)
	scripts/skewed.sh $(CURDIR)/$(BIN)/chronikd-skewed
	CHRONIKD=$(CURDIR)/$(BIN)/chronikd CHRONIKD_SKEWED=$(CURDIR)/$(BIN)/chronikd-skewed CHRONIK_CLUSTER_ROUNDS=$(ROUNDS) CHRONIK_CLUSTER_SEED=$(SEED) CHRONIK_CLUSTER_FAULT="$(FAULT)" go test -count=1 -timeout 6h -v -run '^Test(ClusterUnderFaults|AWitnessUnderFaults|TieredRecordsUnderFaults|PartitionsMoveUnderLoad|ThreeVotersGrowToFive|MetadataAreRestoredFromACopy)$$' ./internal/testing/system/

.PHONY: snapshot-torture
snapshot-torture: build ## ROUNDS snapshots (default 100) of three brokers that are killed while money moves; each is restored, and clients and a group continue
	CHRONIKD=$(CURDIR)/$(BIN)/chronikd CHRONIK_SNAPSHOT_ROUNDS=$(or $(ROUNDS),100) go test -count=1 -timeout 6h -v -run '^TestSnapshotsAreWholeTransactions$$' ./internal/testing/system/

.PHONY: object-stores
object-stores: build ## snapshots and old records in object stores of others, on this machine; Kafka's kafka-dump-log reads them (STORES="directory versitygw moto seaweedfs")
	scripts/object-stores.sh $(STORES)

.PHONY: soak
soak: build ## for HOURS (default 1), three brokers under every load and faults, and with UPGRADE=1 changes of version; a report of what grows in dist/soak (SEED=n FAULT=text)
	@former=; if [ -n "$(UPGRADE)" ]; then former=$$(scripts/former.sh $(CURDIR)/$(BIN)) || exit; former=$${former##*:}; fi; \
	CHRONIKD=$(CURDIR)/$(BIN)/chronikd CHRONIKD_FORMER=$$former CHRONIK_SOAK=$(or $(HOURS),1)h CHRONIK_SOAK_REPORT=$(or $(REPORT),$(CURDIR)/dist/soak) CHRONIK_CLUSTER_SEED=$(SEED) CHRONIK_CLUSTER_FAULT="$(FAULT)" go test -count=1 -timeout 100h -v -run '^TestSoak$$' ./internal/testing/system/

.PHONY: rolling-upgrade
rolling-upgrade: build ## three brokers of each commit in scripts/former are upgraded, downgraded and upgraded under load
	@former=$$(scripts/former.sh $(CURDIR)/$(BIN)) || { rc=$$?; test $$rc = 3 && exit 0; exit $$rc; }; \
	CHRONIKD=$(CURDIR)/$(BIN)/chronikd CHRONIKD_FORMER=$$former go test -count=1 -timeout 20m -v -run '^TestRollingUpgrade$$' ./internal/testing/system/

.PHONY: keep-release
keep-release: ## keeps the directories of three brokers of this version for ever, as the release VERSION (VERSION=0.2.0)
	CHRONIK_KEEP_RELEASE=$(VERSION) go test -count=1 -timeout 20m -v -run '^TestKeepARelease$$' ./internal/testing/system/

.PHONY: helm
helm: build ## the Helm chart: linted, decoded as objects of Kubernetes, and run by three processes through a rolling restart
	@test -x "$(HELM)" || { echo "helm is missing: go install helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)"; exit 1; }
	scripts/helm.sh "$(HELM)"

.PHONY: cluster-scale
cluster-scale: build ## three brokers with 10 and with 10,000 partitions: creation, idle, cost of a change, fail-over, stop, start (SIZES="10 10000")
	python3 scripts/cluster-scale.py $(SIZES)

.PHONY: cluster-move
cluster-move: build ## what clients notice while 1,000 partitions move from three to five brokers, and how long a dead broker takes to replace
	scripts/cluster-move.sh

.PHONY: hostile
hostile: build ## the cost of attacks without login: memory, its duration, other clients' p99 (ATTACKS=name,name)
	CHRONIKD=$(CURDIR)/$(BIN)/chronikd CHRONIK_HOSTILE=$(ATTACKS) go test -count=1 -timeout 60m -v -run '^TestHostile' ./internal/testing/system/

.PHONY: hostile-memory
hostile-memory: build ## the memory that attacks without login hold at full size; measures no response times (ATTACKS=name,name)
	CHRONIKD=$(CURDIR)/$(BIN)/chronikd CHRONIK_HOSTILE_MEMORY=$(ATTACKS) go test -count=1 -timeout 60m -v -run '^TestHostileClientsUseLittleMemory$$' ./internal/testing/system/

.PHONY: hostile-soak
hostile-soak: build ## for SOAK, 1,000 connections of hostile and honest clients to a broker with 64 MiB; the honest clients' p99
	CHRONIKD=$(CURDIR)/$(BIN)/chronikd CHRONIK_HOSTILE=$(ATTACKS) CHRONIK_HOSTILE_SOAK=$(SOAK) go test -count=1 -timeout 24h -v -run '^TestHostileSoak$$' ./internal/testing/system/

.PHONY: timing
timing: build ## whether the time of answers tells which users exist: Welch's t of TIMING logins each (default 10,000)
	CHRONIKD=$(CURDIR)/$(BIN)/chronikd CHRONIK_TIMING=$(TIMING) go test -count=1 -timeout 60m -v -run '^TestUsersCannotBeTimed$$' ./internal/testing/system/

.PHONY: drill
drill: build ## causes faults in a broker under load, measures the time until the report, follows the printed remedy (FAULTS="damage full-disk" NODES=3 WITHIN=ms)
	NODES=$(or $(NODES),1) scripts/drill.sh $(FAULTS)

.PHONY: bench
bench: build ## the table of docs/performance.md, compared with Kafka if it is there (ROWS="closed single")
	scripts/bench.sh $(ROWS)

.PHONY: bench-all
bench-all: build ## every table of docs/performance.md, durability.md and rivals.md in one run of about 150 minutes (PARTS="main brokers" OUT=DIR)
	scripts/bench-all.sh $(PARTS)

.PHONY: bench-windows
bench-windows: build ## latency for each window of the profiles, on this disk and with syncs of SYNC_TIME (5ms); UPDATE=1 writes docs/durability.md
	scripts/bench.sh syncs

.PHONY: bench-start
bench-start: build ## the start times and idle costs of docs/performance.md
	CHRONIKD=$(CURDIR)/$(BIN)/chronikd go test -run '^$$' -bench . -benchtime 10x ./internal/testing/system/

.PHONY: bench-store
bench-store: build ## the costs of snapshots and tiered storage of docs/performance.md (ROWS="bystanders load copy tier idle" SIZE=4G DURATION=30 INTERVAL=60 ROUNDS=3)
	python3 scripts/bench-store.py $(ROWS)

.PHONY: clients
clients: build ## real Kafka clients write and read back 100,000 records each (NODES=3: against three brokers; RESTARTS=1: which restart; CLIENTS=all)
	scripts/clients/run.sh $(CLIENTS)

.PHONY: cli-smoke
cli-smoke: build ## Kafka's own command-line tools; only failures that docs/compatibility.md lists may occur (SECTIONS="topics groups"; NODES=3)
	scripts/cli-smoke.sh $(SECTIONS)

.PHONY: judges
judges: build ## test suites of others against chronik; only failures that scripts/judges/expected lists may occur (JUDGES="kafka-clients kgo" CASES=regexp)
	CASES='$(CASES)' scripts/judges/run.sh $(JUDGES)

.PHONY: rivals
rivals: build ## brokers that make the same promise, under the same loads and losses of power (RIVALS="nats klite" PARTS="speed power" KLITE=file)
	scripts/rivals.sh $(RIVALS)

.PHONY: acl-table
acl-table: ## records what Kafka's authorizer decides for random access rules, for the tests of internal/security/acl (needs Kafka's jars)
	scripts/acl-table/record.sh

.PHONY: image
image: build ## builds and tests the container image: size, health, clients from outside
	scripts/image.sh chronik:dev

.PHONY: sbom
sbom: build ## a bill of materials (CycloneDX) for each program, in dist/sbom
	go run ./scripts/sbom $(VERSION) dist/sbom $(BIN)/chronikd $(BIN)/chronikctl $(BIN)/chronik-bench

.PHONY: vulnerabilities
vulnerabilities: ## known vulnerabilities in what the programs call (govulncheck)
	@test -x "$(GOVULNCHECK)" || { echo "govulncheck is missing: go install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)"; exit 1; }
	$(GOVULNCHECK) ./cmd/... ./pkg/...

# The tool is a module of its own, so that its libraries are not those of chronik.
RELEASE := .cache/bin/release
.PHONY: release-tool
release-tool:
	cd scripts/release && CGO_ENABLED=0 GOFLAGS=-mod=readonly go build -trimpath -o $(CURDIR)/$(RELEASE) .

# The version of a release is an argument only: that of an ordinary build is a commit.
RELEASE_VERSION := $(if $(filter command line environment,$(origin VERSION)),$(VERSION))
SIGN ?=

.PHONY: site
site: ## the documentation as a site in dist/site, searchable without a server; fails on a link or an anchor that leads nowhere
	cd scripts/site && CGO_ENABLED=0 GOFLAGS=-mod=readonly go build -trimpath -o $(CURDIR)/.cache/bin/site .
	.cache/bin/site -into dist/site -version '$(VERSION)'

.PHONY: release
release: release-tool ## everything that a release publishes, in dist/VERSION (VERSION=0.1.0; SIGN="command" signs SHA256SUMS)
	SIGN='$(SIGN)' scripts/release.sh $(RELEASE) $(if $(RELEASE_VERSION),-version $(RELEASE_VERSION))

.PHONY: release-check
release-check: ## builds a release of the commit twice, compares the bytes, installs and runs each artifact, follows docs/install.md (QUICK=1: a part)
	scripts/release-check.sh

.PHONY: packages
packages: release-tool ## .deb and .rpm of this tree in dist
	$(RELEASE) -platforms linux/amd64,linux/arm64 -only packages -into dist

.PHONY: packages-test
packages-test: ## install, run under systemd and remove the packages of dist in a clean root
	scripts/packages-test.sh

.PHONY: prometheus
prometheus: build ## the alerts' tests, and every query against a Prometheus that scrapes a broker under load
	scripts/prometheus.sh live

.PHONY: screenshots
screenshots: ## tests the script of the admin port's page with Chromium; pictures in dist/screenshots (PAGES=regexp)
	@test -n "$(CHROMIUM)" || { echo "Chromium is missing: apt-get install chromium, or set CHROMIUM to its path"; exit 1; }
	CHROMIUM=$(CHROMIUM) CHRONIK_SCREENSHOTS=$(CURDIR)/dist/screenshots PAGES='$(PAGES)' go test -count=1 -timeout 20m -v -run 'Screenshots|Script' ./internal/admin/page/
