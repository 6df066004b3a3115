# make setup   a virtual environment in .venv with askew and the tools of the tests in it
# make demo    set up askew alone, then run the default job
# make test    set up, then lint, type-check and run all tests
# make fast    the tests but for the slow ones, those of a second and more
# make long    the long run: 200 random networks, every form compiled (an hour or more)
# make fuzz    10,000 damaged files for every reader; writes results/reliability/fuzz.json (about 15 minutes)
# make kills   hundreds of runs killed at every kind of write and at random; signals; writes results/reliability (20 minutes)
# make faults  disks that are full, folders that vanish, flipped bits, failing configurations; writes results/reliability
# make soak    thousands of rounds: memory and time must not grow; writes results/reliability
# make vectors write the test vectors in vectors/, and check four methods with them in plain numpy
# make corners all tests with the oldest and newest Python and torch that are promised, where they can be had
# make flower-old  the deployment's tests, but those of processes, with an older Flower
# make docs    build the documentation as a site in build/site; any warning is an error
# make papers  write docs/papers from results/
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Byte code is kept whatever the environment says: tests start hundreds of processes, which would compile all of askew.
export PYTHONDONTWRITEBYTECODE =

.PHONY: setup demo test fast long fuzz kills faults soak lint corners flower-old papers docs vectors clean

setup: $(VENV)/.installed

# The constraint keeps pip from pulling a CUDA build; torch goes first so that nothing else asks for another version.
$(VENV)/.demo: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet -c constraints.txt torch
	$(BIN)/pip install --quiet -c constraints.txt -e .
	touch $@

# What the tests need besides.
$(VENV)/.installed: $(VENV)/.demo
	$(BIN)/pip install --quiet -c constraints.txt -e '.[test,flower]'
	touch $@

demo: $(VENV)/.demo
	$(BIN)/askew compare

# Two workers of one thread each: two threads in each of them would wait for each other. Beside them run the tests whose
# own processes (Flower, Ray) mostly wait, and the types are checked. What those two find stands last.
WAITING = tests/flower/test_processes.py tests/runs/test_cluster.py

test: export OMP_NUM_THREADS = 1
test: setup
	$(BIN)/ruff check .
	@$(BIN)/mypy > $(VENV)/types.txt 2>&1 & types=$$!; \
	$(BIN)/pytest -q $(WAITING) > $(VENV)/waiting.txt 2>&1 & waiting=$$!; \
	$(BIN)/pytest -n 2 --dist worksteal -q $(addprefix --ignore=,$(WAITING)); tests=$$?; \
	wait $$waiting && grep -h " passed" $(VENV)/waiting.txt || { cat $(VENV)/waiting.txt; tests=1; }; \
	wait $$types || { cat $(VENV)/types.txt; tests=1; }; \
	exit $$tests

fast: setup
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal -q -m 'not slow'

long: setup
	ASKEW_LONG=1 OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal -q tests/conformance tests/kernels \
		tests/engine/test_graphed.py tests/engine/test_vectorised.py tests/runs/test_export.py tests/benchmarks \
		tests/cli/test_compare_command.py tests/rounds/test_combinations.py

fuzz: setup
	OMP_NUM_THREADS=1 PYTHONPATH=tests/support $(BIN)/python -m fuzzing.long

RELIABILITY = ASKEW_LONG=1 ASKEW_RECORD=results/reliability OMP_NUM_THREADS=1 $(BIN)/pytest -q

kills: setup
	$(RELIABILITY) tests/reliability/test_kills.py

faults: setup
	$(RELIABILITY) tests/reliability/test_damage.py tests/reliability/test_failures.py tests/reliability/test_folders.py

soak: setup
	$(RELIABILITY) tests/reliability/test_soak.py

lint: setup
	$(BIN)/ruff check .
	$(BIN)/mypy

corners:
	.ci/corners

FLOWER_OLD ?= 1.36.0
OLD := build/flower-old

# Its SuperLink and SuperNodes take other options: what is tried is the apps, in one process.
flower-old:
	$(PYTHON) -m venv $(OLD)
	$(OLD)/bin/pip install --quiet -c constraints.txt torch
	$(OLD)/bin/pip install --quiet -c constraints.txt -e '.[test]' flwr==$(FLOWER_OLD)
	OMP_NUM_THREADS=1 $(OLD)/bin/pytest -q tests/flower --ignore tests/flower/test_processes.py

papers: setup
	$(BIN)/python -m askew.report.paper_page results docs

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

vectors: setup
	$(BIN)/python vectors/make.py
	$(BIN)/python vectors/check.py

clean:
	rm -rf $(VENV) build dist src/*.egg-info
