"""Every failure a user can cause or meet, each with one line that says what, where and what to do.

GenreportError            exit 1
├── PlanError             exit 2: the plan has mistakes; all of them at once, each with its line
├── OptionError           exit 2: a value of the command line cannot be read
├── RoundError            the round cannot be read or written
│   ├── NoRound           nothing there, or not a round
│   ├── WrongFormat       written by another format version
│   └── Tampered          a sealed file is missing or changed
├── EngineError           an engine did not start, answer or stop
├── ClientError           this machine cannot hold the load
├── ConditionError        exit 3: a round is recorded and sealed, and a level shows what its plan says it must not
├── BuildError            the site could not be built; the old one stays
└── AuditError            a built site says something its evidence does not

Such a line may quote a server, a log or a foreign round: `printable` keeps what they say from steering a terminal.
"""

import unicodedata


def printable(text: str, keep: str = "") -> str:
    """On one line and without control characters, but for those to `keep`: text of others is hostile."""
    return "".join(c if c.isprintable() or c in keep or unicodedata.category(c) == "Zs" else "\ufffd" for c in text)


class GenreportError(Exception):
    """A failure with a cause and a cure; `cli` prints it as one line and exits with `exit_code`."""

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", cure: str = "") -> None:
        self.what, self.where, self.cure = what, where, cure
        super().__init__(": ".join(part for part in (where, what) if part) + (f"; {cure}" if cure else ""))


class PlanError(GenreportError):
    """Mistakes of a plan, as (line, message) pairs in the order of the file."""

    exit_code = 2

    def __init__(self, path: str, mistakes: list[tuple[int, str]]) -> None:
        self.path, self.mistakes = path, sorted(mistakes)
        super().__init__("\n".join(f"{path}:{line}: {message}" for line, message in self.mistakes))


class OptionError(GenreportError):
    """A value of the command line that cannot be read."""

    exit_code = 2


class RoundError(GenreportError):
    """The round cannot be read or written."""


class NoRound(RoundError):
    """There is no round at that path."""


class WrongFormat(RoundError):
    """The round was written in a format this version does not read."""


class Tampered(RoundError):
    """A sealed file is missing, changed or new."""


class EngineError(GenreportError):
    """An engine did not start, answer or stop as it should."""


class ClientError(GenreportError):
    """The machine that sends has no more connections to give: nothing is said of the engine."""


class ConditionError(GenreportError):
    """Levels that failed the conditions of their plan, a line each."""

    exit_code = 3


class BuildError(GenreportError):
    """The site could not be built."""


class AuditError(GenreportError):
    """A built site says something that its evidence does not."""
