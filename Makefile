# Everything needs only Python 3.10 to 3.13 and make; the rest goes into .venv.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The first Python that will do and can make environments. Another one: make test PYTHON=python3.12
usable = import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, $(1)))
first = $(firstword $(foreach p,$(2),$(shell $(p) -c "$(call usable,$(1))" >/dev/null 2>&1 && echo $(p))))
PYTHON ?= $(call first,14,python3 python3.13 python3.12 python3.11 python3.10 python)
PYTHON_OLDEST ?= $(call first,12,python3.11 python3.10 python3)

# The CPU build is a third of the download. With a GPU: make demo TENSORFLOW='tensorflow[and-cuda]'
TENSORFLOW ?= $(if $(filter Linux-x86_64,$(shell uname -s)-$(shell uname -m)),tensorflow-cpu,tensorflow)
TENSORFLOW_OLDEST ?= $(TENSORFLOW)==2.15.*
# For the tests of Keras on JAX, on the systems that JAX has wheels for. Without these tests: make test JAX=
JAX ?= $(if $(filter Linux-x86_64 Linux-aarch64 Darwin-arm64,$(shell uname -s)-$(shell uname -m)),jax)

VENV := .venv
OLDEST := .venv-tf215
BIN := $(VENV)/bin
SOURCES := $(shell find src/slowtrain -type f -not -path '*/__pycache__/*' -not -name '*.so') compiled.py pyproject.toml README.md LICENSE
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check

DEMO ?= flowers_decode
DEMO_SCRIPT = $(firstword $(wildcard clinic/cases/*/*/$(DEMO)/script.py clinic/cases/healthy/$(DEMO)/script.py))
TESTS ?= tests
AT_ONCE ?= 2
PYTEST ?=

.PHONY: help demo cause test test-slow bench lint style venv venv-oldest test-oldest clinic strangers calibration fixed-again false-alarms drift-power convergence-power myths bench-overhead bench-trace bench-lint bench-long bench-startup bench-packing memory-table gpu gpu-recordings corpus docs shape fuzz format clean

help: ## show this list
	@echo "usage: make TARGET"
	@sed -nE 's/^([a-z-]+):.*## (.*)/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 18

demo: $(VENV)/.wheel ## run a real slow script under slowtrain: the verdict, and an HTML report
	@test -f "$(DEMO_SCRIPT)" || { echo "clinic/cases has no script $(DEMO); python clinic/run.py --list lists them: make demo DEMO=NAME"; exit 2; }
	@mkdir -p build/demo
	$(BIN)/slowtrain run --out build/demo --html build/demo/$(DEMO).html $(DEMO_SCRIPT)
	@echo "The HTML report: file://$(CURDIR)/build/demo/$(DEMO).html"

cause: ## write the folder of a new cause, with examples that fail: make cause NAME=family/the-pattern
	@test -n "$(NAME)" || { echo "name it: make cause NAME=family/the-pattern"; exit 2; }
	$(PYTHON) clinic/new_cause.py $(NAME)

# pytest may keep the tests that it has compiled, which saves each worker ten seconds.
# mypy runs beside the tests, because it uses one core. pytest's closing line is the last one, unless there are errors of types.
test: style ## lint, types, and tests against the built wheel, AT_ONCE=2 files at a time
	@mkdir -p build
	@$(BIN)/mypy > build/types.txt & types=$$!; \
	PYTHONDONTWRITEBYTECODE= SLOWTRAIN_TEST_WHEEL=1 $(BIN)/pytest -m 'not slow and not bench' -n $(AT_ONCE) --dist loadfile --no-loadscope-reorder $(TESTS) $(PYTEST); \
	tested=$$?; wait $$types || { cat build/types.txt; exit 1; }; exit $$tested

test-slow: $(VENV)/.wheel ## the tests that take minutes: every lint example trained, memory forecasts
	SLOWTRAIN_TEST_WHEEL=1 $(BIN)/pytest -m slow $(TESTS) $(PYTEST)

bench: $(VENV)/.wheel ## the tests that measure time, one after the other; needs an idle machine
	SLOWTRAIN_TEST_WHEEL=1 $(BIN)/pytest -m bench $(TESTS) $(PYTEST)
	@echo "More measurements: $$(sed -nE 's/^(bench-[a-z]+):.*/make \1/p' $(firstword $(MAKEFILE_LIST)) | paste -sd, -)"

lint: style ## ruff and mypy
	$(BIN)/mypy

style: $(VENV)/.wheel ## ruff alone
	$(BIN)/ruff check .
	$(BIN)/ruff format --check src tests docs

format: $(VENV)/.ready ## let ruff format the code and mend what it safely can
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format src tests docs

venv: $(VENV)/.wheel ## .venv with the newest TensorFlow and the wheel

venv-oldest: $(OLDEST)/.wheel ## .venv-tf215 with TensorFlow 2.15 and Keras 2 (needs Python 3.10 or 3.11)

test-oldest: $(OLDEST)/.wheel ## the tests that need TensorFlow, against TensorFlow 2.15
	SLOWTRAIN_TEST_WHEEL=1 $(OLDEST)/bin/pytest -m 'tensorflow and not slow and not bench' $(TESTS) $(PYTEST)

clinic: $(VENV)/.wheel ## run the labelled scripts and the real cases, slow and cured in turn, and print the scoreboard (an hour)
	$(BIN)/python clinic/run.py --measure 1 --markdown docs/scoreboard.md

strangers: $(VENV)/.wheel ## the same for all scripts that were once unseen (two hours)
	$(BIN)/python clinic/run.py --set strangers --markdown docs/scoreboard.md

