"""What a comparison comes to, in one sentence, and how its numbers are written in text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from genreport.comparing import Comparison, Difference, LevelPair
from genreport.comparing.hypotheses import judge
from genreport.display import NARROW, shown
from genreport.reports.against import Row, case_of, ranked, said_of
from genreport.words import say

# the cases of an engine that tell a reader something changed, or that nothing visible did
TOLD = ("better", "worse", "mixed")
QUIET = ("steady", "open")
# how a condition is absent that need not be there: topic -> word
ABSENT = {"flags": "not_set", "env": "not_set", "sampling": "not_set", "slos": "none_such", "plan": "none_such"}


def sentence(c: Comparison) -> str:
    """One sentence for someone who reads no table."""
    case = case_of(c)
    if case == "setting":
        return say("diff.setting", what=", ".join(d.name for d in c.setting))
    if case != "changes":
        return say(f"diff.{case}")
    return _changes([(s.engine, s.case) for s in said_of(c, ranked(c))], _failing(c))


def _changes(cases: Sequence[tuple[str, str]], failing: str) -> str:
    by_case = {case: [engine for engine, found in cases if found == case] for case in (*TOLD, *QUIET, "few", "apart")}
    told = ", ".join(say(f"diff.{case}", engines=_listed(by_case[case])) for case in TOLD if by_case[case])
    quiet = [engine for engine, case in cases if case in QUIET]
    parts = [told or say("diff.open" if by_case["open"] else "diff.steady")] if told or quiet else []
    parts += [say("diff.quiet", engines=_listed(quiet))] if told and quiet else []
    parts += [say("diff.few", engines=_listed(by_case["few"]))] if by_case["few"] else []
    parts = parts or [say("diff.apart_all")]
    return "; ".join([*parts, failing] if failing else parts) + "."


def _failing(c: Comparison) -> str:
    """How many requests fail on the levels on which more of them do than before, or nothing."""
    if not c.failing:
        return ""
    engines = dict.fromkeys(pair.new.engine for pair in c.failing)
    failed, sent = (text(c, f"{c.scope}.failing.{name}") for name in ("failed", "sent"))
    return say("diff.failing", failed=failed, sent=sent, engines=_listed(list(engines)))


def failures(c: Comparison) -> Iterator[str]:
    """The levels on which more requests fail than before, a line each."""
    return (fails(c, pair) for pair in c.failing)


def fails(c: Comparison, pair: LevelPair) -> str:
    """How many of a level's requests failed, then and now."""
    old, new = (f"other.{c.slug}.{pair.old.id}.failed", f"{pair.new.id}.failed")
    sides = {"old": text(c, old), "old_sent": text(c, f"{pair.id}.old_sent"), "new": text(c, new),
             "sent": text(c, f"{pair.id}.sent")}  # fmt: skip
    return say("diff.fails", level=f"{pair.new.test}/{pair.new.engine}/{pair.new.name}", **sides)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)


def largest(c: Comparison) -> Iterator[str]:
    """Each engine's most important change for the better and for the worse, a line each."""
    for engine in said_of(c, ranked(c)) if case_of(c) == "changes" else ():
        for key, row in (("most_improved", engine.best), ("most_regressed", engine.worst)):
            if row is not None:
                yield say(f"diff.{key}", figure=figure(row), level=level(row), old=text(c, row.figure.then),
                          new=text(c, row.figure.now), change=change(value(c, f"{row.figure.scope}.ratio")))  # fmt: skip


def hypotheses(c: Comparison) -> Iterator[str]:
    """Verdicts on what the later round's plan claims against the earlier one, a line each; enters what decides them."""
    for judged in judge(c.new, (c,)):
        if judged.entry.get("against_round") == c.name:
            ends = [value(c, f"{judged.scope}.{name}") for name in ("ratio", "low", "high")]
            found = (
                say("diff.by", change=change(ends[0]), low=change(ends[1]), high=change(ends[2]))
                if None not in ends
                else ""
            )
            yield say("diff.hypothesis", id=judged.id, verdict=say(f"diff.{judged.verdict}"), found=found)


