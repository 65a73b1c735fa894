"""Every text a reader sees stands in a template or in the catalogue, so that a second language can follow."""

from __future__ import annotations

import ast
import html
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from string import Formatter

import pytest

from compose import Engine, Load, Test, compose_round, lengths, sweep
from genreport import words
from genreport.audit import audit
from genreport.pages import shared_context, write
from genreport.publish import figures_of, publish
from genreport.records import Failure
from genreport.reports import all_pages
from genreport.site import derivations
from genreport.site.listings import Listed
from genreport.site.sources import sources_index
from genreport.words import catalogue, say, templates_folder

PACKAGE = Path(words.__file__).parent
# the wing that writes the site; the terminal's own words (cli, explain, progress, errors) are not the site's
PUBLISHING = (
    *("audit", "charts", "comparing", "diff", "figures", "reports", "site"),
    *("display", "export", "onefile", "evaluate", "pages", "places", "provenance", "publish", "startlog"),
)
FILES = sorted(
    file for name in PUBLISHING for file in (PACKAGE / f"{name}.py", *(PACKAGE / name).rglob("*.py")) if file.is_file()
)
KEY = re.compile(r"[a-z_]+\.[a-z0-9_]+")


def entries() -> dict[str, str]:
    return {f"{section}.{name}": text for section, texts in catalogue().items() for name, text in texts.items()}


def places(text: str) -> frozenset[str]:
    """The {named} places of a text."""
    return frozenset(name for _, name, _, _ in Formatter().parse(text) if name is not None)


# ------------------------------------------------------------------------------------- the catalogue and its callers


@dataclass(frozen=True)
class Call:
    """One `say(…)`: the keys it may mean, and the places it fills in; `given` is None in a template."""

    where: str
    keys: frozenset[str]
    given: frozenset[str] | None


def test_every_text_that_is_asked_for_exists():
    assert not [call.where for call in calls() if not call.keys or call.keys - entries().keys()]


def test_every_text_gets_exactly_the_places_it_names():
    """Where one call chooses among several texts, some may leave out a place that others need."""
    known = entries()
    wrong = [
        call.where
        for call in calls()
        if call.given is not None and frozenset().union(*(places(known[key]) for key in call.keys)) != call.given
    ]
    assert not wrong


def test_every_text_is_used():
    assert entries().keys() == {key for call in calls() for key in call.keys}


def test_places_carry_names_and_no_format_because_display_writes_numbers():
    for key, text in entries().items():
        for _, name, spec, conversion in Formatter().parse(text):
            assert name is None or (name.isidentifier() and not spec and not conversion), key


def test_a_text_with_markup_or_braces_in_what_is_filled_in_stays_plain_text():
    assert say("number.because", reason="<b>{reason}") == "n/a: <b>{reason}"


def calls() -> list[Call]:
    found = [call for file in FILES for call in _calls_in(file)]
    # sections that a script of the page gets as they are
    for file in FILES:
        for match in re.finditer(r'\bcatalogue\(\)\["(\w+)"\]', file.read_text("utf-8")):
            found.append(Call(f"{file.name}: {match[0]}", frozenset(_section(match[1])), None))
    for template in sorted(templates_folder().iterdir()):
        text = template.read_text("utf-8") if template.suffix in (".md", ".html") else ""
        for match in re.finditer(r'\bsay\("([a-z0-9_.]+)"( ~)?', text):
            keys = {key for key in entries() if key.startswith(match[1])} if match[2] else {match[1]}
            found.append(Call(f"{template.name}: {match[0]}", frozenset(keys), None))
    return found


def _section(name: str) -> set[str]:
    return {key for key in entries() if key.startswith(f"{name}.")}


