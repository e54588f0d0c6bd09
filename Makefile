# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
#
# The same targets for a person and for CI (.ci/run).
#   make PYTHON=path TARGET   uses that interpreter instead of the cached environment
#   make test ARGS='-k batch' passes arguments on (test, lock)

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

ARGS ?=
WORKERS ?= 2

ifneq ($(origin PYTHON),command line)
# Asked for once, and only by a target that needs it.
PYTHON = $(eval PYTHON := $(shell scripts/environment.sh path)/bin/python)$(PYTHON)
ENV := env
endif

export PYTHONPATH := $(CURDIR)/src

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: env
env: ## Create the development environment if it does not exist
	@scripts/environment.sh create

.PHONY: format
format: $(ENV) ## Format the code and apply ruff's fixes
	$(PYTHON) -m ruff check --fix-only --quiet .
	$(PYTHON) -m ruff format .

.PHONY: lint
lint: $(ENV) ## Check format, style and spelling
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(PYTHON) -m codespell_lib
	$(PYTHON) -m scripts.words

.PHONY: types
types: $(ENV) ## Check types
	$(PYTHON) -m mypy

.PHONY: layers
layers: $(ENV) ## Check the layers of the imports
	$(PYTHON) -c 'from importlinter.cli import lint_imports_command as lint; lint()' --no-logo

.PHONY: test-programs
test-programs: $(ENV) ## Install the Debian packages that some tests need (needs root)
	$(PYTHON) -m tests.debian

.PHONY: test
test: $(ENV) ## Run the tests that need no engine and no cluster
	$(PYTHON) -m pytest -n $(WORKERS) --dist loadfile $(ARGS)

.PHONY: worker-env
worker-env: ## Create the environment of the training engine if it does not exist (5 GB)
	@scripts/environment.sh create worker

# The engine's own environment; the tests themselves run without torch.
attack attack-short engine engine-short full-size models faults faults-short pipeline pipeline-short quickstart quickstart-picture tutorial tutorial-pictures: export SEATRIAL_WORKER_PYTHON = $(shell scripts/environment.sh path worker)/bin/python

.PHONY: engine
engine: $(ENV) worker-env ## Run the tests that train with the real engine on a CPU (about an hour)
	$(PYTHON) -m pytest -m engine -s $(ARGS) tests/engine

.PHONY: engine-short
engine-short: $(ENV) worker-env ## Run the short engine tests
	$(PYTHON) -m pytest -m 'engine and not slow' -n $(WORKERS) --dist loadfile --durations=15 $(ARGS) tests/engine

.PHONY: full-size
full-size: $(ENV) worker-env ## Count known full-size layouts with the engine and print the table; ARGS='mixtral-8x7b' for some
	PYTHONPATH=$(CURDIR)/src:$(CURDIR) $(PYTHON) -m tests.engine.full_size_layouts $(ARGS)

.PHONY: models
models: $(ENV) worker-env ## Prove plan, rehearsal, resume, reshard, import and export of every model type; ARGS='-k qwen3' for some
	$(PYTHON) -m pytest -m engine -n 0 -q $(ARGS) tests/engine/test_models.py; code=$$?; \
		$(PYTHON) -m docs.tools.recorded_tables models; exit $$code

.PHONY: foundry-env
foundry-env: ## Create the environment of LLM Foundry if it does not exist (7 GB)
	@scripts/environment.sh create llm-foundry

.PHONY: foundry
foundry: export SEATRIAL_LLM_FOUNDRY_PYTHON = $(shell scripts/environment.sh path llm-foundry)/bin/python
foundry: $(ENV) foundry-env ## Run the tests that train with LLM Foundry on a CPU (about 90 minutes)
	$(PYTHON) -m pytest -m engine -s $(ARGS) tests/foundry

.PHONY: foundry-short
foundry-short: export SEATRIAL_LLM_FOUNDRY_PYTHON = $(shell scripts/environment.sh path llm-foundry)/bin/python
foundry-short: export SEATRIAL_FAULT_SEEDS = 0:1
foundry-short: $(ENV) foundry-env ## Train, save, kill and resume with LLM Foundry once, and refuse a crafted file
	$(PYTHON) -m pytest -m engine --durations=4 $(ARGS) tests/foundry \
		-k 'test_kill_and_resume_to_the_last_bit and fsdp or test_a_pickle_that_runs_code'

.PHONY: pipeline
pipeline: $(ENV) worker-env foundry-env cluster-programs ## Run the whole pipeline on this host and in a cluster (needs root)
	$(PYTHON) -m pytest -m 'engine or cluster' -s $(ARGS) tests/engine/test_pipeline.py \
		tests/cluster/pods/test_pipeline.py

