# chronik. `make help` lists the targets.

SHELL := /bin/bash
BIN := bin
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)
GOFLAGS_BUILD := -trimpath -ldflags '$(LDFLAGS)'
GOLANGCI := $(shell command -v golangci-lint 2>/dev/null || echo $(shell go env GOPATH)/bin/golangci-lint)
GOLANGCI_VERSION := v2.15.0
VALE := $(shell command -v vale 2>/dev/null || echo $(shell go env GOPATH)/bin/vale)
VALE_VERSION := v3.22.0
# Packages of test and test-race, and when a package's tests are taken for hung: a
# busy machine may take longer than the ten minutes that Go allows.
PKGS ?= ./...
TEST_TIMEOUT ?= 30m
# Time that each fuzz target runs; kills of the running broker and histories with
# losses of power in `make crash`.
FUZZTIME ?= 30s
KILLS ?= 50
MODEL_RUNS ?= 5000
# The attacks of `make hostile`, and how long `make hostile-soak` lasts.
ATTACKS ?= all
SOAK ?= 10m
# The browser of `make screenshots`, and which pictures it takes.
CHROMIUM ?= $(firstword $(shell command -v chromium chromium-browser google-chrome 2>/dev/null))
PAGES ?= .
# How long `make chaos` lets consumers come, go and stand still.
CHAOS ?= 10m

.DEFAULT_GOAL := help

.PHONY: help
help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## bin/chronikd, bin/chronikctl and bin/chronik-bench, static
	CGO_ENABLED=0 go build $(GOFLAGS_BUILD) -o $(BIN)/chronikd ./cmd/chronikd
	CGO_ENABLED=0 go build $(GOFLAGS_BUILD) -o $(BIN)/chronikctl ./cmd/chronikctl
	CGO_ENABLED=0 go build $(GOFLAGS_BUILD) -o $(BIN)/chronik-bench ./cmd/chronik-bench

.PHONY: run
run: build ## start a broker on localhost:9092 with its data in ./data
	exec $(BIN)/chronikd

.PHONY: test
test: ## all tests that need nothing but Go
	go test -timeout $(TEST_TIMEOUT) $(PKGS)
	go test -timeout $(TEST_TIMEOUT) -tags breakrules -run Rule ./internal/storage/ ./internal/storage/journal/

.PHONY: test-race
test-race: ## the same under the race detector
	CGO_ENABLED=1 go test -race -timeout $(TEST_TIMEOUT) $(PKGS)

.PHONY: lint
lint: ## gofmt, go vet, golangci-lint
	@out=$$(gofmt -l cmd internal pkg scripts); test -z "$$out" || { echo "gofmt -w these files:"; echo "$$out"; exit 1; }
	go vet ./...
	go vet -tags breakrules ./internal/storage/...
	@test -x "$(GOLANGCI)" || { echo "golangci-lint is missing: go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)"; exit 1; }
	$(GOLANGCI) run ./...

.PHONY: prose
prose: ## the words and sentences of comments, messages and pages (vale)
	@test -x "$(VALE)" || { echo "vale is missing: go install github.com/vale-cli/vale/v3/cmd/vale@$(VALE_VERSION)"; exit 1; }
	git ls-files -z '*.go' '*.md' | xargs -0 $(VALE) --output=line
	go test -run 'Messages|DroppedNames|LinesFit' ./internal/lint

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (default 30s)
	scripts/fuzz.sh $(FUZZTIME)

.PHONY: crash
crash: build ## kill -9 of the real binary under load, KILLS times, and MODEL_RUNS modelled losses of power
	CHRONIKD=$(CURDIR)/$(BIN)/chronikd CHRONIK_KILLS=$(KILLS) go test -count=1 -timeout 60m -v -run '^TestKill' ./cmd/chronikd/
	CHRONIK_MODEL_RUNS=$(MODEL_RUNS) go test -count=1 -timeout 60m -v -run '^TestModel' ./internal/storage/
	CHRONIK_MODEL_RUNS=1 go test -count=1 -timeout 60m -v -tags breakrules -run Rule ./internal/storage/
	go test -count=1 -timeout 60m -run 'Crash|Model|Power' ./internal/statelog/ ./internal/metadata/filestore/ ./internal/storage/checkpoint/ ./internal/storage/journal/ ./internal/vfs/crashfs/

