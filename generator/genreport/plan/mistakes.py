"""What can be wrong with a plan, in plain words: each mistake is a location in its data and a sentence.

Relations between parts are checked on the raw data, so that they show beside mistakes of structure.
"""

from __future__ import annotations

import difflib
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlsplit

from pydantic import ValidationError

from genreport.arrivals import read_trace
from genreport.corpus import holds_chats, read_chats, read_text
from genreport.plan.levels import TESTS
from genreport.plan.model import Plan
from genreport.plan.parts import ENV_NAME, VARIABLE, Part, expand, listed, split_command
from genreport.records import ID, OWN_DIALECT, EngineKind

Loc = tuple[str | int, ...]
Found = Iterator[tuple[Loc, str]]

TYPES = {
    "int": "a whole number",
    "float": "a number",
    "string": "text, in quotes if it looks like something else",
    "list": "a list",
    "dict": "a mapping",
    "model": "a mapping",
    "bool": "true or false",
}
SHORTEST_KEY = 8
LIMITS = {"greater_than": ("gt", "above"), "greater_than_equal": ("ge", "at least"), "less_than": ("lt", "below")}
ALPHABETS = {
    ID: "a-z, 0-9 and, after the first character, _ + -",
    ENV_NAME: "letters, digits and _, because it names a variable of the environment",
}


# ---- structure: pydantic's findings


def structure(raw: Any) -> Found:
    """What the plan's models refuse; under a misspelt kind of test, what the kind that was meant refuses too."""
    for error in _errors(Plan, raw):
        loc = tuple(part for part in error["loc"] if part != "[key]")
        yield _told(error, loc)
        if error["type"] == "union_tag_invalid" and (meant := _closest(error["ctx"]["tag"], TESTS)):
            for inner in _errors(TESTS[meant], error["input"] | {"kind": meant}):
                yield _told(inner, (*loc, meant, *inner["loc"]))


def _errors(model: type[Part], raw: Any) -> list[Any]:
    try:
        model.model_validate(raw)
    except ValidationError as error:
        return error.errors(include_url=False)
    return []


def _told(error: Any, loc: Loc) -> tuple[Loc, str]:
    kind, given, ctx = error["type"], error["input"], error.get("ctx", {})
    models, real = _models_at(loc)
    if kind == "extra_forbidden":
        return real, unknown("key", loc[-1], (f.alias or n for m in models for n, f in m.model_fields.items()))
    if kind == "missing":
        return real[:-1], f"`{loc[-1]}` is missing"
    if kind == "literal_error":
        return real, unknown("value", given, re.findall(r"[\w.-]+", ctx["expected"].replace(" or ", ", ")))
    if kind == "union_tag_invalid":
        return (*real, "kind"), unknown("value", ctx["tag"], TESTS)
    if kind == "union_tag_not_found":
        return real, f"`kind` is missing; {', '.join(TESTS)}"
    return real, _judged(kind, given, ctx) or f"{error['msg'][0].lower()}{error['msg'][1:]}, not {_short(given)}"


def _judged(kind: str, given: Any, ctx: dict[str, Any]) -> str | None:
    if kind == "value_error":
        return str(ctx["error"])
    if kind == "string_pattern_mismatch":
        return f"{_short(given)} may hold only {ALPHABETS[ctx['pattern']]}"
    if kind in LIMITS:
        key, word = LIMITS[kind]
        return f"must be {word} {ctx[key]:g}, not {_short(given)}"
    if kind == "too_short":
        return "must not be empty"
    stem, _, rest = kind.partition("_")
    return f"must be {TYPES[stem]}, not {_short(given)}" if stem in TYPES and rest != "too_long" else None


def _short(given: Any) -> str:
    if isinstance(given, dict | list):
        return "a mapping" if isinstance(given, dict) else "a list"
    return "empty" if given is None else repr(given)[:60]


def _closest(given: Any, known: Iterable[str]) -> str | None:
    return next(iter(difflib.get_close_matches(str(given), list(known), n=1)), None)


def unknown(what: str, given: Any, known: Iterable[Any]) -> str:
    """A sentence about a word that is not known, with the one that was meant or all that are."""
    known = sorted({str(word) for word in known})
    close = _closest(given, known)
    hint = f"did you mean {close!r}?" if close else f"known are {', '.join(known) or 'none'}"
    return f"unknown {what} {_short(given)}; {hint}"