.PHONY: pipeline-short
pipeline-short: $(ENV) worker-env ## Run the whole pipeline on this host
	$(PYTHON) -m pytest -m engine -s $(ARGS) tests/engine/test_pipeline.py

.PHONY: quickstart
quickstart: $(ENV) worker-env ## Run the quickstart and compare its page with the output; ARGS=--write updates the page
	$(PYTHON) -m docs.tools.tutorial.walk quickstart $(ARGS)

.PHONY: tutorial
tutorial: $(ENV) worker-env ## Run the tutorial and compare its pages with the output; ARGS=--write updates the pages
	$(PYTHON) -m docs.tools.tutorial.walk $(ARGS)

.PHONY: tutorial-pictures
tutorial-pictures: $(ENV) worker-env ## Record a step of every layout with the real engine, and draw the tutorial's pictures
	$(PYTHON) -m docs.tools.tutorial.record $(ARGS)
	$(PYTHON) -m docs.tools.tutorial.draw

.PHONY: store-servers
store-servers: ## Install the servers that stand in for object stores (needs npm and Go)
	@scripts/store_servers.sh create

.PHONY: stores
stores: $(ENV) store-servers ## Run the tests against S3, Azure, Google and Hub stand-ins on loopback
	$(PYTHON) -m pytest -m stores -n $(WORKERS) $(ARGS) tests/stores

.PHONY: cluster-programs
cluster-programs: $(ENV) ## Build Kubernetes, the operators and Helm for the tests (needs Go)
	$(PYTHON) -m tests.cluster.building

.PHONY: cluster-api
cluster-api: $(ENV) cluster-programs ## Run the tests with a real API server and real operators, without pods
	$(PYTHON) -m pytest -m cluster -s $(ARGS) tests/cluster/api

.PHONY: cluster-api-short
cluster-api-short: $(ENV) cluster-programs ## Run these tests without older releases of the operators
	$(PYTHON) -m pytest -m 'cluster and not slow' -n $(WORKERS) --dist loadfile --durations=5 $(ARGS) tests/cluster/api

.PHONY: cluster
cluster: $(ENV) cluster-programs ## Run the tests in a real cluster of one node (needs root)
	$(PYTHON) -m pytest -m cluster -s $(ARGS) tests/cluster/pods

.PHONY: cluster-short
cluster-short: $(ENV) cluster-programs ## Run the short cluster tests
	$(PYTHON) -m pytest -m 'cluster and not slow' -s $(ARGS) tests/cluster/pods

.PHONY: image
image: $(ENV) ## Build a worker image without Docker (needs root): cpu, or ARGS=data
	$(PYTHON) -m scripts.build_image $(or $(ARGS),cpu)

.PHONY: local-container
local-container: $(ENV) ## Train in a podman container on this host, kill it and resume (needs root)
	$(PYTHON) -m pytest -m containers -s $(ARGS) tests/containers

.PHONY: image-test
image-test: export SEATRIAL_WORKER_PYTHON = $(shell scripts/environment.sh path worker)/bin/python
image-test: $(ENV) worker-env cluster-programs ## Build the images, inspect them, and train in a pod (needs root)
	$(PYTHON) -m pytest -m 'cluster and slow' -s $(ARGS) tests/cluster/test_image.py \
		tests/cluster/test_image_in_pod.py tests/cluster/test_install.py

.PHONY: faults
faults: $(ENV) worker-env ## Kill training and data preparation 200 times each, feed them broken inputs and checkpoints (hours; see SEATRIAL_FAULT_SEEDS)
	$(PYTHON) -m pytest -m faults -s $(ARGS) tests/faults

.PHONY: faults-short
faults-short: export SEATRIAL_FAULT_SEEDS = 7:10
faults-short: $(ENV) worker-env ## Run three cases each of kills, stopped ranks, failing disks and damaged checkpoints
	$(PYTHON) -m pytest -m faults -n $(WORKERS) --dist loadfile --durations=4 \
		-k 'random_kills or stopped or disks or damaged' tests/faults

.PHONY: attack
attack: export SEATRIAL_LLM_FOUNDRY_PYTHON = $(shell scripts/environment.sh path llm-foundry)/bin/python
attack: $(ENV) worker-env foundry-env cluster-programs ## Attack files, clusters, state, secrets, texts and repairs; print the counts
	$(PYTHON) -m pytest -m attack $(ARGS) tests/attack

.PHONY: attack-short
attack-short: export SEATRIAL_ATTACK = short
attack-short: $(ENV) worker-env cluster-programs ## Run a few cases of each attack
	$(PYTHON) -m pytest -m attack -n $(WORKERS) --dist loadfile --durations=5 $(ARGS) tests/attack

