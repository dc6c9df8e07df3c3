# Frazil. `make help` lists the targets. Everything here runs without root; what needs root is in .ci/run.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

MODULES := proto libs services tools integration
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X github.com/frazil-io/frazil/services/app.buildVersion=$(VERSION)
FUZZTIME ?= 20s
# -split runs the demo's services in processes of their own.
DEMO_FLAGS ?=
# What the tests of the integration module start: off, smoke (no root, one broker) or full (see .ci/run). It is not
# exported: the gateway takes every FRAZIL_ variable for configuration and refuses what it does not know.
FRAZIL_INTEGRATION ?= smoke
PYTHON ?= python3

# The tests of many readers and waiters in one process with the product, where the race detector sees both.
READERS := TestReadersDo|TestClientsThat|TestRequestsThat

.PHONY: help build demo test test-race fuzz lint generate fmt check bench soak integration alone tidy clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

build: ## bin/frazil, one static binary
	@mkdir -p bin
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/frazil ./services/cmd/frazil

demo: build .venv/.demo ## a broker, made-up CDC events, Frazil, and DuckDB and PyIceberg reading the table
	@mkdir -p .cache/bin
	go build -o .cache/bin/demo ./integration/cmd/demo
	.cache/bin/demo -frazil bin/frazil -python .venv/bin/python $(DEMO_FLAGS)

# The engines that read the tables, pinned, in a local environment.
.venv/.demo: integration/cmd/demo/requirements.txt
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

test: build alone ## every module alone, vet, and all tests with the invariants on
	go vet work
	FRAZIL_INTEGRATION=$(FRAZIL_INTEGRATION) go test -tags invariant -timeout 40m work

alone: # each module builds without the workspace
	@for m in $(MODULES); do echo "GOWORK=off go build ./$$m/..."; (cd $$m && GOWORK=off go build -o /dev/null ./...); done

test-race: build ## the tests of libs, services and tools, and those of many readers, under the race detector
	go test -race -tags invariant -timeout 40m ./libs/... ./services/... ./tools/...
	FRAZIL_INTEGRATION=$(FRAZIL_INTEGRATION) go test -race -tags invariant -timeout 10m -run '$(READERS)' ./integration/replicas

fuzz: ## every fuzz target for FUZZTIME
	@for m in libs services tools; do \
	  (cd $$m; for p in $$(go list ./...); do \
	    for f in $$(go test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
	      echo "$$p $$f"; go test -tags invariant -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$p; \
	    done; done); done

# BENCH=a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q chooses parts, BENCH_SIZE is events per topic, BENCH_ROUNDS how often each pair is measured.
bench: build ## the measurements of docs/BENCHMARKS.md, side by side in one run
	FRAZIL_INTEGRATION=bench FRAZIL_BENCH='$(BENCH)' FRAZIL_BENCH_EVENTS='$(BENCH_SIZE)' FRAZIL_BENCH_ROUNDS='$(BENCH_ROUNDS)' \
	  go test -timeout 90m -count 1 -run '^TestBench$$' -v ./integration/bench

# MINUTES is how long; SOAK_FLAGS='-soak.seed=N' runs one program again, -soak.case=FILE one that was printed.
MINUTES ?= 10
SOAK_FLAGS ?=
soak: ## random programs against the whole product for MINUTES; what fails is shrunk and printed
	go test -tags invariant -count 1 -timeout 0 -run '^TestSoak$$' -v ./integration/soak -soak.minutes=$(MINUTES) $(SOAK_FLAGS)

integration: build ## the end-to-end tests alone; FRAZIL_INTEGRATION=full for all of them
	FRAZIL_INTEGRATION=$(FRAZIL_INTEGRATION) go test -tags invariant -timeout 80m -v ./integration/...

# Developer tools are pinned in build/devtools and built on first use.
.cache/bin/%: build/devtools/go.mod
	@mkdir -p $(@D)
	cd build/devtools && GOWORK=off go build -o $(CURDIR)/$@ $$(GOWORK=off go list tool | grep '/$*$$')

lint: .cache/bin/golangci-lint .cache/bin/buf ## golangci-lint and buf
	@for m in $(MODULES); do echo "lint $$m"; (cd $$m && $(CURDIR)/.cache/bin/golangci-lint run --config $(CURDIR)/.golangci.yml ./...); done
	.cache/bin/buf lint

fmt: ## gofmt everything that is not generated
	@gofmt -w $$(git ls-files '*.go' | grep -v '^proto/gen/')

generate: .cache/bin/buf .cache/bin/protoc-gen-go .cache/bin/protoc-gen-go-grpc ## the protobuf code and go.work
	PATH="$(CURDIR)/.cache/bin:$$PATH" .cache/bin/buf generate
	@{ printf 'go %s\n\nuse (\n' "$$(sed -n 's/^go //p' go.work)"; printf '\t./%s\n' $(sort $(MODULES)); printf ')\n'; } > go.work.new && mv go.work.new go.work

tidy: ## go mod tidy in every module
	@for m in $(MODULES); do (cd $$m && GOWORK=off go mod tidy); done

check: generate fmt lint ## what a change must pass beside the tests: generated code, format, lint, tidy modules
	@for m in $(MODULES); do (cd $$m && GOWORK=off go mod tidy -diff); done
	@test -z "$$(git status --porcelain)" || { git status --porcelain; echo 'the work tree has changed: commit what make check made'; exit 1; }

clean: ## remove what was built
	rm -rf bin .cache .venv
