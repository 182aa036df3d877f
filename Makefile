# make build   the dataset, in ./vocalgrad/        RECIPE=recipes/default.yaml SEED= OUT=vocalgrad WORKERS=
#              on a dask cluster                   ENGINE=dask SCHEDULER=tcp://host:8786 (or its file; none: a cluster here)
# make release   whether this version may be published, and what to run   RECIPE=recipes/default.yaml OUT=vocalgrad
# make publish REPO=org/name   it, to the Hugging Face Hub   OUT=vocalgrad PRIVATE=1 PR=1 DRY=1
# make test    the tests                           TESTS="-m slow" for the slow ones
# make bench   what a clip costs beside the least it could   BENCH="--quick --json FILE"
# make lint    style and types
PYTHON ?= python3
RECIPE ?= recipes/default.yaml
OUT ?= vocalgrad
TESTS ?= -m "not slow"

quoted = '$(subst ','\'',$(1))'
BIN := .venv/bin
READY := .venv/.ready
BENCH_READY := .venv/.ready-bench

.PHONY: build release publish test bench bench-ready lint clean

build: $(READY)
	@$(BIN)/vocalgrad build --recipe $(call quoted,$(RECIPE)) --out $(call quoted,$(OUT)) $(if $(SEED),--seed $(SEED)) $(if $(WORKERS),--workers $(WORKERS)) \
		$(if $(ENGINE),--engine $(ENGINE)) $(if $(SCHEDULER),--scheduler $(call quoted,$(SCHEDULER)))

release: $(READY)
	@$(BIN)/vocalgrad release-check --recipe $(call quoted,$(RECIPE)) --dataset $(call quoted,$(OUT))

publish: $(READY)
	@test -n "$(REPO)" || { echo "name the repository: make publish REPO=org/name"; exit 1; }
	@$(BIN)/vocalgrad publish $(call quoted,$(REPO)) --dataset $(call quoted,$(OUT)) $(if $(PRIVATE),--private) $(if $(PR),--pr) $(if $(DRY),--dry-run)

test: $(READY)
	@$(BIN)/python -m pytest -n 2 --dist loadfile $(TESTS)

bench: $(BENCH_READY)
	@$(BIN)/python -m bench $(BENCH)

bench-ready: $(BENCH_READY)

lint: $(READY)
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

$(READY): pyproject.toml constraints.txt
	@echo "making the environment in .venv/ (once)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; found $$($(PYTHON) --version). Name another with PYTHON=..."; exit 1; }
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $(READY)

$(BENCH_READY): $(READY)
	@echo "adding what the bench compares with (once)"
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,bench]'
	@touch $(BENCH_READY)

clean:
	rm -rf .venv vocalgrad.partial vocalgrad.partial.old vocalgrad.partial.lock
