"""What the page of one request must know beside its record; `docs/assets/request.js` makes it, in the listing of records.

No page is written a request: a round may hold a hundred thousand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from genreport.display import shown
from genreport.enginelog import lines_of_requests
from genreport.places import derivation_href, listing_file, page_starts, up
from genreport.provenance import COLUMNS, Ledger, Quantity
from genreport.rounds import ENGINE_LOG, REQUESTS

# figures by their ids
Figures = Ledger | Mapping[str, Quantity]
# ends the id of a level's median gap between text events
GAP = ".gap.p50"


@dataclass(frozen=True)
class Beside:
    """What belongs to one repeat's records.

    `starts` and `log_starts`: the first line on each page of the two listings, the latter empty without a log; `log_lines`:
    the lines of the log about a request, by the request's line; `gap`: the level's median gap between text events.
    """

    file: str
    lines: int
    starts: tuple[int, ...]
    log_starts: tuple[int, ...]
    log_lines: dict[int, list[int]]
    gap: Quantity | None

    def context(self, first: int, last: int) -> dict[str, Any]:
        """What templates/_request.html is filled with on the page that holds these lines."""
        return {
            "file": REQUESTS,
            "where": " · ".join(self.file.split("/")[1:-1]),
            "lines": self.lines,
            "starts": _dumped(self.starts),
            "log": ENGINE_LOG if self.log_starts else "",
            "log_starts": _dumped(self.log_starts),
            "log_lines": _dumped({k: _ranges(numbers) for k, numbers in self.log_lines.items() if first <= k <= last}),
            "gap": repr(self.gap.value) if self.gap else "",
            "gap_number": _number(self.gap, up(listing_file(self.file))) if self.gap else None,
            "columns": COLUMNS,
        }


def log_of(file: str) -> str:
    """The engine's log of the same repeat."""
    return f"{file.rpartition('/')[0]}/{ENGINE_LOG}"


def beside(
    file: str, records: Sequence[str], starts: tuple[int, ...], log: bytes | None, figures: Figures | None
) -> Beside:
    """What belongs to the records of this file; `log` is the engine's, unpacked, if the round has one."""
    lines = lines_of_requests(records, log.decode("utf-8", "replace").split("\n")) if log else {}
    log_starts = () if log is None else page_starts(log)
    return Beside(file, len(records), starts, log_starts, lines, _median_gap(file, figures))


def _median_gap(file: str, figures: Figures | None) -> Quantity | None:
    """A gap above twice of which is a stall, as for the level's share of stalls."""
    level = ".".join(file.split("/")[1:4])
    found = figures.get(f"{level}{GAP}") if figures is not None else None
    return None if found is None or found.missing else found


def _number(q: Quantity, home: str) -> Markup:
    link = Markup('<a class="gr-num" data-id="{}" href="{}{}">{}</a>')
    return link.format(q.id, home, derivation_href(q.id), shown(q.value, q.unit))


def _ranges(numbers: Sequence[int]) -> str:
    """`76-79,139` for 76, 77, 78, 79, 139."""
    starts = [k for k in range(len(numbers)) if k == 0 or numbers[k] != numbers[k - 1] + 1]
    runs = (numbers[a:b] for a, b in zip(starts, [*starts[1:], len(numbers)], strict=True))
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)


def _dumped(plain: Any) -> str:
    return json.dumps(plain, separators=(",", ":"))
