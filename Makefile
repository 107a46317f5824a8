# Everything here works from a clean clone with Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SERVICE_STAMP := $(VENV)/.service-installed
RELEASE_STAMP := $(VENV)/.release-installed
CHECKS_STAMP := $(VENV)/.checks-installed

# The jar of the engine's connector for Spark 4.0, which no registry has.
CONNECTOR ?= $(PAIMON_SPARK_CONNECTOR)

# Names what pip and Maven fetch, and how much.
FETCH := $(PYTHON) tests/downloads.py
INSTALL := $(FETCH) $(BIN)/python -m pip install --disable-pip-version-check --no-input -c constraints.txt

TOOLS := .tools
HELM_VERSION := v4.3.1
HELM := $(CURDIR)/$(TOOLS)/helm-$(HELM_VERSION)

# Tests start Python some hundred times, which compiles everything each time where it may not keep what it compiled.
export PYTHONDONTWRITEBYTECODE :=

# One more than there are cores, since tests wait for the processes that they start.
WORKERS = $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')

.DEFAULT_GOAL := help
.PHONY: help env hashes release release-check test first-steps lint openapi check-openapi demo docs site bench bench-spark soak limits fuzz contract decoders mutants jar jvm jvm-package image-check image image-base chart-check clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

env: $(STAMP) ## the environment in .venv

$(STAMP): $(SERVICE_STAMP) client/pyproject.toml
	@echo 'Installs what tests need into $(VENV), which then takes 0.9 GB:'
	@$(INSTALL) -e '.[dev]' -e client
	@touch $@

# What serves alone, which takes a minute.
$(SERVICE_STAMP): pyproject.toml constraints.txt
	@echo 'Installs the service into $(VENV):'
	@$(PYTHON) -m venv $(VENV)
	@$(INSTALL) -e .
	@touch $@

test: env ## everything that needs nothing else; one test: see CONTRIBUTING.md
	@echo 'Collects the tests and runs them: about five minutes on two cores'
	$(BIN)/python -m pytest -n $(WORKERS) -m "not shared and not engine and not connector and not jvm and not spark and not helm and not long"

# make first-steps PAGES=docs/jobs.md follows README and that page alone. Needs Java 17; with PAIMON_SPARK_CONNECTOR, which
# names the jar of the engine's connector for Spark 4.0, and Maven also SQL that the catalog plans.
first-steps: env ## pastes what stands on README and other pages, from a clean clone and an empty home (Java)
	$(BIN)/python -m tests.first_steps $(PAGES)

lint: $(CHECKS_STAMP) ## ruff, mypy, import-linter, hadolint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy container/check.py container/healthcheck.py container/release.py container/release_check.py
	$(BIN)/lint-imports
	$(BIN)/hadolint Dockerfile

openapi: env ## writes openapi.yaml
	$(BIN)/paimon-index openapi > openapi.yaml

check-openapi: env ## whether openapi.yaml is current
	$(BIN)/paimon-index openapi | diff -u openapi.yaml - || (echo 'openapi.yaml is not current: run make openapi'; exit 1)

# make demo ONCE=1 stops after the answers; JSON=1 shows them as they are; PORT=8080 takes that port instead of a free one.
# SQL=1 CONNECTOR=JAR asks the same SQL in a real Spark without the service and with it: the jar is that of the engine's
# connector for Spark 4.0.
# Needs Java 17 and Maven; pyspark (400 MB) is installed into a cache directory of the user.
demo: $(SERVICE_STAMP) ## a running service with sample tables
	@$(if $(SQL),$(MAKE) --no-print-directory jar)
	@$(BIN)/python demo/demo.py $(if $(ONCE),--once) $(if $(JSON),--json) $(if $(PORT),--port $(PORT)) $(if $(SQL),--sql '$(CONNECTOR)')

# Without its tests, what they need, and an environment for Python.
jar: ## builds the jar of the engine's catalog in jvm/target (Java, Maven)
	@echo 'Builds the jar of the catalog (Maven):'
	@$(FETCH) mvn -B -q -f jvm/pom.xml package -Dmaven.test.skip=true -Dmdep.skip=true
	@ls jvm/target/paimon-index-catalog-*.jar

# The engine's catalog: built, tested on its own, and then over the golden tables beside the engine. Needs Java and Maven;
# where PAIMON_SPARK_CONNECTOR names the engine's connector for Spark 4.0, plain SQL runs in a real Spark too. Every golden
# query of it takes long: pytest -m "jvm and long".
jvm: jvm-package ## builds the engine's catalog, and tests it (Java, Maven)
	$(BIN)/python -m pytest -m "jvm and not long"