def figure(row: Row) -> str:
    """The name of a compared figure."""
    return say(f"diff.figure_{row.figure.figure.replace('.', '_')}")


def level(row: Row) -> str:
    """A level as one word: test/engine/name."""
    return f"{row.test}/{row.engine}/{row.name}"


def value(c: Comparison, id: str) -> float | None:
    """A figure's value in the later round's ledger, where there is one."""
    return c.new.ledger.value(id)


def text(c: Comparison, id: str) -> str:
    """A figure as pages write it, or n/a."""
    q = c.new.ledger.get(id)
    return say("number.na") if q is None or q.missing else shown(q.value, q.unit).replace(NARROW, " ")


def change(ratio: float | None) -> str:
    """A ratio as the change in percent, with its sign."""
    if ratio is None:
        return say("number.na")
    share = shown(abs(ratio - 1), "share").replace(NARROW, " ")
    return ("+" if ratio > 1 else "−" if ratio < 1 else "") + share


def interval(c: Comparison, row: Row) -> str:
    """The interval of a change, or nothing where it has none."""
    low, high = (value(c, f"{row.figure.scope}.{end}") for end in ("low", "high"))
    return "" if low is None or high is None else say("diff.interval", low=change(low), high=change(high))


def visible(c: Comparison, row: Row) -> str:
    """The smallest change that these repeats would have shown, beside a verdict that says no change."""
    if row.figure.verdict not in ("equivalent", "inconclusive"):
        return ""
    found = value(c, f"{row.figure.scope}.detectable")
    return "" if found is None else shown(found, "share").replace(NARROW, " ")


def verdict(word: str) -> str:
    return say(f"diff.verdict_{word}")


def differences(c: Comparison) -> Iterator[Difference]:
    """What was changed between the rounds, what makes levels incomparable first."""
    return iter(sorted((d for d in c.environment if not d.same), key=lambda d: not d.blocks))


def counts(c: Comparison) -> list[tuple[str, int]]:
    """Verdicts that occur, with how often."""
    words = ("regressed", "improved", "equivalent", "inconclusive", "too_few", "not_comparable", "equal", "outside")
    return [(word, int(number)) for word in words if (number := value(c, c.count(word)))]


def apart(c: Comparison) -> Iterator[str]:
    """Levels that are not compared, a line a state: those of one engine together."""
    found: dict[str, dict[str, list[str]]] = {}
    for pair in c.levels:
        view = pair.new or pair.old
        if pair.state != "matched":
            found.setdefault(pair.state, {}).setdefault(f"{view.test}/{view.engine}", []).append(view.name)
    for state, levels in found.items():
        listed = "; ".join(f"{where} {', '.join(names)}" for where, names in levels.items())
        yield say("diff.apart", state=verdict(state), levels=listed)


def means(d: Difference) -> str:
    """What a condition that differs keeps from being compared; empty where nothing is."""
    if d.topic == "ceiling":
        return say(f"diff.ceiling_{d.name}")
    return say("diff.blocks") if d.blocks else ""


def cautions(c: Comparison) -> Iterator[str]:
    """What is worth knowing of levels that are compared, a line a level."""
    for pair in c.levels:
        if pair.doubted:
            found = [f"{d.name} {turned(d)}" for d in pair.cautions]
            found += [say("diff.flagged", flag=say(f"flag.{f.kind}"), round=c.new.round.name if f.new else c.name)
                      for f in pair.flagged]  # fmt: skip
            found += [say("diff.cached")] if pair.cached else []
            where = f"{pair.new.test}/{pair.new.engine}/{pair.new.name}"
            yield say("diff.caution", level=where, found="; ".join(found))


def turned(d: Difference) -> str:
    """What a condition was and is; of a hypothesis, which is a whole text, only that it came or went."""
    if d.topic == "hypotheses":
        return say("diff.added" if d.old is None else "diff.removed" if d.new is None else "diff.reworded")
    return f"{side(d, d.old)} → {side(d, d.new)}"


def side(d: Difference, text: str | None) -> str:
    """One side of a condition, short."""
    if text is None:
        return say(f"diff.{ABSENT.get(d.topic, 'not_recorded')}")
    return text if len(text) <= 60 else f"{text[:59]}…"
