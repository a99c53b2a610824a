# Needs nothing but Python 3.11 or later and make: each target builds the environment first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Neighbours in a file share what is costly to make: each worker takes a run of them.
# Each worker has a core: libraries that start threads of their own would get in each other's way.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal
# uv takes seconds where pip takes more than a minute. It knows nothing of pip's settings: where these
# name the only place that has a package, pip installs.
# Byte code comes when a module is first loaded: for all modules of all libraries, of which few are
# loaded, it takes as long as everything else that pip does.
install = $(BIN)/python -m uv pip install --quiet --python $(BIN)/python $(1) || \
	$(BIN)/python -m pip install --quiet --no-compile $(1)
ALL := [dev,browser,docs]
# Where a machine is told to keep no byte code (many containers are), each process would translate all
# that it loads anew: many tests start one.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo dev dev-all test check style types kernels checked test-slow test-all test-diffprivlib test-boosted test-plugins test-cluster test-cores test-browser docs bench clean wheel test-wheel test-lowest

demo: $(VENV)/.installed
	$(BIN)/treeleak demo

dev: $(VENV)/.dev

# What test-all, test-browser and docs need, by one call of pip.
dev-all: $(VENV)/.dev-all

# What is read and what is compiled need not wait for each other.
BESIDE := $(MAKE) --no-print-directory --jobs=2 --output-sync=target

test: $(VENV)/.dev
	$(BESIDE) style kernels
	$(PYTEST) -m "not slow and not browser"

checked: $(VENV)/.dev
	$(BESIDE) check kernels

check: style types

style: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

# Three quarters of a minute, which a newcomer does not wait for. On Python 3.11: stubs of the NumPy
# that newer ones get say other things.
types: $(VENV)/.dev
	$(BIN)/mypy

kernels: $(VENV)/.dev
	$(BIN)/python tests/compile_kernels.py

# What `make test` leaves out, and more examples of what it tries on a few: EXAMPLES=1 for all.
EXAMPLES ?= 0.1
test-slow: $(VENV)/.dev
	TREELEAK_EXAMPLES=$(EXAMPLES) $(PYTEST) -m "slow and not browser"

# In one run: tests are gathered once, and a property that both suites try is tried once.
test-all: checked
	TREELEAK_EXAMPLES=$(EXAMPLES) $(PYTEST) -m "not browser"

# Answers must not depend on how a processor rounds: OpenBLAS sums as on other kinds of them.
CORES ?= Haswell
test-cores: kernels
	for core in $(CORES); do OPENBLAS_CORETYPE=$$core $(PYTEST) -m "not slow" \
		tests/test_golden.py tests/test_decisions.py || exit 1; done

# diffprivlib needs an older scikit-learn, and so an environment of its own.
test-diffprivlib: $(VENV)-diffprivlib/.installed
	$(VENV)-diffprivlib/bin/python -m pytest tests/test_diffprivlib.py

# Each model held against the library that made it; none of the three is needed for the other tests.
test-boosted: $(VENV)-boosted/.installed
	$(VENV)-boosted/bin/python -m pytest -n auto -m "not browser" \
		$(shell grep -lE 'needs."|importorskip' tests/test_*.py) tests/test_boosted_files.py tests/test_boosted_cli.py
	$(VENV)-boosted/bin/python -m pytest tests/test_docs.py -k "python_blocks and boosted"

# Audits for other tools, held against these tools and their schemas.
test-plugins: $(VENV)-plugins/.installed
	$(VENV)-plugins/bin/python -m pytest tests/test_plug_ins.py
	$(VENV)-plugins/bin/python -m pytest -W ignore tests/test_docs.py -k "python_blocks and plug"

# A scheduler and two workers on this machine, one of which is killed.
test-cluster: $(VENV)-cluster/.installed
	$(VENV)-cluster/bin/python -m pytest tests/test_cluster.py

# The report in Chromium: the one on the path, or that CHROMIUM names. Without one this fails.
test-browser: $(VENV)/.dev $(VENV)/.browser
	TREELEAK_BROWSER=needed $(BIN)/python -m pytest -n auto tests/test_browser.py