jvm-package: env
	$(FETCH) mvn -B -f jvm/pom.xml package

# make release HOME_URL=https://... names the project's repository in the chart. Needs git, Java 11 and Maven.
release: $(RELEASE_STAMP) ## what a release has, of HEAD, in dist/ (Maven)
	$(BIN)/python container/release.py $(if $(HOME_URL),--home $(HOME_URL))

# Builds twice and compares, looks at licences and known vulnerabilities of dependencies, and uses dist/ as somebody
# without the clone does. Renders the chart where make chart-check has built helm.
release-check: $(RELEASE_STAMP) ## builds a release twice, and uses it without the clone
	$(BIN)/python container/release.py --check $(if $(HOME_URL),--home $(HOME_URL))
	$(if $(wildcard $(HELM)),HELM=$(HELM)) $(BIN)/python container/release_check.py

# Of every version of constraints.txt that the image may install, whatever the storage and the release of Python; and of
# what installs it. No image is one of Windows, which alone needs colorama.
hashes: $(RELEASE_STAMP) ## writes container/hashes.txt
	@{ echo '# Written by `make hashes`: what the image installs, by the versions of constraints.txt.'; \
	  printf 'hatchling\npip\n' | $(BIN)/uv pip compile pyproject.toml - $(foreach extra,s3 gcs azure oss hdfs otel,--extra $(extra)) \
	  --quiet --constraints constraints.txt --universal --python-version 3.11 --generate-hashes --no-emit-package colorama \
	  --no-header --no-annotate --no-emit-index-url --no-emit-find-links; } > container/hashes.txt

$(CHECKS_STAMP): $(STAMP)
	@echo 'Installs linters and schemas of Kubernetes into $(VENV):'
	@$(INSTALL) -e '.[checks]'
	@touch $@

$(RELEASE_STAMP): $(STAMP)
	$(INSTALL) -e '.[docs,release]'
	touch $@

docs: $(RELEASE_STAMP) ## the documentation as a site in build/docs/html
	@$(MAKE) --no-print-directory site

