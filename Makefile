# Everything here works from a clean clone with Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: env test lint openapi check-openapi demo bench soak clean

env: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

test: env
	$(BIN)/python -m pytest -n auto -m "not shared and not engine"

lint: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

openapi: env
	$(BIN)/paimon-index openapi > openapi.yaml

check-openapi: env
	$(BIN)/paimon-index openapi | diff -u openapi.yaml - || (echo 'openapi.yaml is not current: run make openapi'; exit 1)

# make demo ONCE=1 stops after the answers; PORT=8080 takes that port instead of a free one.
demo: env
	$(BIN)/python demo/demo.py $(if $(ONCE),--once) $(if $(PORT),--port $(PORT))

# make bench FILES="1000" measures tables of that many files; ENGINE=DIR also the Java engine.
# The planner that it is compared with may be missing, so failing to install it fails nothing.
bench: env
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	$(BIN)/python -m benchmarks $(if $(FILES),--files $(FILES)) $(if $(ENGINE),--engine $(ENGINE))

# A server under a memory limit while many tables pass through; about 10 minutes on two cores.
soak: env
	$(BIN)/python -m benchmarks.soak $(SOAK)

clean:
	rm -rf $(VENV) build dist