def _models_at(loc: Loc) -> tuple[list[type[Part]], Loc]:
    """The models among whose keys the last part of a location is, and the location without a union's tag."""
    models: list[type[Part]] = [Plan]
    real: list[str | int] = []
    for place, part in enumerate(loc):
        if len(models) > 1 and part in TESTS and isinstance(real[-1], int):
            models = [TESTS[str(part)]]
            continue
        real.append(part)
        fields = [field for m in models for name, field in m.model_fields.items() if (field.alias or name) == part]
        if fields and place < len(loc) - 1:
            models = [model for field in fields for model in _models_in(field.annotation)]
    return models, tuple(real)


def _models_in(annotation: Any) -> list[type[Part]]:
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return [annotation]
    return [model for inner in get_args(annotation) for model in _models_in(inner)]


# ---- relations between parts


def relations(raw: Any) -> Found:
    """What only the whole plan can tell: ids given twice or unknown, several baselines, flags nobody can receive."""
    yield from _same_ids(raw)
    yield from _baselines(raw)
    yield from _ports(raw)
    yield from _lost_flags(raw)
    yield from _unknown_names(raw)
    yield from _without_chat(raw)
    yield from hidden_ids(raw)


def _maps(raw: Any, key: str) -> list[tuple[int, dict[Any, Any]]]:
    return [(place, part) for place, part in enumerate(_list(raw, key)) if isinstance(part, dict)]


def _list(raw: Any, key: str) -> list[Any]:
    found = raw.get(key) if isinstance(raw, dict) else None
    return found if isinstance(found, list) else []


def _engine_ids(entry: dict[Any, Any]) -> list[tuple[Loc, str]]:
    """Places and ids of the engines an entry stands for; its own comes first."""
    base = str(entry.get("id"))
    varied = [(("variants", k, "id"), f"{base}-{v.get('id')}") for k, v in _maps(entry, "variants")]
    return [(("id",), base), *varied]


def _same_ids(raw: Any) -> Found:
    parts = {key: [((key, k, "id"), str(v["id"])) for k, v in _maps(raw, key) if "id" in v] for key in ID_LISTS}
    parts["engines"] = [(("engines", k, *loc), id) for k, e in _maps(raw, "engines") for loc, id in _engine_ids(e)]
    for key, ids in parts.items():
        seen: set[str] = set()
        for loc, id in ids:
            if id in seen:
                yield loc, f"two {key} have the id {id!r}"
            seen.add(id)


ID_LISTS = ("tests", "slos", "hypotheses")


def _baselines(raw: Any) -> Found:
    marked = [place for place, entry in _maps(raw, "engines") if entry.get("baseline") is True]
    yield from ((("engines", place, "baseline"), "another engine is the baseline already") for place in marked[1:])


def _ports(raw: Any) -> Found:
    for place, entry in _maps(raw, "engines"):
        if "launch" in entry and not _has_port(entry.get("url")):
            yield ("engines", place, "url"), "needs a port: the engine is started here and answers on it"


def _has_port(url: Any) -> bool:
    try:
        parts = urlsplit(url) if isinstance(url, str) and not VARIABLE.search(url) else None
        return parts is None or parts.port is not None or not parts.hostname
    except ValueError:  # a mistake of structure
        return True


def _lost_flags(raw: Any) -> Found:
    """Flags and environments reach only servers that the runner starts."""
    running: set[str] = set()
    for place, entry in _maps(raw, "engines"):
        if "launch" in entry:
            continue
        running |= {id for _, id in _engine_ids(entry)}
        for k, variant in _maps(entry, "variants"):
            if variant.get("flags") or variant.get("env"):
                yield ("engines", place, "variants", k), "changes flags or env, but the engine has no `launch`"
    for place, test in _maps(raw, "tests"):
        reached = running & set(map(str, _list(test, "engines"))) if "engines" in test else running
        if test.get("flags") and reached:
            yield ("tests", place, "flags"), f"can not reach {', '.join(sorted(reached))}: it has no `launch`"


def _unknown_names(raw: Any) -> Found:
    entries = [entry for _, entry in _maps(raw, "engines")]
    nameable = [id for entry in entries for _, id in _engine_ids(entry)]
    unmeasured = {str(e.get("id")) for e in entries if _list(e, "variants") and not e.get("keep_base")}
    measured = [id for id in nameable if id not in unmeasured]
    for place, test in _maps(raw, "tests"):
        for k, engine in enumerate(_list(test, "engines")):
            if str(engine) not in nameable:
                yield ("tests", place, "engines", k), unknown("engine", engine, nameable)
    tests = [str(test.get("id")) for _, test in _maps(raw, "tests")]
    slos = [str(slo.get("id")) for _, slo in _maps(raw, "slos")]
    for place, test in _maps(raw, "tests"):
        search = test.get("search")
        if isinstance(search, dict) and "slo" in search and str(search["slo"]) not in slos:
            yield ("tests", place, "search", "slo"), unknown("SLO", search["slo"], slos)
    for place, claim in _maps(raw, "hypotheses"):
        for key, what, known in (("engine", "engine", measured), ("against_engine", "engine", measured),
                                 ("test", "test", tests)):  # fmt: skip
            if key in claim and str(claim[key]) not in known:
                yield ("hypotheses", place, key), unknown(what, claim[key], known)