# The pages as a site, wherever they lie in the tree, so that links are the same in both. A release calls it for its
# own copy of the tree, with the programs of this one.
site:
	rm -rf build/docs
	mkdir -p build/docs/source
	tar -cf - *.md LICENSE NOTICE openapi.yaml compose.yaml docs examples benchmarks/*.md client/README.md \
	  helm/paimon-index/README.md | tar -xf - -C build/docs/source
	cp docs/zensical.toml build/docs
	$(BIN)/zensical build --strict --clean --config-file build/docs/zensical.toml

# make bench FILES="1000" measures tables of that many files; ENGINE=DIR also the Java engine.
# The planner that it is compared with may be missing, so failing to install it fails nothing.
bench: env ## measures; see docs/benchmarks.md
	-$(INSTALL) -e '.[bench]'
	$(BIN)/python -m benchmarks $(if $(FILES),--files $(FILES)) $(if $(ENGINE),--engine $(ENGINE))

# make bench-spark FILES=650 CONNECTOR=JAR reads a table of that many files in Spark; the jar is that of the engine's
# connector for Spark 4.0, which is left out without it. STORE=JARS reads it from an object store, with the jars of
# hadoop-aws. Needs Java 17; takes about 15 minutes.
bench-spark: env ## measures reading in Spark (Java 17)
	$(BIN)/python -m benchmarks.spark --out $(if $(FILES),--files $(FILES)) $(if $(ROWS),--rows $(ROWS)) $(if $(CONNECTOR),--connector $(CONNECTOR)) $(if $(STORE),--store $(STORE))

# make image-check EXTRAS=s3,gcs INTERPRETER=python3.13 installs what the image would have, checks it, and starts
# the service from it.
image-check: env ## installs what the image would have, and starts it
	$(BIN)/python container/check.py $(if $(EXTRAS),--extras "$(EXTRAS)") $(if $(INTERPRETER),--python $(INTERPRETER))

# make image BASE_IMAGE=... EXTRAS=s3,gcs builds the image with podman and starts the service from it.
image: env ## builds the image, and starts the service from it (podman)
	container/image.sh

image-base: ## base images from Debian's packages (as the superuser)
	container/base.sh

# The chart, rendered with several values and checked against Kubernetes' schemas. Helm is built with Go.
chart-check: $(CHECKS_STAMP) $(HELM) ## renders the chart, and checks the objects (Go)
	for values in helm/paimon-index/ci/*.yaml; do $(HELM) lint --strict --quiet helm/paimon-index --values $$values || exit 1; done
	HELM=$(HELM) $(BIN)/python -m pytest -m helm tests/helm

$(HELM):
	GOBIN=$(CURDIR)/$(TOOLS) go install helm.sh/helm/v4/cmd/helm@$(HELM_VERSION)
	mv $(TOOLS)/helm $@

# Property tests with very many examples, then plans of random tables held against their rows; takes hours.
# TESTS=tests/file_index runs the property tests of one part; PAIRS=20000 SEED=7 as many plans, of that seed.
fuzz: env ## property tests and plans of random tables at length; takes hours
	$(BIN)/python -m pytest -n auto -m "hypothesis and not shared and not engine" --hypothesis-profile=fuzz $(TESTS)
	$(BIN)/python -m tests.proof --pairs $(or $(PAIRS),1000000) --seed $(or $(SEED),1) --processes 2

# Requests of every kind that openapi.yaml allows, and others, against a running server; two minutes. EXAMPLES=500 asks
# more. Schemathesis brings much along, so that it has an environment of its own.
SCHEMATHESIS := $(TOOLS)/schemathesis
contract: env $(SCHEMATHESIS) ## asks a server whatever openapi.yaml allows
	$(BIN)/python -m tests.contract $(SCHEMATHESIS)/bin/st $(if $(EXAMPLES),--examples $(EXAMPLES))

$(SCHEMATHESIS):
	$(PYTHON) -m venv $@
	$(FETCH) $@/bin/python -m pip install --disable-pip-version-check 'schemathesis>=4.32,<5'

# Bytes that atheris finds by the code they reach, for SECONDS each decoder, or RUNS of them, drawn by one seed and in
# silence; on Linux with a Python that it has a wheel for.
ATHERIS := $(TOOLS)/atheris
DECODERS := file-index stacked-index deletion-vectors hash-index btree-block bitmap-dictionary global-block global-index manifest index-manifest schema snapshot text-filter json-filter
decoders: env $(ATHERIS) ## bytes of every kind for every decoder
	PYTHONPATH=. $(ATHERIS)/bin/python -m tests.proof.decoders $(DECODERS) \
	  $(if $(RUNS),-runs=$(RUNS) -seed=1 -verbosity=0,-max_total_time=$(or $(SECONDS),60))

$(ATHERIS):
	$(PYTHON) -m venv $@
	$(FETCH) $@/bin/python -m pip install --disable-pip-version-check 'atheris>=3,<4'
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$$($@/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/tests.pth"

# Wrong skips planted into each step of the planner, in a copy of the tree; takes half an hour. STEP=bitmap plants those
# of the steps that have this text. RANDOM=400 SEED=7 plants as many changes of formats and predicates instead, drawn by
# that seed; MODULES=predicates/sql of that directory alone. mutmut, which makes them, has an environment of its own.
MUTMUT := $(TOOLS)/mutmut
mutants: env $(if $(RANDOM),$(MUTMUT)) ## plants wrong skips, and sees whether tests find them
	$(if $(RANDOM),$(MUTMUT)/bin/python -m tests.proof.random_mutants --count $(RANDOM) --seed $(or $(SEED),1) --modules '$(MODULES)',\
	  $(BIN)/python -m tests.proof.mutants $(if $(STEP),--step '$(STEP)'))

$(MUTMUT):
	$(PYTHON) -m venv $@
	$(FETCH) $@/bin/python -m pip install --disable-pip-version-check -c constraints.txt 'mutmut>=3.8,<3.9'
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$$($@/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/tests.pth"

# Callers of every kind over storage that fails now and then; about 5 minutes on two cores. SOAK="tables" instead
# lets 2,000 tables pass through a server under a memory limit.
soak: env ## callers of every kind over failing storage, 5 minutes
	$(BIN)/python -m benchmarks.soak $(or $(SOAK),callers)

# Dear requests in control groups of 384 to 1,536 MB, beside another warehouse's, and five times as many as can be answered;
# an hour on two cores; with QUICK=1 some minutes of it, which judge no times. Memory needs root and a control group. PARTS="neighbours overload"
# leaves it out.
limits: env ## whether memory, cores and places stay within their bounds (root)
	$(BIN)/python -m benchmarks.bounds $(if $(PARTS),--parts $(PARTS)) $(if $(QUICK),--quick)

clean: ## removes what was made
	rm -rf $(VENV) $(TOOLS) build dist jvm/target
