# make run and make test set everything up by themselves: a .venv in this folder, from pinned
# versions. Nothing is installed again until pyproject.toml or constraints.txt change.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: run test test-long test-versions test-aeon check docs clean

run: $(READY)
	$(BIN)/python examples/demo.py --plot out/demo.png

# worksteal: each process begins with a half of its own, so the two seldom compile the same kernel.
test: check
	$(BIN)/pytest -n 2 --dist worksteal

# Searches and kills that take minutes: by hand, before a release.
test-long: $(READY)
	$(BIN)/pytest -n 2 -m long

# The layers with the oldest and the newest torch: downloads up to 3 GB each, by hand.
test-versions: $(READY)
	$(BIN)/python tests/versions.py

# aeon's checks of the adapters, with the versions that aeon needs: an environment of its own.
test-aeon: .venv-aeon/.ready
	.venv-aeon/bin/python -m pytest tests/estimators/test_aeon.py

.venv-aeon/.ready: pyproject.toml constraints-aeon.txt
	test -x .venv-aeon/bin/python || $(PYTHON) -m venv .venv-aeon
	.venv-aeon/bin/python -m pip install --quiet --constraint constraints-aeon.txt \
		--editable ".[cli,cpu,sklearn]" aeon hypothesis pytest
	touch $@

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The site, into out/site: a warning, such as a link that leads nowhere, is an error.
docs: $(READY)
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet -d out/doctrees docs out/site

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $(READY)

clean:
	rm -rf .venv .venv-aeon out
