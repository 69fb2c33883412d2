# Everything a developer does. Needs only Python >= 3.11 and make; the rest goes into .venv.

PYTHON ?= python3
VENV ?= .venv
PY := $(VENV)/bin/python
LOCK = $(VENV)/bin/uv pip compile --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-header -q
PYTHONS = 3.11 3.12 3.13
PYTEST = $(PY) -m pytest
# Tests wait for servers and processes for a third of their time: three for two cores.
PARALLEL = -n $(shell $(PYTHON) -c "import os; print((os.cpu_count() or 2) * 3 // 2)") --dist loadgroup

# Another active virtualenv, or a path of the caller's, must not leak into ours; nor a wish to write no bytecode:
# the tests start hundreds of processes, and each would compile everything it imports.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME CONDA_PREFIX PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install lock demo test quick check lint browser units screenshots bench soak format dist matrix docs docs-serve reference map clean

help:  ## show this list
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

install: $(VENV)/.ready  ## make .venv with everything in it

$(VENV)/bin/uv: requirements/bootstrap.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Ostinato needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 install"; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
		|| { rm -rf $(VENV); echo "Python cannot make a virtual environment: install its venv module (Debian, Ubuntu: apt install python3-venv)."; exit 1; }
	$(PY) -m pip install -q --disable-pip-version-check --require-hashes -r requirements/bootstrap.txt
	@touch $@

$(VENV)/.ready: $(VENV)/bin/uv requirements/dev.txt pyproject.toml
	$(VENV)/bin/uv pip sync -q --python $(PY) --require-hashes requirements/dev.txt
	$(VENV)/bin/uv pip install -q --python $(PY) --no-deps --no-build-isolation -e .
	@touch $@

lock: $(VENV)/bin/uv  ## renew requirements/*.txt from pyproject.toml
	$(LOCK) --upgrade --all-extras --group dev pyproject.toml -o requirements/dev.txt
	echo uv | $(LOCK) --upgrade - -o requirements/bootstrap.txt

demo: install  ## start a scheduler with a few example jobs; PORT=8061 and API_PORT=8071 choose other ports
	@PORT="$(PORT)" API_PORT="$(API_PORT)" $(PY) -m examples

lint: install
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports

quick: lint  ## lint, then the rules, the shapes outside and the pages, about a minute: for each commit
	$(PYTEST) $(PARALLEL) -m "not postgres and not system and not soak" tests/core tests/shapes tests/docs tests/test_*.py

browser: install
	@$(PY) -m tests.browser.chromium

units: install
	@$(PY) -m tests.deploy.systemd

test: browser units  ## all tests, on SQLite and PostgreSQL
	$(PYTEST) $(PARALLEL) -m "not soak"

check: lint browser units  ## what CI runs: lint, then all tests
	$(PYTEST) $(PARALLEL) -m "not soak"

matrix:  ## `make quick` on each supported Python (of pyenv, or on the PATH), in venvs of their own
	@for version in $(PYTHONS); do \
		python=$$(ls -d "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/$$version.*/bin/python 2>/dev/null | sort -V | tail -1); \
		python=$${python:-$$(command -v python$$version)}; \
		[ -n "$$python" ] || { echo "Python $$version is missing: run pyenv install $$version, or put python$$version on the PATH."; exit 1; }; \
		echo "Python $$version: $$python"; \
		$(MAKE) VENV=.matrix/$$version PYTHON="$$python" quick || exit 1; \
	done

soak: install  ## the long random tests
	$(PYTEST) $(PARALLEL) -m soak --timeout 7200

screenshots: browser  ## pictures of every page into docs/images/
	$(PY) -m tests.browser.screenshots

bench: install  ## the benchmarks, beside the peers; ARGS="--quick" for ours alone, ARGS="--help" for more
	$(PY) -m benchmarks $(ARGS)

format: install  ## format, and mend what ruff can mend
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

dist: install  ## build sdist and wheel into dist/, and check them as the package index does
	rm -rf dist
	$(VENV)/bin/uv build -q --offline --no-build-isolation --python $(PY) -o dist
	$(PY) -m twine check --strict dist/*

docs: install  ## build the site into site/, strictly
	$(VENV)/bin/zensical build --clean --strict
	$(PY) -m tests.docs.site site

docs-serve: install  ## serve the site, and rebuild it while you write; PORT=8001 chooses a port
	$(VENV)/bin/zensical serve --dev-addr localhost:$(or $(PORT),8000)

reference: install  ## write the signatures of the Python reference, and docs/llms.txt
	$(PY) -m tests.docs.reference
	$(PY) -m tests.docs.site

map: install  ## write the imports of each room into docs/explanation/architecture.md
	$(PY) -m tests.docs.rooms

clean:  ## remove everything that was made
	rm -rf .venv .matrix .demo dist build site .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