def _calls_in(file: Path) -> Iterator[Call]:
    tree = ast.parse(file.read_text("utf-8"))
    direct = {id(node) for call in _say_calls(tree) for node in ast.walk(call.args[0])}
    for scope in [*(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)), tree]:
        own = _own(scope)
        for call in (node for node in own if _is_say(node)):
            given = frozenset(keyword.arg for keyword in call.keywords)
            keys = _keys(call.args[0], given) or _named(own, direct) or _named(ast.walk(tree), direct)
            yield Call(f"{file.relative_to(PACKAGE)}:{call.lineno}", frozenset(keys), None if None in given else given)


def _is_say(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "say"


def _say_calls(tree: ast.AST) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if _is_say(node)]


def _own(scope: ast.AST) -> list[ast.AST]:
    """The nodes of a function or module without those of the functions in it."""
    found, queue = [], list(ast.iter_child_nodes(scope))
    while queue:
        node = queue.pop()
        if not isinstance(node, ast.FunctionDef):
            found.append(node)
            queue += ast.iter_child_nodes(node)
    return found


def _keys(argument: ast.AST, given: frozenset[str]) -> set[str]:
    """The keys that an argument spells out: a literal, a choice among literals, or all that fit an f-string."""
    if isinstance(argument, ast.Constant):
        return {argument.value}
    if isinstance(argument, ast.IfExp):
        return _keys(argument.body, given) | _keys(argument.orelse, given)
    if isinstance(argument, ast.JoinedStr):
        parts = (re.escape(p.value) if isinstance(p, ast.Constant) else "[a-z0-9_]+" for p in argument.values)
        pattern = re.compile("".join(parts))
        return {key for key, text in entries().items() if pattern.fullmatch(key) and places(text) <= given}
    return set()


def _named(nodes: Iterator[ast.AST] | list[ast.AST], direct: set[int]) -> set[str]:
    """Literals that look like a key of a section there is, outside the calls themselves."""
    found = (n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in direct)
    return {text for text in found if KEY.fullmatch(text) and text.split(".")[0] in catalogue()}


# ------------------------------------------------------------------------------------- no text left in the program

# what of the literals with two words or more is no text of a page: names of control characters, fonts, ids made of two
# words, a count of the audit, and what stands in scripts, logs and terminals
NO_TEXT = {
    "comparing/environment.py": ("served model", "KV bytes per element"),
    "charts/spec.py": ("system-ui, -apple-system,",),
    "figures/limits.py": ("write for example",),
    "publish.py": ("figures recomputed",),
    "reports/head_to_head.py": (
        *("equal same", "equal faster", "equal slower"),
        *("saves lost", "saves partly", "saves more", "costs nothing", "costs time"),
    ),
    "site/__init__.py": ("no message",),
    "site/bundle.py": ("/* vl-convert", "import sys, pathlib"),
    "site/listings.py": ("NUL SOH STX",),
    "startlog.py": ("loaded meta data with",),
}
ERRORS = re.compile(r"\w*Error|_wrong|_cure|print|warn|fail|guard|count|once")


def test_no_text_of_two_words_is_left_in_what_makes_pages():
    watched = [file for file in FILES if file.relative_to(PACKAGE).parts[0] not in ("audit", "evaluate.py")]
    assert {found for file in watched for found in _texts(file)} == set()


def test_the_rule_finds_a_sentence_and_passes_formulas_patterns_and_markup():
    def found(source: str) -> bool:
        return any(True for _ in _suspects(ast.parse(source)))

    assert found('x = "no request completed"')
    assert found('x = f"{n} rows where <b>C</b>"')
    assert found('x = "not recorded"')
    assert not found('def f():\n    "A docstring of words."')
    assert not found('raise BuildError("no round given", cure="name the folder")')
    assert not found('x = "long / normal if long > normal else 1"')
    assert not found(r'x = r"Iteration\((\d+)\): 0 context requests"')
    assert not found('x = \'<a class="gr-num gr-na" href="x y">\'')


