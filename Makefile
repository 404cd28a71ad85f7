# Everything a contributor types. `make dev` and `make test` set up what is missing by themselves.

CARGO ?= cargo
TARGET ?= $(or $(CARGO_TARGET_DIR),target)
# Tests kill masters at named points inside a submission; no other build has those points.
POINTS := --features interrex/kill-points
# Options of `interrex dev`, such as: make dev DEV="--base-port 20000"
DEV ?=
BENCH ?= failover --rounds 20

.PHONY: help setup dev build test test-spark test-ui verify lint unit ui fix bench dashboards docs dashboards-schema

help:
	@echo "make dev      build, and run 3 masters and 2 agents on this machine (Ctrl-C stops them)"
	@echo "make test     check format, lints and docs, and run every test; what CI runs. Fetches Spark (800 MB) once,"
	@echo "              for a few jobs of real Spark; INTERREX_SPARK_TESTS=0 make test does without"
	@echo "make test-spark   everything that is tested with real Spark: failovers, cluster mode, allocation, sessions"
	@echo "make test-ui  test the pages in a real browser alone; a part of make test where Chromium can be set up"
	@echo "make fix      format, and apply what the linter can fix"
	@echo "make docs     write what is made from code: docs/metrics.md and grafana/dashboards"
	@echo "make bench    build for speed and measure: make bench BENCH=\"submit --clients 1,16\""

setup:
	@./scripts/setup.sh

# A debug build: it is there in half the time, and nobody measures on it.
build: setup
	$(CARGO) build -p interrex -p wordcount

# `exec`: Ctrl-C and signals reach the cluster's process itself.
dev: build
	@exec $(TARGET)/debug/interrex dev $(DEV)

test: verify

# Needs a JDK (17) and Python; fetches two lines of Spark once. One cluster at a time.
test-spark: setup
	./scripts/fetch-spark.sh
	$(CARGO) build -p interrex -p wordcount $(POINTS)
	INTERREX_SPARK_TESTS=1 $(CARGO) test -p interrex $(POINTS) --test it -- --nocapture --test-threads 1 cluster::spark
	homes=$$(ls -d $${INTERREX_SPARK_CACHE:-$$HOME/.cache/interrex/spark}/*/lib/python*/site-packages/pyspark | paste -sd: -) && \
	  INTERREX_SPARK_HOMES=$$homes $(CARGO) test -p interrex-spark-wire --test it -- --nocapture a_jvm_reads an_installation

verify: setup lint unit ui

lint:
	$(CARGO) fmt --all -- --check
	$(CARGO) clippy --workspace --all-targets $(POINTS) -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps

# What is said about Spark is said again at the end, where it is seen.
unit:
	$(CARGO) build -p interrex -p wordcount $(POINTS)
	@skipped=$$(./scripts/fetch-spark.sh --if-possible) || exit 1; \
	[ -z "$$skipped" ] || { echo "$$skipped"; export INTERREX_SPARK_TESTS=0; }; \
	if $(CARGO) nextest --version >/dev/null 2>&1; then \
	  $(CARGO) nextest run --workspace $(POINTS) && $(CARGO) test --workspace --doc $(POINTS); \
	else \
	  $(CARGO) test --workspace $(POINTS); \
	fi && { [ -z "$$skipped" ] || echo "$$skipped"; }

# The pages in a real browser, where one can be had; with the binaries of `unit`.
ui:
	@if ./scripts/setup-ui.sh; then \
	  if $(CARGO) nextest --version >/dev/null 2>&1; then \
	    $(CARGO) nextest run --workspace $(POINTS) --run-ignored only -E 'package(interrex) & test(/^ui::/)'; \
	  else \
	    $(CARGO) test --workspace $(POINTS) --test it -- --ignored --test-threads 1 ui::; \
	  fi; \
	else \
	  echo "skipped: the tests of pages in a browser: Chromium, its driver or axe cannot be set up here (see above)"; \
	fi

# One at a time: every test has a cluster and a browser of its own. INTERREX_UI_PICTURES=1 renews docs/screenshots.
test-ui: build
	@./scripts/setup-ui.sh
	$(CARGO) test -p interrex --test it -- --ignored --test-threads 1 ui::

fix:
	$(CARGO) clippy --workspace --all-targets --fix --allow-dirty --allow-staged
	$(CARGO) fmt --all

bench: setup
	$(CARGO) build --release -p interrex
	$(TARGET)/release/interrex bench $(BENCH)

docs: dashboards
	UPDATE_GENERATED=1 $(CARGO) test -q -p interrex --test it observability::documentation

dashboards:
	$(CARGO) run -q -p interrex-dashboards

# Against the types that Grafana publishes for its JSON; needs node, npm and the network, so it is no part of `test`.
dashboards-schema:
	./grafana/schema/check.sh