# The archives in dist, as they are released; and the wheel in a new environment, by pip, with the demo.
wheel: $(VENV)-wheel/.tools
	$(VENV)-wheel/bin/python -m hatchling build --clean -d dist

test-wheel: $(VENV)-wheel/.tools
	$(VENV)-wheel/bin/python tools/try_wheel.py dist

# On Python 3.11, the oldest: newer ones have no wheels of some of these.
test-lowest: $(VENV)-lowest/.installed
	OMP_NUM_THREADS=1 $(VENV)-lowest/bin/python -m pytest -n auto -m "not slow and not browser" \
		-W "ignore::DeprecationWarning" $(LOWEST)

# Begin at docs/_build/index.html.
docs: $(VENV)/.docs
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -c docs . docs/_build

# A benchmark that misses a floor fails; the others run all the same.
bench: $(VENV)/.dev
	-$(BIN)/python -m experiments run exact
	-$(BIN)/python -m experiments run exact --seeds 5-9
	-$(BIN)/python -m experiments run known
	-$(BIN)/python -m experiments run known --seeds 5-9
	-$(BIN)/python -m experiments run noisy
	-$(BIN)/python -m experiments run hidden
	-$(BIN)/python -m experiments run hidden --seeds 5-9
	-$(BIN)/python -m experiments run raw --seeds 0
	-$(BIN)/python -m experiments run raw --seeds 5-6
	-$(BIN)/python -m experiments run known_raw --seeds 0

$(VENV)/.uv: | $(BIN)/python
	-$(BIN)/python -m pip install --quiet --no-compile uv
	touch $@

# The package is installed in place, so only its declared dependencies call for a new install.
$(VENV)/.installed: pyproject.toml | $(VENV)/.uv
	$(call install,-e .)
	touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/.uv
	$(call install,-e '.[dev]')
	touch $@ $(VENV)/.installed

$(VENV)/.dev-all: pyproject.toml | $(VENV)/.uv
	$(call install,-e '.$(ALL)')
	touch $@ $(VENV)/.installed $(VENV)/.dev $(VENV)/.browser $(VENV)/.docs

$(VENV)/.browser $(VENV)/.docs: $(VENV)/.%: pyproject.toml | $(VENV)/.uv
	$(call install,-e '.[$*]')
	touch $@

$(VENV)-wheel/.tools: pyproject.toml | $(VENV)-wheel/bin/python
	$(VENV)-wheel/bin/python -m pip install --quiet hatchling
	touch $@

# Bounds are promises: the package with the lowest version of each dependency, then what tests need.
$(VENV)-lowest/.installed: pyproject.toml | $(VENV)-lowest/bin/python
	$(VENV)-lowest/bin/python -m pip install --quiet uv
	$(VENV)-lowest/bin/python -m uv pip install --quiet --resolution lowest-direct -e . \
		--python $(VENV)-lowest/bin/python
	$(VENV)-lowest/bin/python -m uv pip install --quiet --python $(VENV)-lowest/bin/python -e '.[test]'
	touch $@

# An extra that wants an environment of its own: .venv-<extra>.
$(VENV)-%/.installed: pyproject.toml | $(VENV)-%/bin/python
	$(VENV)-$*/bin/python -m pip install --quiet -e '.[test,$*]'
	touch $@

$(BIN)/python $(VENV)-diffprivlib/bin/python $(VENV)-boosted/bin/python $(VENV)-plugins/bin/python $(VENV)-cluster/bin/python $(VENV)-wheel/bin/python $(VENV)-lowest/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "treeleak needs Python 3.11 or later: make PYTHON=/path/to/it")'
	$(PYTHON) -m venv $(@D:/bin=)

clean:
	rm -rf $(VENV) $(VENV)-diffprivlib $(VENV)-boosted $(VENV)-plugins $(VENV)-cluster $(VENV)-wheel $(VENV)-lowest docs/_build dist demo