.PHONY: chaos
chaos: build ## 20 consumers of both protocols come, go, die and stand still for CHAOS while the broker is killed with kill -9
	CHRONIKD=$(CURDIR)/$(BIN)/chronikd CHRONIK_CHAOS=$(CHAOS) go test -count=1 -timeout 6h -v -run '^TestGroupsInChaos$$' ./cmd/chronikd/

.PHONY: hostile
hostile: build ## what clients that have not logged in may cost: memory, for how long, and others' p99 (ATTACKS=name,name)
	CHRONIKD=$(CURDIR)/$(BIN)/chronikd CHRONIK_HOSTILE=$(ATTACKS) go test -count=1 -timeout 60m -v -run '^TestHostile' ./cmd/chronikd/

.PHONY: hostile-soak
hostile-soak: build ## a broker of 64 MiB with 1,000 connections of hostile and honest clients for SOAK; the honest ones' p99
	CHRONIKD=$(CURDIR)/$(BIN)/chronikd CHRONIK_HOSTILE=$(ATTACKS) CHRONIK_HOSTILE_SOAK=$(SOAK) go test -count=1 -timeout 24h -v -run '^TestHostileSoak$$' ./cmd/chronikd/

.PHONY: drill
drill: build ## faults planted on a running broker under load: time until reported, and the printed remedy followed (FAULTS="damage full-disk")
	scripts/drill.sh $(FAULTS)

.PHONY: bench
bench: build ## the table of docs/performance.md, beside Kafka where one can be started; ROWS="closed single" for some
	scripts/bench.sh $(ROWS)

.PHONY: bench-windows
bench-windows: build ## what the windows of the profiles bring, on this disk and on one of SYNC_TIME (5ms) for a sync; UPDATE=1 writes docs/durability.md
	scripts/bench.sh syncs

.PHONY: bench-start
bench-start: build ## the figures of docs/performance.md about starting and idling
	CHRONIKD=$(CURDIR)/$(BIN)/chronikd go test -run '^$$' -bench . -benchtime 10x ./cmd/chronikd/

.PHONY: clients
clients: build ## real Kafka clients write and read back 100,000 records each
	scripts/clients/run.sh $(CLIENTS)

.PHONY: cli-smoke
cli-smoke: build ## Kafka's own command-line tools; what does not pass is what docs/compatibility.md lists (SECTIONS="topics groups")
	scripts/cli-smoke.sh $(SECTIONS)

.PHONY: image
image: build ## the container image, tried: size, health, clients from outside
	scripts/image.sh chronik:dev

.PHONY: packages
packages: ## .deb and .rpm in dist (nfpm)
	scripts/packages.sh

.PHONY: packages-test
packages-test: ## install, run under systemd and remove the packages of dist in a clean root
	scripts/packages-test.sh

.PHONY: prometheus
prometheus: build ## the alerts' tests, and every query against a Prometheus that scrapes a broker under load
	scripts/prometheus.sh live

.PHONY: screenshots
screenshots: ## pictures of the admin port's page in dist/screenshots, and its script tried, with Chromium (PAGES=regexp)
	@test -n "$(CHROMIUM)" || { echo "Chromium is missing: apt-get install chromium, or set CHROMIUM to its path"; exit 1; }
	CHROMIUM=$(CHROMIUM) CHRONIK_SCREENSHOTS=$(CURDIR)/dist/screenshots PAGES='$(PAGES)' go test -count=1 -timeout 20m -v -run 'Screenshots|Script' ./internal/admin/page/

.PHONY: release-check
release-check: ## what a release would be, without publishing it (goreleaser)
	goreleaser check
	goreleaser release --snapshot --clean --skip=publish