def _without_chat(raw: Any) -> Found:
    """Tests that would send messages to an engine that is asked at an endpoint of its own."""
    entries = [e for _, e in _maps(raw, "engines") if e.get("kind") in OWN_DIALECT or e.get("api") == "own"]
    own = {id for entry in entries for _, id in _engine_ids(entry)}
    for place, test in _maps(raw, "tests"):
        if not test.get("chat", test.get("kind") == "conversation"):
            continue
        if deaf := sorted(own & set(map(str, _list(test, "engines"))) if "engines" in test else own):
            cure = "`chat: false` sends one text; or measure its OpenAI endpoint by `kind: openai`"
            yield ("tests", place), f"sends messages, and {', '.join(deaf)} is asked at an endpoint of its own; {cure}"


def hidden_ids(raw: Any) -> Found:
    """Texts to redact that are part of an id: folders and records of the round carry the ids as they are."""
    engines = [id for _, entry in _maps(raw, "engines") for _, id in _engine_ids(entry)]
    ids = [*engines, *(str(test.get("id")) for _, test in _maps(raw, "tests")), *get_args(EngineKind)]
    for place, text in enumerate(_list(raw, "redact")):
        if text and (id := next((id for id in ids if str(text) in id), None)):
            yield ("redact", place), f"{str(text)!r} is part of {id!r}, which the round can not do without; rename one"


# ---- what only this machine can tell


def unset_variables(raw: Any, env: Mapping[str, str]) -> Found:
    """Variables of the environment that the plan uses and that are not set."""
    for loc, text in _strings(raw, ()):
        yield from (
            (loc, f"the environment has no variable {name}") for name in VARIABLE.findall(text) if name not in env
        )
    for place, entry in _maps(raw, "engines"):
        name = entry.get("api_key_env")
        if isinstance(name, str) and re.match(ENV_NAME, name) and (wrong := _wrong_key(name, env.get(name))):
            yield ("engines", place, "api_key_env"), wrong


def _wrong_key(name: str, key: str | None) -> str | None:
    if key is None:
        return f"the environment has no variable {name}"
    if len(key) < SHORTEST_KEY:
        few = f"the key in {name} has {len(key)} characters"
        return f"{few}; one of fewer than {SHORTEST_KEY} can not be told from other words in logs and answers"
    return None


def _strings(value: Any, loc: Loc) -> Iterator[tuple[Loc, str]]:
    if isinstance(value, str):
        yield loc, value
    elif isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _strings(inner, (*loc, key))


def absences(raw: Any, env: Mapping[str, str]) -> Found:
    """Files and programs that do not exist, or hold nothing of use; names with unset variables are left to those."""
    yield from _bad_files(raw, env, "trace", read_trace)
    yield from _bad_files(raw, env, "prompts", lambda name: (read_chats if holds_chats(name) else read_text)(name))
    for place, entry in _maps(raw, "engines"):
        for key in ("model_files", "ca_file"):
            for name in expand(_texts(entry.get(key)), env):
                if not VARIABLE.search(name) and not Path(name).exists():
                    yield ("engines", place, key), f"{name} does not exist"
        launch = entry.get("launch")
        if isinstance(launch, dict) and (program := expand(_program(launch.get("command")), env)):
            path = launch["env"].get("PATH") if isinstance(launch.get("env"), dict) else None
            if not VARIABLE.search(program) and not shutil.which(program, path=path or env.get("PATH")):
                yield ("engines", place, "launch", "command"), f"there is no program {program}"


def _bad_files(raw: Any, env: Mapping[str, str], key: str, read: Callable[[str], object]) -> Found:
    """Files of a test that can not be read, or hold nothing that it would send."""
    for place, test in _maps(raw, "tests"):
        for name in expand(_texts(test.get(key)), env):
            try:
                if not VARIABLE.search(name):
                    read(name)
            except ValueError as error:
                yield ("tests", place, key), str(error)


def _texts(value: Any) -> list[str]:
    return [name for name in listed(value) if isinstance(name, str)] if isinstance(value, str | list) else []


def _program(command: Any) -> str:
    try:
        return next(iter(_texts(split_command(command))), "")
    except ValueError:
        return ""