def _texts(file: Path) -> Iterator[str]:
    name = file.relative_to(PACKAGE).as_posix()
    for line, text in _suspects(ast.parse(file.read_text("utf-8"))):
        if not text.startswith(NO_TEXT.get(name, ("\0",))):
            yield f"{name}:{line}: {text}"


def _suspects(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Literals with two words in a row that are no docstring, error, formula, pattern, script or markup."""
    passed = {id(n) for node in ast.walk(tree) if _is_passed(node) for n in ast.walk(node)}
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        whole = _text(node) if id(node) not in passed | parts else ""
        text = re.sub(r"<[^<>]*>?|[\w-]+=\"[^\"]*\"?", "", whole)
        if re.search(r"[A-Za-z]{2,},? +[A-Za-z]{2,}", text) and not _is_code(whole):
            yield node.lineno, whole


def _text(node: ast.AST) -> str:
    """A literal's text; what an f-string fills in is an `x`."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) if isinstance(part, ast.Constant) else "x" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _is_passed(node: ast.AST) -> bool:
    """An expression that stands alone (a docstring), and what is raised or printed in a terminal."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(node, ast.FunctionDef):
        return node.name == "_cure"
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("cure", "what"):
        return True
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return ERRORS.fullmatch(name) is not None


def _is_code(text: str) -> bool:
    """A pattern, a script of Vega, or a formula."""
    if "\\" in text or "(?" in text or "datum." in text or re.fullmatch(r"gr-[\w-]+( gr-[\w-]+)*", text):
        return True
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError):
        return False
    return not (isinstance(tree.body, ast.UnaryOp) and isinstance(tree.body.operand, ast.Name))


# ------------------------------------------------------------------------------------- a language of marks

OPEN, CLOSE = "⟦", "⟧"
SLOS = ({"id": "quick", "figure": "ttft", "percentile": "p99", "below_ms": 150},)
CLIFF = Test("cliff", "cliff", (Load("normal", 4, 64, 16), Load("long", 4, 1024, 256)))


@pytest.fixture
def marked(monkeypatch):
    """The catalogue in a language that wraps each text in marks."""
    speak(monkeypatch, lambda text: f"{OPEN}{text}{CLOSE}")


def speak(monkeypatch, translated: Callable[[str], str]) -> None:
    other = {section: {n: translated(text) for n, text in texts.items()} for section, texts in catalogue().items()}
    for name, module in list(sys.modules.items()):
        if name.startswith("genreport") and hasattr(module, "catalogue"):
            monkeypatch.setattr(module, "catalogue", lambda: other)


@pytest.mark.slow
def test_a_site_in_another_language_passes_the_audit(tmp_path, monkeypatch):
    compose_round(tmp_path / "composed", logs=False, repeats=1, **ROUNDS["all kinds of tests"])
    speak(monkeypatch, lambda text: "jetons" if text == "tokens" else f"[ü {text} ü]")
    publish([tmp_path / "composed"], tmp_path / "site")
    assert "[ü n/a ü]" in (tmp_path / "site" / "rounds" / "composed" / "cliff" / "index.html").read_text("utf-8")
    assert audit(tmp_path / "site").failures == []


def outside(text: str) -> str:
    """What of a text stands outside all marks."""
    depth, kept = 0, []
    for letter in text:
        depth += (letter == OPEN) - (letter == CLOSE)
        kept.append(letter if not depth and letter != CLOSE else "")
    assert depth == 0, text
    return "".join(kept)


def test_marks_are_taken_off_with_all_that_they_hold():
    assert outside("a ⟦b ⟦c⟧ d⟧ e") == "a  e"


ROUNDS = {
    "all kinds of tests": {
        "tests": [sweep(1, 2, 4, 8, 16), lengths(64, 128, 256), CLIFF],
        "slos": SLOS,
        "prefix_hits": 0.5,
    },
    "nothing but requests": {"counters": False, "samples": False, "logs": False, "models": False, "ceilings": False},
    "no request succeeded": {"failures": lambda *_: Failure(kind="http", status=503)},
    "another kind of engine": {"engines": (Engine("other", "openai"), Engine("third", "openai"))},
}


@pytest.fixture(params=ROUNDS, ids=lambda name: name.replace(" ", "-"))
def figures(request, tmp_path, marked):
    return figures_of(compose_round(tmp_path / "composed", **ROUNDS[request.param]))


def test_every_reason_for_a_missing_value_is_of_the_catalogue(figures):
    reasons = {q.reason for q in figures.ledger if q.missing}
    assert reasons
    assert {reason for reason in reasons if outside(reason)} == set()
    assert not [found.what for found in figures.findings if outside(found.what)]


def test_every_text_of_a_chart_is_of_the_catalogue_or_a_name(figures):
    for page in all_pages(figures):
        for chart in page.context.get("charts", {}).values():
            assert not re.search(r"\w", outside(chart.alt)), chart.alt
            for place, text in _texts_of(chart.spec):
                assert not re.search(r"[^\W\d_]", outside(text)), (chart.name, place, text)


# fields of rows that hold names, values as pages write them, or what only the drawing reads
OF_DATA = {
    *("engine", "level", "sweep", "wall", "percentile", "shown", "waited", "at", "after", "ceiling", "unit"),
    *("href", "colour", "place", "share", "front", "kind"),
}


def _texts_of(node: object, place: str = "") -> Iterator[tuple[str, str]]:
    """Every text of a specification that a reader may see, with the name of the field it stands in."""
    if isinstance(node, list):
        for part in node:
            yield from _texts_of(part, place)
    for key, part in node.items() if isinstance(node, dict) else ():
        if key == "values" and isinstance(part, list):
            fields = ((name, text) for row in part if isinstance(row, dict) for name, text in row.items())
            yield from ((n, t) for n, t in fields if isinstance(t, str) and n not in OF_DATA and not n.endswith("_id"))
        elif key in ("title", "better") and isinstance(part, str):
            yield key, part
        else:
            yield from _texts_of(part, key)


def test_every_word_of_a_page_is_of_a_template_of_the_catalogue_or_a_name(figures):
    written = _words_of_templates()
    shared = shared_context(figures)
    for page in all_pages(figures):
        text = write(page, figures.ledger, shared).text.split("---", 2)[2]
        # numbers and names are data; titles of numbers hold formulas, or reasons, which are tested above
        text = re.sub(
            r'<(a|span|code|pre|div|script|form)\b[^>]*class="gr-(num|engine|lit|example|chart|fit|cost)[^>]*>.*?</\1>',
            " ",
            text,
            flags=re.S,
        )
        assert _words(outside(re.sub(r"<[^>]*>", " ", text))) - written == set(), page.path


def _words_of_templates() -> set[str]:
    files = (file for file in templates_folder().iterdir() if file.suffix != ".toml")
    return {word for file in files for word in _words(file.read_text("utf-8"))}


def _words(text: str) -> set[str]:
    return set(re.findall(r"[^\W\d_]{3,}", text))


def test_the_words_of_a_derivation_are_of_the_catalogue(figures):
    for q in figures.ledger:
        markup = derivations.entry(q, figures.ledger, derivations.Links({}))
        own = re.findall(r"<(?:th|summary|small)[^>]*>(.*?)</(?:th|summary|small)>", markup)
        assert not [text for text in own if outside(text).strip()], markup


def test_the_page_of_sources_says_nothing_of_its_own(marked):
    files = ("round.json", "launches/a/1/start.log.gz")
    text = sources_index("composed", [Listed(file, "ab" * 32, 1, 1) for file in files])
    plain = html.unescape(outside(re.sub(r"<[^>]*>", " ", text)))
    assert _words(plain) - _words_of_templates() - _words(" ".join(files)) - {"composed"} == set()
