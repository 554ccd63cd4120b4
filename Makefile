# Everything a contributor runs. `make demo` and `make test` work on a machine that has python3 (with venv), git and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Releases of mypy besides the one in constraints.txt: the oldest that the plugin works with, and the newest of the minor release before.
MYPYS := 1.16.1 2.3.1
# Extra arguments for pytest: `make unit ARGS="-k schema"`.
ARGS ?=
PYTEST := $(BIN)/python -m pytest -n 2
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs

export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.NOTPARALLEL:
.PHONY: help demo test lint types generated unit slow clients bench typing-report matrix size docs api-check dist released format clean

help:
	@echo "demo    run examples/digits.py"
	@echo "test    lint, types, generated code, and every test that is not slow"
	@echo "slow    the slow tests, with many hypothesis examples"
	@echo "clients install libraries that import tensordict; compare programs of theirs with and without tensorclass.compat"
	@echo "bench   speed against the anchor and raw torch"
	@echo "typing-report  what each type checker sees of the programs of the tests and of the pages"
	@echo "matrix  the tests with the oldest and newest versions of what the package needs"
	@echo "size    lines of code of each room, as the formatter writes them"
	@echo "docs    build the site in build/docs"
	@echo "api-check  what broke in the public interface since the last tag"
	@echo "dist    build the wheel and the source archive in dist, and check both"
	@echo "format  rewrite sources as ruff wants them"
	@echo "clean   remove caches and build products (not $(VENV))"

# One stamp per set of dependencies; torch goes first so that no other package chooses its build.
$(VENV)/.stamp: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -qq -c constraints.txt torch
	$(PIP) install -qq -c constraints.txt -e ".[examples]"
	touch $@

$(VENV)/.stamp-test: $(VENV)/.stamp
	$(PIP) install -qq -c constraints.txt -e ".[test]"
	touch $@

# Without its dependencies, which are those of the other. The tests that need it fail when it can't be installed.
$(VENV)/.stamp-mypy-%: $(VENV)/.stamp-test
	rm -rf $(VENV)/mypy-$*
	$(PIP) install -qq --no-deps --target $(VENV)/mypy-$* mypy==$* && touch $@ || echo "mypy $* could not be installed"

# Without their dependencies, too: one of them asks for an older anchor. The tests that need them are skipped without them.
$(VENV)/.stamp-clients: tests/compat/clients.txt tests/compat/sources.txt $(VENV)/.stamp-test
	rm -rf $(VENV)/clients $(VENV)/sources
	$(PIP) install -qq --no-deps --target $(VENV)/clients -r tests/compat/clients.txt && \
	$(PIP) download -qq --no-deps --no-binary verl --dest $(VENV)/sources -r tests/compat/sources.txt && \
	tar -xzf $(VENV)/sources/*.tar.gz -C $(VENV)/sources && touch $@ || echo "the clients could not be installed"

$(VENV)/.stamp-docs: $(VENV)/.stamp
	$(PIP) install -qq -c constraints.txt -e ".[docs]"
	touch $@

$(VENV)/.stamp-release: $(VENV)/.stamp
	$(PIP) install -qq -c constraints.txt -e ".[release]"
	touch $@

demo: $(VENV)/.stamp
	$(BIN)/python examples/digits.py

test: lint types generated unit

lint: $(VENV)/.stamp-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tests.test_plain_words

# Both at once: each uses one core.
types: $(VENV)/.stamp-test
	$(BIN)/mypy & mypy=$$!; $(BIN)/pyright --pythonpath $(BIN)/python; pyright=$$?; wait $$mypy && exit $$pyright

generated: $(VENV)/.stamp-test
	$(BIN)/python -m tensorclass.ops._generate --check
	$(BIN)/python -m tensorclass stubs examples --out stubs --check

unit: $(VENV)/.stamp-test
	$(PYTEST) -m "not slow" $(ARGS)

slow: $(VENV)/.stamp-test $(MYPYS:%=$(VENV)/.stamp-mypy-%) $(VENV)/.stamp-clients
	$(PYTEST) -m slow --hypothesis-profile=thorough $(ARGS)

clients: $(VENV)/.stamp-clients
	$(BIN)/python -m pytest -n 0 -m slow tests/compat/test_clients.py $(ARGS)
	$(BIN)/python -m tests.compat._clients

bench: $(VENV)/.stamp-test
	$(BIN)/python -m tests.benchmarks._programs
	$(BIN)/python -m tests.benchmarks $(ARGS)
	$(BIN)/python -m tests.benchmarks._scale

typing-report: $(VENV)/.stamp-test
	$(BIN)/python -m tests.typing --report

matrix: $(VENV)/.stamp-test
	$(BIN)/python -m tests.matrix $(ARGS)

size: $(VENV)/.stamp-test
	$(BIN)/python -m tests.size

docs: $(VENV)/.stamp-docs
	$(MKDOCS) build --strict --config-file docs/site/mkdocs.yml

api-check: $(VENV)/.stamp-docs
	$(BIN)/python -m tests.api $(ARGS)

# Whether the tag `v0.1.0` names the version of the sources, whose changelog has the date.
released: $(VENV)/.stamp
	test "$(TAG)" = "v$$($(BIN)/python -c 'import tensorclass; print(tensorclass.__version__)')"
	grep -Eq "^## $(TAG:v%=%) \([0-9]{4}-[0-9]{2}-[0-9]{2}\)$$" CHANGELOG.md

# The time of the last commit makes the archives the same wherever they are built.
dist: $(VENV)/.stamp-release
	rm -rf dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m hatchling build
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/check-wheel-contents dist

format: $(VENV)/.stamp-test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find tensorclass tests examples docs -name __pycache__ -type d -prune -exec rm -rf {} +