calibration: $(VENV)/.wheel ## slowtrain fix on every slow script, against the hand-made cures (many hours; goes on where it ended)
	$(BIN)/python clinic/fixing.py

fixed-again: $(VENV)/.wheel ## what calibration kept, given to slowtrain fix once more (hours; goes on where it ended)
	$(BIN)/python clinic/fixing.py --again

false-alarms: $(VENV)/.wheel ## how often fix calls a change better that is none
	$(BIN)/python clinic/same.py --markdown docs/false-alarms.md

drift-power: $(VENV)/.wheel ## false alarms and power of the causes of drift, on simulated runs
	$(BIN)/python clinic/drift_power.py --markdown docs/drift.md

convergence-power: $(VENV)/.wheel ## false alarms and power of numerics/slow-convergence, on simulated and real runs (half an hour)
	$(BIN)/python clinic/convergence_power.py --markdown docs/convergence.md
	$(BIN)/python clinic/convergence_power.py --real build/convergence --markdown docs/convergence.md

myths: $(VENV)/.wheel ## what data formats and cheaper models gain, beside what is said of them (some minutes)
	$(BIN)/python clinic/myths.py --markdown docs/myths.md

bench-overhead: $(VENV)/.wheel ## what recording costs, two processes in turns (about two hours)
	$(BIN)/python clinic/hotpath.py --markdown docs/overhead.md
	$(BIN)/python clinic/overhead.py

bench-trace: $(VENV)/.wheel ## a large profile: slowtrain diagnose beside xprof, of one file
	$(BIN)/python clinic/trace_bench.py --markdown docs/bench-trace.md

bench-long: $(VENV)/.wheel ## ten million steps recorded and reported: disk, memory, time (some minutes)
	$(BIN)/python clinic/long_bench.py --markdown docs/bench-long.md

bench-startup: $(VENV)/.wheel ## how long each verb that reads takes to answer, beside Python and NumPy alone
	$(BIN)/python clinic/startup.py --markdown docs/startup.md

bench-packing: $(VENV)/.wheel ## the gain of packed data, predicted and measured, and beside cures made by hand (half an hour)
	$(BIN)/python clinic/packing_bench.py --markdown docs/packing.md

bench-lint: $(VENV)/.wheel ## slowtrain lint beside parsing alone and ruff, on Keras and on the training scripts
	$(BIN)/python clinic/lint_bench.py --markdown docs/bench-lint.md

memory-table: $(VENV)/.wheel ## foretold against actual largest batch, 16 models, 3 limits (hours; goes on where it ended)
	$(BIN)/python clinic/memory_table.py --markdown docs/memory.md

gpu: $(VENV)/.wheel ## all that needs a card: pairs, gains, cost, memory (12 minutes; goes on where it ended; TENSORFLOW='tensorflow[and-cuda]')
	$(BIN)/python clinic/gpu.py --budget 12m --markdown docs/gpu.md

gpu-recordings: $(VENV)/.wheel ## what is said of the recordings of TensorFlow on an H200, against the truth; needs no card
	$(BIN)/python clinic/gpu.py --recordings ../shared/traces/tf-h200 --markdown docs/gpu.md

corpus: $(VENV)/.wheel ## slowtrain lint on well-known packages (fetched), each finding beside its judgement
	$(BIN)/python clinic/corpus.py --markdown docs/lint-corpus.md

docs: $(VENV)/.wheel ## write docs/cli.md and docs/causes/ from the program
	$(BIN)/python docs/generate.py

shape: ## size, import cycles, what a cause reaches, names: today, limit and target
	@$(PYTHON) tests/shape.py

fuzz: $(VENV)/.wheel ## property-based tests with many more examples
	HYPOTHESIS_PROFILE=fuzz $(BIN)/pytest -m fuzz $(TESTS) $(PYTEST)

clean: ## remove what building, testing and trying has left, environments too
	rm -rf $(VENV) $(OLDEST) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests clinic docs -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment is ready when everything but slowtrain itself is in it ...
$(VENV)/.ready: pyproject.toml
	$(call need_python,$(PYTHON),3.10 to 3.13,PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP_INSTALL) '.[dev]' '$(TENSORFLOW)' $(JAX)
	@touch $@

$(OLDEST)/.ready: pyproject.toml
	$(call need_python,$(PYTHON_OLDEST),3.10 or 3.11 for TensorFlow 2.15,PYTHON_OLDEST)
	$(PYTHON_OLDEST) -m venv $(OLDEST)
	$(OLDEST)/bin/python $(PIP_INSTALL) '.[dev]' '$(TENSORFLOW_OLDEST)'
	@touch $@

# ... and slowtrain comes as the wheel that users would get, so that a forgotten file fails here.
$(VENV)/.wheel: $(VENV)/.ready $(SOURCES)
	@rm -rf dist
	$(BIN)/python -m build --wheel --no-isolation --outdir dist . > /dev/null
	$(BIN)/python $(PIP_INSTALL) --force-reinstall --no-deps dist/*.whl
	@touch $@

# It may be of another Python, for which hot.c is compiled anew.
$(OLDEST)/.wheel: $(OLDEST)/.ready $(SOURCES)
	@rm -rf dist/oldest
	$(OLDEST)/bin/python -m build --wheel --no-isolation --outdir dist/oldest . > /dev/null
	$(OLDEST)/bin/python $(PIP_INSTALL) --force-reinstall --no-deps dist/oldest/*.whl
	@touch $@

define need_python
@test -n "$(1)" || { echo >&2 "no Python $(2) with venv and ensurepip was found (on Debian: apt-get install python3-venv), or name one: make $(3)=/path/to/python"; exit 3; }
endef
