# Everything a developer does. Needs only Python >= 3.11 and make; the rest goes into .venv.

PYTHON ?= python3
PY := .venv/bin/python
LOCK = .venv/bin/uv pip compile --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-header -q
PYTEST = $(PY) -m pytest
# Tests wait for servers and processes for a third of their time: three for two cores.
PARALLEL = -n $(shell $(PYTHON) -c "import os; print((os.cpu_count() or 2) * 3 // 2)") --dist loadgroup

# Another active virtualenv, or a path of the caller's, must not leak into ours; nor a wish to write no bytecode:
# the tests start hundreds of processes, and each would compile everything it imports.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME CONDA_PREFIX PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install lock demo test quick check lint browser screenshots bench soak format docs docs-serve reference map clean

help:  ## show this list
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

install: .venv/.ready  ## make .venv with everything in it

.venv/bin/uv: requirements/bootstrap.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Ostinato needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 install"; exit 1; }
	@$(PYTHON) -m venv .venv \
		|| { rm -rf .venv; echo "Python cannot make a virtual environment: install its venv module (Debian, Ubuntu: apt install python3-venv)."; exit 1; }
	$(PY) -m pip install -q --disable-pip-version-check --require-hashes -r requirements/bootstrap.txt
	@touch $@

.venv/.ready: .venv/bin/uv requirements/dev.txt pyproject.toml
	.venv/bin/uv pip sync -q --python $(PY) --require-hashes requirements/dev.txt
	.venv/bin/uv pip install -q --python $(PY) --no-deps --no-build-isolation -e .
	@touch $@

lock: .venv/bin/uv  ## renew requirements/*.txt from pyproject.toml
	$(LOCK) --upgrade --all-extras --group dev pyproject.toml -o requirements/dev.txt
	echo uv | $(LOCK) --upgrade - -o requirements/bootstrap.txt

demo: install  ## start a scheduler with a few example jobs; PORT=8061 and API_PORT=8071 choose other ports
	@PORT="$(PORT)" API_PORT="$(API_PORT)" $(PY) -m examples

lint: install
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	.venv/bin/lint-imports

quick: lint  ## lint, then the rules, the shapes outside and the pages, about a minute: for each commit
	$(PYTEST) $(PARALLEL) -m "not postgres and not system and not soak" tests/core tests/shapes tests/docs tests/test_*.py

browser: install
	@$(PY) -m tests.browser.chromium

test: browser  ## all tests, on SQLite and PostgreSQL
	$(PYTEST) $(PARALLEL) -m "not soak"

check: lint browser  ## what CI runs: lint, then all tests
	$(PYTEST) $(PARALLEL) -m "not soak"

soak: install  ## the long random tests
	$(PYTEST) $(PARALLEL) -m soak --timeout 7200

screenshots: browser  ## pictures of every page into docs/images/
	$(PY) -m tests.browser.screenshots

bench: install  ## the benchmarks, beside the peers; ARGS="--quick" for ours alone, ARGS="--help" for more
	$(PY) -m benchmarks $(ARGS)

format: install  ## format, and mend what ruff can mend
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

docs: install  ## build the site into site/, strictly
	.venv/bin/zensical build --clean --strict
	$(PY) -m tests.docs.site site

docs-serve: install  ## serve the site, and rebuild it while you write; PORT=8001 chooses a port
	.venv/bin/zensical serve --dev-addr localhost:$(or $(PORT),8000)

reference: install  ## write the signatures of the Python reference, and docs/llms.txt
	$(PY) -m tests.docs.reference
	$(PY) -m tests.docs.site

map: install  ## write the imports of each room into docs/explanation/architecture.md
	$(PY) -m tests.docs.rooms

clean:  ## remove everything that was made
	rm -rf .venv .demo dist build site .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
