"""A commented plan for the engines that were found, or a template to fill in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from genreport.errors import OptionError, printable
from genreport.plan import read_plan
from genreport.planning.finding import UNNAMED, Found
from genreport.records import OF_WORDS

NAMES = {"vllm": "vLLM", "llamacpp": "llama.cpp", "sglang": "SGLang", "tgi": "TGI", "ollama": "Ollama"}
FILL_IN = "FILL IN"  # marks what nobody but its reader can know
INPUT, OUTPUT = 64, 96
LEVELS = (1, 2, 4, 8, 16)

HEAD = """\
# A plan of genreport. Every key is explained in docs/plan.md. What it will do, before anything starts:
#   genreport plan check {path}
# Measure it:
#   genreport run {path} --out runs/first
plan: 1
seed: 7

engines:
"""
TESTS = """
tests:
  # Prompts of {input} tokens, answers of {output}; `levels` are the requests kept in flight.
  - id: concurrency
    kind: concurrency
    input: {input}
    output: {output}
    levels: [{levels}]
    # requests: 32     # a repeat of a level; otherwise the larger of 16 and four times the level
    repeats: 3         # three or more allow a verdict when two rounds are compared
    warmup: 2

# Which engine keeps this limit, and up to which load?
slos:
  - {{id: chat, figure: ttft, percentile: p90, below_ms: 1000}}

# For a pipeline: exit code 3 when a level shows what it must not.
# fail_on:
#   failed: 0
#   ttft_p99_ms: 2000
"""
TEMPLATE = """\
  # No engine was found. FILL IN: the address (without /v1), the model's name as requests use it, and the kind:
  # vllm, llamacpp, sglang, tgi, ollama, or openai for any other server with an OpenAI-compatible API.
  - id: engine
    kind: openai
    model: MODEL                  # FILL IN
    url: http://127.0.0.1:8000    # FILL IN
    prompt: text
    # api_key_env: API_KEY        # the variable that holds the key, if the server wants one
    # precision: bf16             # format of the weights
    # model_files: /path/to/model # for sizes, hashes and everything that needs them
"""


def write(path: Path, found: Sequence[Found], key_name: str | None = None) -> None:
    """Writes the plan, which holds no mistake; what is there already stays. Raises OptionError."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text(found, str(path), key_name))
    except FileExistsError:
        raise OptionError("is there already", where=str(path), cure="name another file") from None
    read_plan(path, on_this_machine=False)


def refuse_unfilled(path: str | Path, plan: str) -> None:
    """OptionError with the lines of a plan's text that hold something and are still marked."""
    lines = enumerate(plan.splitlines(), 1)
    if left := [str(n) for n, line in lines if f"# {FILL_IN}" in line and not line.lstrip().startswith("#")]:
        what = f"still marked {FILL_IN}: line {', '.join(left)}"
        raise OptionError(what, where=str(path), cure="fill in what is meant, and take the mark away")


def text(found: Sequence[Found], path: str = "plan.yaml", key_name: str | None = None) -> str:
    """The plan as text; with none found, a template that says what to fill in."""
    longest = min((server.context for server in found if server.context), default=INPUT + OUTPUT)
    room = min(1.0, longest / (INPUT + OUTPUT))
    shape = {"input": max(1, int(INPUT * room)), "output": max(1, int(OUTPUT * room))}
    entries = "\n".join(_entries(found, key_name)) + "\n" if found else TEMPLATE
    return HEAD.format(path=_plain(path)) + entries + TESTS.format(**shape, levels=", ".join(map(str, LEVELS)))


def _entries(found: Sequence[Found], key_name: str | None) -> Iterator[str]:
    taken: set[str] = set()
    for server in found:
        id = _id(server, taken)
        taken.add(id)
        yield "\n".join(_entry(server, id, key_name))


def _entry(server: Found, id: str, key_name: str | None) -> Iterator[str]:
    name = NAMES.get(server.kind, "A server with an OpenAI-compatible API")
    yield f"  # {name}{_plain(f' {server.version}') if server.version else ''}, found at {_plain(server.url)}"
    yield f"  - id: {id}"
    yield f"    kind: {server.kind}"
    yield f"    model: {_quoted(server.models[0])}{f'   # {FILL_IN}' if server.models == [UNNAMED] else ''}"
    if server.models[1:]:
        yield f"    # it also lists: {_plain(', '.join(server.models[1:20]))}"
    yield f"    url: {_quoted(server.url)}"
    if key_name or server.locked:
        comment = (
            "" if key_name else "    # FILL IN: it wants a key; name the variable of the environment that holds it"
        )
        yield f"    {'' if key_name else '# '}api_key_env: {key_name or 'API_KEY'}{comment}"
    yield from _prompts(server)
    if server.context:
        yield f"    # longest request it says it takes: {server.context} tokens"
    if server.slots:
        yield f"    # it serves {server.slots} requests at once; more wait"
    yield "    # precision: bf16             # format of the weights, e.g. bf16, fp8, q4_1"
    yield "    # model_files: /path/to/model # for sizes, hashes and everything that needs them"


def _prompts(server: Found) -> Iterator[str]:
    if server.kind in OF_WORDS or server.vocabulary:
        return
    yield "    prompt: text                  # as many words as tokens asked for; for exact lengths put in its place:"
    yield "    # vocabulary: 49152           # `vocab_size` of the model's config.json"


def _id(server: Found, taken: set[str]) -> str:
    """The kind and the model's own name, as ids may be written, each once."""
    words = re.sub(r"[^a-z0-9]+", "-", server.models[0].rsplit("/", 1)[-1].lower()).strip("-")
    id = f"{server.kind}-{words}"[:50].strip("-")
    return next(each for each in (id, *(f"{id}-{number}" for number in range(2, 100))) if each not in taken)


def _quoted(text: str) -> str:
    """A YAML string, whatever a server says."""
    return json.dumps(text)


def _plain(text: str) -> str:
    """For a comment: one line, printable."""
    return printable(text)[:500]
