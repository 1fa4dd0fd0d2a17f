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

# the embedded model, from ImageNet weights to the folder in the package; DATA is where the benchmarks are, and a run that
# was stopped goes on. Two processes of one thread do more than one of two.
DATA ?= data
RUN := runs/lite-base
train-lite: $(VENV)/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/mambamatcher train --preset lite --dataset voc --root $(DATA) --out $(RUN) \
	  --validation-pairs 100 --devices 2 --accelerator cpu $(if $(wildcard $(RUN)/recipe.json),--resume) \
	  seed=0 model.side=320 model.correlation.kind=linear model.transfer.temperature=20 model.backbone.trainable_blocks=13 \
	  steps=900 round_steps=150 effective_batch=2 batch_size=1 group_images=8 \
	  learning_rate=1e-3 backbone_learning_rate=2e-4 schedule=cosine warmup_steps=50 averaging=0.995 \
	  keypoint_weight=0 cross_entropy_weight=1 augmentation.flip=0.5 workers=0
	$(BIN)/mambamatcher export --model $(RUN)/model --folder mambamatcher/assets/lite --half --overwrite side=384
	$(BIN)/mambamatcher calibrate mambamatcher/assets/lite --dataset voc --split selection --root $(DATA) --limit 300 --out $(RUN)/calibration --overwrite
	cp $(RUN)/calibration/calibration.json mambamatcher/assets/lite/
	$(BIN)/mambamatcher evaluate mambamatcher/assets/lite --dataset spair --split val --root $(DATA) --out $(RUN)/spair
	$(BIN)/mambamatcher evaluate mambamatcher/assets/lite --dataset pf-pascal --split val --root $(DATA) --out $(RUN)/pf-pascal
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
