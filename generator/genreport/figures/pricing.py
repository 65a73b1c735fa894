"""What a million output tokens costs, from the plan's prices and the throughput that a service level leaves."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from genreport.figures import choosing, planned
from genreport.figures.book import Book
from genreport.figures.layout import TestView
from genreport.figures.limits import Limit
from genreport.words import say

SCOPE = "test.price"
HOURS_A_YEAR = 8760
COST = "hourly / (x * 3600 * use) * 1000000"
PAYS_FROM = "hourly / (x * 3600) * 1000000 / api"
HOURS = "1000000 / x / 3600"
# keys of the plan's `prices` that are no money, and their units
UNITS = {"years": "1", "watts": "W", "utilisation": "share"}
KEYS = ("hour", "card", "years", "watts", "kwh", "utilisation", "api")


def currency(plan: Mapping[str, Any]) -> str | None:
    """The currency of the plan's prices, `None` where it gives none."""
    prices = plan.get("prices")
    code = prices.get("currency") if isinstance(prices, dict) else None
    return code if isinstance(code, str) and re.fullmatch(r"[A-Z]{3}", code) else None


def enter_prices(book: Book) -> None:
    """The plan's prices and what an hour of the machine costs by them; without prices, nothing."""
    money = currency(book.round.plan)
    if not money:
        return
    given = [key for key in KEYS if key in book.round.plan["prices"]]
    for key in given:
        planned.enter(book, f"{SCOPE}.{key}", UNITS.get(key, money), f"/prices/{key}")
    machine = ["hour"] if "hour" in given else ["card", "years"]
    power = ["watts", "kwh"] if {"watts", "kwh"} <= set(given) else []
    formula = "hour" if "hour" in given else f"card / (years * {HOURS_A_YEAR})"
    formula += " + watts / 1000 * kwh" if power else ""
    if not set(machine) <= set(given):
        book.missing(f"{SCOPE}.hourly", money, formula, say("missing.plan_no_price"))
    else:
        book.derive(f"{SCOPE}.hourly", money, formula, hourly, **{key: f"{SCOPE}.{key}" for key in (*machine, *power)})


def hourly(
    hour: float | None = None, card: float = 0, years: float = 1, watts: float = 0, kwh: float = 0
) -> float:  # fmt: skip
    """What one hour of the machine costs: its rent, or its price spread over its years, and the power it draws."""
    machine = card / (years * HOURS_A_YEAR) if hour is None else hour
    return machine + watts / 1000 * kwh


def enter(book: Book, test: TestView, given: Sequence[Limit] = ()) -> None:
    """Machine time and cost of a million output tokens of each engine, at each service level and at its peak."""
    money = currency(book.round.plan)
    for scope, throughput in _scopes(book, test, given):
        book.derive(f"{scope}.machine_hours", "h", HOURS, hours, x=throughput)
        if money:
            _cost(book, scope, money, throughput)


def _scopes(book: Book, test: TestView, given: Sequence[Limit]) -> Iterator[tuple[str, str]]:
    """Where each cost stands, with the id of the throughput that it rests on."""
    for engine in test.engines:
        for slo in choosing.slos(book.round.plan, given):
            scope = f"test.{test.id}.slo.{slo.id}.{engine}"
            yield scope, f"{scope}.throughput"
        yield f"test.{test.id}.peak.{engine}", f"{test.id}.{engine}.peak_throughput"


def _cost(book: Book, scope: str, money: str, throughput: str) -> None:
    if f"{SCOPE}.utilisation" not in book.ledger:
        book.missing(f"{scope}.cost", money, COST, say("missing.plan_no_utilisation"))
    else:
        book.derive(f"{scope}.cost", money, COST, per_million,
                    hourly=f"{SCOPE}.hourly", x=throughput, use=f"{SCOPE}.utilisation")  # fmt: skip
    if f"{SCOPE}.api" in book.ledger:
        book.derive(f"{scope}.pays_from", "share", PAYS_FROM, pays_from,
                    hourly=f"{SCOPE}.hourly", x=throughput, api=f"{SCOPE}.api")  # fmt: skip


def hours(x: float) -> float:
    """Hours that a million output tokens take at X tokens a second, without a pause."""
    return 1_000_000 / x / 3600


def per_million(hourly: float, x: float, use: float) -> float:
    """Price of a million output tokens at X tokens a second, busy for a share of the time."""
    return hourly / (x * 3600 * use) * 1_000_000


def pays_from(hourly: float, x: float, api: float) -> float:
    """The share of the time the machine must be busy to cost no more than paying an API by the token."""
    return per_million(hourly, x, 1) / api
