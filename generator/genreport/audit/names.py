"""Names that hold digits but are no measurement: terms of the field, and what a round says of itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

TERMS = {
    "p50", "p90", "p95", "p99", "p99.9", "p99.99", "E2EL", "01", "02", "03", "04", "05", "06", "07", "08", "09", "95 %", "R²",
}  # fmt: skip
# of a level's facts, what describes its load
LOADS = ("shape", "concurrency", "arrivals", "conversations", "requests", "warmup", "duration_s")
_AROUND = "()[]{}<>,;:.\"'"


def bare(word: str) -> str:
    """A word without the punctuation around it."""
    return word.strip(_AROUND)


def is_name(text: str, vocabulary: str) -> bool:
    """Whether each word with a digit is a term of the field or stands in the round's own descriptions."""
    if text in TERMS:
        return True
    words = (bare(word) for word in text.split() if re.search(r"\d", word))
    return all(word in TERMS or _stands_in(word, vocabulary) for word in words)


def _stands_in(word: str, vocabulary: str) -> bool:
    """Whether a word stands in the text by itself: the 4 of 64 is not the name `4`."""
    return re.search(rf"(?<![\w.]){re.escape(word)}(?![\w])", vocabulary) is not None


def vocabulary(raw: Path) -> str:
    """Everything a round says about itself in words: names, versions, commands, dates; what is missing says nothing."""
    heads = [raw / name for name in ("round.json", "plan.yaml", "machine.json")]
    files = [*heads, *sorted(raw.glob("launches/*/*/launch.json")), *sorted(raw.glob("models/*.json"))]
    texts = [path.read_text("utf-8", "replace") for path in files if path.is_file()]
    names = [path.relative_to(raw).as_posix() for path in raw.rglob("*") if path.is_file()]
    text = "\n".join([raw.parent.name, *texts, *names, *_dates(raw / "round.json"), *_loads(raw)])
    return text + "\n" + json.dumps(text)  # as escaped in JSON too


def _loads(raw: Path) -> Iterator[str]:
    """What each level was: a plan need not spell it, as the mean rate of a ramp, or how many requests a time held."""
    for path in raw.glob("levels/*/*/*/*/facts.json"):
        try:
            facts = json.loads(path.read_bytes())
            yield json.dumps([facts.get(name) for name in LOADS])
        except (OSError, ValueError, AttributeError, RecursionError):
            continue


def _dates(head: Path) -> list[str]:
    try:
        started = json.loads(head.read_bytes())["started_unix_us"]
        return [datetime.fromtimestamp(started / 1e6, UTC).strftime("%Y-%m-%d %H:%M UTC")]
    except (OSError, ValueError, LookupError, TypeError, OverflowError):
        return []
