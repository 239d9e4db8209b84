# Every target sets up what it needs: a Python from 3.11 to 3.13 and make are enough.

PYTHON ?= python3
VENV := .venv
VENVS := .venvs
SDK_VERSIONS := 1.2.0 1.2.3 1.3.0
OLD_SDK := 0.3.26
OLD_VENV := $(VENVS)/old-$(OLD_SDK)
PEER := 1.2.2
PEER_VENV := $(VENVS)/peer-$(PEER)
SEEDS ?= 5000
FREE_SDK := $(VENVS)/constraints-without-a2a-sdk.txt
REGRESSION := tests/acceptance/test_executor_failure.py
UV := $(shell command -v uv 2>/dev/null)

ifdef UV
new_venv = uv venv --quiet --allow-existing --python $(PYTHON) $(1)
install = uv pip install --quiet --python $(1)/bin/python
else
new_venv = $(PYTHON) -m venv $(1)
install = $(1)/bin/python -m pip install --quiet --disable-pip-version-check
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test check simulate mutations format bench bench-http bench-smoke regression-peer sdk-versions old-client frameworks clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.demo  ## serve an agent over HTTP, let it fail 50 times, show what was recorded
	@$(VENV)/bin/a2a-scribe demo

test: $(VENV)/.dev  ## run all tests but those with environments of their own
	$(VENV)/bin/python -m pytest -m 'not frameworks and not sdk_versions'

check: $(VENV)/.dev  ## lint, formatting, types, architecture
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/python -m pytest tests/architecture

simulate: $(VENV)/.dev  ## run the engine in seeded worlds full of trouble: make simulate SEEDS=100000
	$(VENV)/bin/python -m tests.simulation --seeds $(SEEDS)

mutations: $(VENV)/.dev  ## show that the simulation catches broken engines
	$(VENV)/bin/python -m tests.simulation.mutations

format: $(VENV)/.dev  ## mend what can be mended mechanically
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

bench: $(VENV)/.bench  ## measure beside a2a-sdk, write bench/results
	$(VENV)/bin/python -m bench

bench-http: $(VENV)/.bench  ## the same over HTTP, beside a2a-sdk, fasta2a and a bare ASGI app
	$(VENV)/bin/python -m bench.http

bench-smoke: $(VENV)/.bench  ## run both benchmarks once, small
	$(VENV)/bin/python -m bench --smoke
	$(VENV)/bin/python -m bench.http --smoke

regression-peer: $(PEER_VENV)/.ready  ## show that the regression test fails on the handler of a2a-sdk 1.2.2
	@sh tests/acceptance/peer.sh $(PEER_VENV) $(REGRESSION)

sdk-versions: $(SDK_VERSIONS:%=sdk-%) old-client  ## run the drop-in tests with each supported release of a2a-sdk

sdk-%: $(VENVS)/sdk-%/.ready
	$(VENVS)/sdk-$*/bin/python -m pytest tests/dropin

old-client: $(VENV)/.dev $(OLD_VENV)/.ready  ## have a client of a2a-sdk 0.3 call a server on three bindings
	A2A_OLD_PYTHON=$(CURDIR)/$(OLD_VENV)/bin/python $(VENV)/bin/python -m pytest -m sdk_versions \
	  tests/acceptance/old_clients

frameworks:  ## run the executors of agent frameworks, each in an environment of its own
	$(PYTHON) tests/frameworks/run.py

clean:  ## remove all environments and caches
	rm -rf $(VENV) $(VENVS) .mypy_cache .pytest_cache .ruff_cache .hypothesis

# Environments; a stamp is newer than what its environment was made from.

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	  || { echo 'a2a-scribe needs Python 3.11 to 3.13; say which with: make PYTHON=python3.12'; exit 1; }
	$(call new_venv,$(VENV))
	@touch $@

$(VENV)/.demo: $(VENV)/.made pyproject.toml constraints.txt
	$(call install,$(VENV)) -c constraints.txt -e '.[fast]'
	@touch $@

$(VENV)/.dev: $(VENV)/.made pyproject.toml constraints.txt
	$(call install,$(VENV)) -c constraints.txt -e '.[dev]'
	@touch $@

$(VENV)/.bench: $(VENV)/.made pyproject.toml constraints.txt
	$(call install,$(VENV)) -c constraints.txt -e '.[bench]'
	@touch $@

$(FREE_SDK): constraints.txt
	@mkdir -p $(@D)
	@grep -v '^a2a-sdk==' constraints.txt > $@

$(VENVS)/sdk-%/.ready: pyproject.toml $(FREE_SDK)
	$(call new_venv,$(@D))
	$(call install,$(@D)) -c $(FREE_SDK) -e '.[test]' 'a2a-sdk==$*'
	@touch $@

$(OLD_VENV)/.ready: $(FREE_SDK)
	$(call new_venv,$(@D))
	$(call install,$(@D)) -c $(FREE_SDK) 'a2a-sdk[http-server,grpc]==$(OLD_SDK)'
	@touch $@

$(PEER_VENV)/.ready: $(FREE_SDK)
	$(call new_venv,$(@D))
	$(call install,$(@D)) -c $(FREE_SDK) 'a2a-sdk[http-server,sqlite]==$(PEER)' pytest anyio
	@touch $@

.PRECIOUS: $(VENVS)/sdk-%/.ready
