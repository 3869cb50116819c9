# Two commands matter: `make run` and `make test`. `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
# A GPU that answers gets the CUDA build of vLLM; everything else its CPU build.
ENGINE ?= $(shell nvidia-smi -L >/dev/null 2>&1 && echo gpu || echo cpu)
SETUP := $(VENV)/.installed-$(ENGINE)

.PHONY: help run model test check proof gpu-proof bench-load bench-trace golden clean setup lint
.DEFAULT_GOAL := help

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-12s %s\n", $$1, $$2}'

setup: $(SETUP) ## .venv with the engine that fits this machine

$(SETUP): pyproject.toml constraints-cpu.txt .ci/install
	PYTHON=$(PYTHON) bash .ci/install $(VENV) $(ENGINE)
	@touch $@

model: $(SETUP) ## the tiny model of the default campaign (random weights, no download)
	@test -f models/tiny-deepseek/config.json || $(PY) -c 'from pathlib import Path; from campaign.server import make_tiny_model; make_tiny_model(Path("models/tiny-deepseek"))'

run: $(SETUP) model ## the default campaign, end to end; goes on where it was interrupted
	$(PY) -m campaign resume

lint: $(SETUP) ## ruff and mypy --strict
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

test: $(SETUP) lint ## lint, types and all tests, with a real vLLM among them
	$(PY) -m pytest -m "not proof"

check: $(SETUP) lint ## lint, types and the fast tests only
	$(PY) -m pytest -m "not proof and not vllm"

proof: $(SETUP) ## the long drills; leaves out what passed on this very code (all anew: rm build/proof.jsonl)
	$(PY) -m pytest -s -m proof --resume-proof $(PROOF_FLAGS)

GPU_EXAMPLES := h200-qwen3-30b-a3b h200-kimi-mini-int4
GPU_EXAMPLES_2 := h200x2-qwen3-30b-a3b
gpu-proof: $(SETUP) ## doc/examples/h200*: campaigns and tables measured again on this machine's GPUs, in build/gpu/
	@nvidia-smi -L >/dev/null || { echo "error: no GPU answers (nvidia-smi -L)" >&2; exit 2; }
	examples="$(GPU_EXAMPLES)"; if [ "$$(nvidia-smi -L | wc -l)" -ge 2 ]; then examples="$$examples $(GPU_EXAMPLES_2)"; fi; \
	for name in $$examples; do \
	  mkdir -p build/gpu/$$name; cp -r doc/examples/$$name/campaign.toml doc/examples/$$name/models build/gpu/$$name/; \
	  for model in build/gpu/$$name/models/*; do \
	    $(PY) -c "import sys, pathlib; from campaign.server.tiny import make_tokenizer; make_tokenizer(pathlib.Path(sys.argv[1]))" $$model; \
	  done; \
	  $(PY) -m campaign --dir build/gpu/$$name resume; \
	done
	$(PY) -m tests.measure.on_gpu build/gpu/tables

bench-load: $(SETUP) ## what load generators cost and how truly they report, side by side
	$(PY) -m tests.benchmarks.bench_load

bench-trace: $(SETUP) ## what trace analysis costs, side by side with others (ARGS=--with-rivals installs them)
	$(PY) -m tests.benchmarks.bench_trace $(ARGS)

golden: $(SETUP) ## update golden files
	CAMPAIGN_GOLDEN=update $(PY) -m pytest -m "not proof and not vllm" -k golden

clean: ## remove the virtual environment, caches and the default campaign's model (never state/ or doc/)
	rm -rf $(VENV) build *.egg-info models .pytest_cache .mypy_cache .ruff_cache
