"""Where things stand below a round's folder in the site; whoever links to evidence asks here."""

from __future__ import annotations

from urllib.parse import quote

PAGE_LINES = 20_000
RAW, SOURCES, FIGURES, MANIFEST = "raw", "sources", "figures", "provenance.json"

# what a browser shows or downloads as text; anything else in a round is published with `.txt` behind its name, so that
# a page or a script that lies in a round never runs in the site
_TEXTUAL = {"json", "jsonl", "yaml", "yml", "csv", "log", "prom", "txt", "gz"}


def derivation_group(id: str) -> str:
    """The page a figure's derivation stands on: one a level, engine or pair (`concurrency.vllm-bf16.c4`)."""
    parts = id.partition("[")[0].split(".")
    return ".".join(parts[:-1][:3] or parts)


def derivation_href(id: str) -> str:
    """A figure's derivation (`figures/concurrency.vllm-bf16.c4.html#…`); a point of a curve leads to the curve."""
    figure = id.partition("[")[0]
    return f"{FIGURES}/{quote(derivation_group(figure))}.html#{quote(figure)}"


def listing_file(file: str, page: int = 1) -> str:
    """The listing's file below the round; page k holds lines (k − 1) · 20,000 + 1 onwards."""
    return f"{SOURCES}/{visible(file)}{'' if page == 1 else f'.{page}'}.html"


def listing_href(file: str, line: int | None = None) -> str:
    """A file's listing, at a line if one is given."""
    page = 1 if line is None else max(1, -(-line // PAGE_LINES))
    return quote(listing_file(file, page)) + ("" if line is None else f"#L{line}")


def raw_file(file: str) -> str:
    """The file as stored, byte for byte."""
    textual = file.rsplit("/", 1)[-1].rpartition(".")[2].lower() in _TEXTUAL
    return f"{RAW}/{visible(file)}{'' if textual else '.txt'}"


def raw_href(file: str) -> str:
    return quote(raw_file(file))


def visible(file: str) -> str:
    """A path no part of which starts with a dot: MkDocs publishes no hidden file."""
    return "/".join(f"_{part}" if part.startswith(".") else part for part in file.split("/"))


def up(path: str) -> str:
    """From a file back to the folder its path is relative to."""
    return "../" * path.count("/")