.PHONY: corpus
corpus: $(ENV) ## Make the benchmark's corpus from documentation packages
	$(PYTHON) -m benchmarks.dataprep.corpus

.PHONY: bench
bench: $(ENV) worker-env corpus ## Compare the speed of data preparation with other tools
	SEATRIAL_WORKER_PYTHON=$$(scripts/environment.sh path worker)/bin/python \
	$(PYTHON) -m benchmarks.dataprep.speed $(ARGS)

.PHONY: options
options: $(ENV) ## Print what each performance option needs and changes, and compare with published configurations; ARGS=--write updates the page
	$(PYTHON) -m docs.tools.performance_options $(ARGS)

.PHONY: backtest
backtest: $(ENV) ## Predict published runs that were not used for fitting (some minutes)
	$(PYTHON) -m backtest.prequential
	$(PYTHON) -m backtest.report $(ARGS)

.PHONY: reference
reference: $(ENV) ## Write the reference documentation from the code
	$(PYTHON) -m docs.tools.generate_reference

.PHONY: reference-check
reference-check: $(ENV) ## Check that the reference documentation is up to date
	$(PYTHON) -m docs.tools.generate_reference --check

.PHONY: console
console: $(ENV) ## Run the commands shown in the documentation and update their output
	$(PYTHON) -m docs.tools.refresh_console

.PHONY: pictures
pictures: $(ENV) worker-env ## Make the pictures of watch and report from a real run (minutes; needs chromium)
	SEATRIAL_WORKER_PYTHON="$$(scripts/environment.sh path worker)/bin/python" \
	    $(PYTHON) -m docs.tools.make_pictures

.PHONY: import-picture
import-picture: $(ENV) ## Draw the imports between packages for the architecture page
	$(PYTHON) -m docs.tools.draw_imports

.PHONY: structure
structure: $(ENV) ## Print counts of the code's structure, and check their limits
	$(PYTHON) -m scripts.structure

.PHONY: duplicates
duplicates: ## Measure duplicated lines (needs npm); more than 3 % is an error
	@scripts/count_duplicates.sh

.PHONY: docs
docs: $(ENV) ## Build the documentation into build/docs; a warning is an error
	$(PYTHON) -m sphinx -W --keep-going -q -b html docs build/docs

.PHONY: site
site: $(ENV) ## Build the documentation afresh and check it in a browser: links, clicks, widths, search (needs chromium)
	rm -rf build/site
	$(PYTHON) -m sphinx -W --keep-going -q -b html docs build/site
	PYTHONPATH=$(CURDIR)/src:$(CURDIR) $(PYTHON) -m docs.tools.site.check build/site

.PHONY: plan-picture
plan-picture: $(ENV) ## Draw the output of plan and photograph its page, light and dark (needs chromium)
	PYTHONPATH=$(CURDIR)/src:$(CURDIR) $(PYTHON) -m docs.tools.terminal.plan_picture

.PHONY: quickstart-picture
quickstart-picture: $(ENV) worker-env ## Record the quickstart with the real engine and draw it as an animation (minutes; ARGS=--draw only draws)
	PYTHONPATH=$(CURDIR)/src:$(CURDIR) $(PYTHON) -m docs.tools.terminal.quickstart $(ARGS)

.PHONY: startup
startup: $(ENV) ## Measure the start-up time of the command line, and check its limit
	$(PYTHON) -m benchmarks.startup

.PHONY: wheel
wheel: $(ENV) ## Build the wheel and test it in a new environment
	@PYTHON=$(PYTHON) scripts/check_wheel.sh

.PHONY: reproducible
reproducible: $(ENV) ## Build wheel and sdist twice, and compare them byte for byte
	@PYTHON=$(PYTHON) scripts/check_reproducible.sh

.PHONY: packages
packages: $(ENV) worker-env foundry-env ## List third-party packages and their licences
	$(PYTHON) -m docs.tools.list_packages "$$(scripts/environment.sh path)/lib/python3.12/site-packages" \
	    "$$(scripts/environment.sh path worker)/lib/python3.12/site-packages" \
	    "$$(scripts/environment.sh path llm-foundry)/lib/python3.12/site-packages"

.PHONY: lock
lock: $(ENV) ## Compile pyproject.toml into the lock files
	@PYTHON=$(PYTHON) scripts/lock.sh $(ARGS)

.PHONY: check
check: ## Run everything that CI runs
	@.ci/run

.PHONY: clean
clean: ## Remove build output and caches, but not the environment
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests scripts benchmarks backtest docs -type d -name __pycache__ -prune -exec rm -rf {} +
