# Two commands set everything up: `make demo` and `make test`. A stamp file per set of dependencies keeps re-runs quick.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SAMPLE := mambamatcher/assets/sample

.PHONY: demo test test-web bench train-lite clean

demo: $(VENV)/installed-demo
	$(BIN)/mambamatcher match $(SAMPLE)/source.png $(SAMPLE)/target.png --points-file $(SAMPLE)/points.json --out matches.png --overwrite

test: $(VENV)/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/mkdocs build --strict --quiet
	$(BIN)/pytest -n 2 -m "not compile and not web"
	$(BIN)/pytest -m compile -o addopts=-q

# in a real browser; apt-get brings one where there is none. One process: the fuzzed routes share a test's name, of which
# pytest-xdist would run only one
test-web: $(VENV)/installed-dev
	test -x /usr/bin/chromium || { apt-get update && apt-get install -y chromium; }
	$(BIN)/pytest -m web -o addopts=-q tests/web

bench: $(VENV)/installed-dev
	$(BIN)/mambamatcher benchmark pair --sides 238 --repeats 1 --against benchmarks/straightforward.py
	$(BIN)/mambamatcher benchmark pair --preset lite --sides 320
	$(BIN)/mambamatcher benchmark gallery --preset lite --targets 10

# The embedded model, from ImageNet weights to the folder in the package: two runs, whose weights are averaged. DATA is where
# the benchmarks are, and what was stopped goes on. Two processes of one thread do more than one of two.
DATA ?= data
LITE := mambamatcher/assets/lite
TRAIN := OMP_NUM_THREADS=1 $(BIN)/mambamatcher train --preset lite --root $(DATA) --accelerator cpu
RECIPE := model.correlation.kind=linear model.backbone.trainable_blocks=13 batch_size=1 schedule=cosine \
  keypoint_weight=0 cross_entropy_weight=1 augmentation.flip=0.5 workers=0
EVALUATE := $(BIN)/mambamatcher evaluate --root $(DATA)
READOUT := mirror=true transfer.blend=scores
run = --out runs/$(1) $(if $(wildcard runs/$(1)/recipe.json),--resume)

train-lite: $(VENV)/installed-dev
	$(TRAIN) --dataset voc --devices 2 --validation-pairs 100 $(call run,lite-base) $(RECIPE) seed=0 model.side=320 \
	  steps=900 round_steps=150 effective_batch=2 group_images=8 \
	  learning_rate=1e-3 backbone_learning_rate=2e-4 warmup_steps=50 averaging=0.995
	$(TRAIN) --dataset voc --devices 2 --validation-pairs 100 $(call run,lite-more) $(RECIPE) seed=1 model.side=384 \
	  start=runs/lite-base/model steps=480 round_steps=480 effective_batch=2 group_images=8 \
	  learning_rate=6e-4 backbone_learning_rate=2e-4 warmup_steps=20 averaging=0.99
	$(BIN)/mambamatcher export --model runs/lite-base/model --average runs/lite-more/model --folder runs/lite \
	  --overwrite side=384
	$(BIN)/mambamatcher export --model runs/lite --folder $(LITE) --half --overwrite $(READOUT)
	$(BIN)/mambamatcher calibrate $(LITE) --dataset voc --split selection --root $(DATA) --limit 300 --out runs/lite-calibration \
	  --overwrite
	cp runs/lite-calibration/calibration.json $(LITE)/
	$(EVALUATE) $(LITE) --dataset spair --split val --out runs/lite/spair-val
	$(EVALUATE) $(LITE) --dataset pf-pascal --split val --out runs/lite/pf-pascal-val
	$(BIN)/python -m tests.test_embedded

$(VENV)/installed-demo: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[lite]"
	touch $@

$(VENV)/installed-dev: $(VENV)/installed-demo
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) matches.png
