# `make help` says what there is.

CARGO ?= cargo
SHELL := /bin/sh

INVENTORY = $(CARGO) run --locked --profile demo -p stockade-inventory --no-default-features --features demo --

# For `make load`: one of loadtest/*.js, and the instances, separated by commas. The scripts call them TARGETS.
SCRIPTS := $(patsubst loadtest/%.js,%,$(wildcard loadtest/*.js))
SCRIPT ?= browse
TARGET ?= $(or $(TARGETS),http://127.0.0.1:8080)

.DEFAULT_GOAL := help
.PHONY: setup demo demo-once lab load loadtest dashboards test interop contract browser failovers mutants bench check fmt help

setup: ## Install redis-server and PostgreSQL if they are missing (apt, dnf, apk or brew); starts no service
	@./scripts/setup.sh

demo: setup ## Replay real orders through two instances on private servers, report, serve visitors until Ctrl-C
	@$(INVENTORY) demo

demo-once: setup ## The same, ending after the report: fails when stock and ledger disagree
	@$(INVENTORY) demo --exit

lab: setup ## Sell one SKU under every usual scheme: what is lost, what is oversold, how fast; draws docs/lab.svg
	@$(INVENTORY) lab --svg docs/lab.svg

load: ## Load a service that is there by k6: SCRIPT=sale TARGET=URL (loadtest/README.md)
	@command -v k6 >/dev/null || \
		{ echo "k6 is missing: see https://grafana.com/docs/k6/latest/set-up/install-k6/" >&2; exit 1; }
	@test -n "$(filter $(SCRIPTS),$(SCRIPT))" || { echo "SCRIPT is one of: $(SCRIPTS)" >&2; exit 1; }
	@mkdir -p target/load
	K6_WEB_DASHBOARD=true K6_WEB_DASHBOARD_PORT=-1 K6_WEB_DASHBOARD_EXPORT=target/load/$(SCRIPT).html \
		k6 run -e TARGETS=$(TARGET) --summary-export target/load/$(SCRIPT).json loadtest/$(SCRIPT).js

loadtest: setup ## Test the load test without k6: types, passes against the service, fails on faulty fakes; needs node
	@./scripts/loadtest.sh

dashboards: ## Hold the dashboards to the types that Grafana publishes; needs node, keeps the rest in target/
	@./scripts/dashboards.sh

# Tests wait more than they compute. With three for each processor some count or time what others delay.
test: ## Run every test, doc tests included, each against servers of its own; installs valgrind and Prometheus too
	@./scripts/setup.sh --test-tools
	RUST_TEST_THREADS=$$((2 * $$(getconf _NPROCESSORS_ONLN))) ./scripts/tests.sh
	./scripts/tests.sh --test scale

interop: setup ## Share locks by quorum with redis-py, pottery and redlock; needs python3 and node, keeps the rest in target/
	@./scripts/interop.sh

contract: setup ## Hold the service to its OpenAPI document with Schemathesis; needs python3, keeps the rest in target/
	@./scripts/contract.sh

browser: setup ## Use the console as a person would, in Chromium; needs node and Chromium, keeps the rest in target/
	@./scripts/browser.sh

failovers: setup ## Lose primaries under load, ten times in each way, and print what that costs (takes a quarter of an hour)
	STOCKADE_FAILOVERS=10 $(CARGO) test --locked -p stockade --all-features --test scale -- failover:: held_on_cluster:: --nocapture

mutants: setup ## Switch defences off one by one; the test named for each must fail (takes long; BASE=commit: those touched since)
	@./scripts/mutants.sh $(if $(BASE),--touched $(BASE))

bench: setup ## Measure locks, cache and service next to other libraries and floors, into docs/benchmarks.*; ROW=name: one group
	@$(CARGO) build --locked --release -p stockade-bench
	@$(CARGO) run --locked --release -p stockade-bench -- $(ROW)

check: ## What can be said without running anything: format, mutants that apply, lints, documentation, feature sets, package
	@./scripts/mutants.sh --check
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-features --all-targets -- -D warnings
	$(CARGO) clippy --locked --workspace --all-features --test interop --test scale -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --all-features --no-deps
	for features in "" "axum redlock" "postgres tls legacy-setnx msgpack lz4"; do \
		$(CARGO) clippy --locked --quiet -p stockade --no-default-features --features "$$features" -- -D warnings || exit 1; \
	done
	for features in "redlock tls" demo; do \
		$(CARGO) clippy --locked --quiet -p stockade-inventory --no-default-features --features "$$features" -- -D warnings || exit 1; \
	done
	$(CARGO) package --locked --quiet --no-verify --allow-dirty -p stockade

fmt: ## Format the code
	$(CARGO) fmt --all

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
