"""The command line: parses, calls and prints. Heavy imports wait inside the commands, so that --help is fast."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from genreport import __version__
from genreport.errors import GenreportError


class Commands(click.Group):
    """Shows commands in the order of a first use, not of the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


def reports_errors(command: Callable[..., Any]) -> Callable[..., Any]:
    """Translates our errors, and the system's, into one line on stderr and an exit code, once for all commands."""

    @wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except GenreportError as error:
            click.echo(f"genreport: {error}" if error.exit_code == 1 else str(error), err=True)
            sys.exit(error.exit_code)
        except BrokenPipeError:
            raise  # the reader of our output has gone: click ends without a word
        except OSError as error:
            click.echo(f"genreport: {_of_the_system(error)}", err=True)
            sys.exit(1)
        except KeyboardInterrupt:
            click.echo("genreport: interrupted", err=True)
            sys.exit(130)

    return wrapped


CURES = {
    errno.ENOSPC: "make room on the disk; `run --resume` goes on with a round",
    errno.EDQUOT: "make room on the disk; `run --resume` goes on with a round",
    errno.EACCES: "choose a folder that you may read and write",
    errno.EPERM: "choose a folder that you may read and write",
    errno.EROFS: "choose a folder that you may read and write",
}


def _of_the_system(error: OSError) -> GenreportError:
    where = "" if error.filename is None else str(error.filename)
    return GenreportError(error.strerror or str(error), where=where, cure=CURES.get(error.errno or 0, ""))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="genreport")
def main() -> None:
    """Measure LLM inference servers into sealed rounds, and publish reports in which every number links to its source."""


@main.command()
@click.argument("plan", type=click.Path(dir_okay=False))
@click.option("--out", required=True, type=click.Path(file_okay=False), help="Folder of the round, e.g. runs/round2.")
@click.option("--resume", is_flag=True, help="Go on with a round that broke off; what is sealed is not measured again.")
@reports_errors
def run(plan: str, out: str, resume: bool) -> None:
    """Measure a round after PLAN (YAML)."""
    from genreport.runner import run as measure

    measure(Path(plan), Path(out), resume=resume)


@main.command()
@click.argument("round", type=click.Path())
@reports_errors
def check(round: str) -> None:
    """Verify the seals, hashes and schemas of ROUND."""
    from genreport.rounds import Round, check

    findings = list(check(round))
    for finding in findings:
        click.echo(finding, err=True)
    if findings:
        sys.exit(1)
    sealed = Round(round)
    click.echo(f"{round}: sealed, {len(sealed.seal.files):,} files and {len(sealed.levels)} levels hold")


@main.command()
@click.argument("rounds", nargs=-1, required=True, type=click.Path())
@click.option("--against", type=click.Path(), help="An earlier round to compare with (not in this version).")
@click.option(
    "--site", default="site", show_default=True, type=click.Path(file_okay=False), help="Where the site goes."
)
@reports_errors
def build(rounds: tuple[str, ...], against: str | None, site: str) -> None:
    """Publish one or several ROUNDS as a site."""
    if against is not None:
        raise GenreportError("--against is not supported by this version", cure="build without it")
    from genreport.publish import publish

    built = publish([Path(each) for each in rounds], Path(site))
    what = f"built in {built.seconds:.1f} s" if built.fresh else f"up to date, checked in {built.seconds:.1f} s"
    click.echo(f"{built.path}: {what}; open {built.path / 'index.html'}")


@main.command()
@click.argument("rounds", nargs=-1, type=click.Path())
@click.option("--port", default=8000, show_default=True)
@reports_errors
def serve(rounds: tuple[str, ...], port: int) -> None:
    """Preview the site of ROUNDS (all in runs/ if none is named), reloading when a page, template or round changes."""
    from genreport.publish import preview

    found = [Path(each) for each in rounds] or sorted(head.parent for head in Path("runs").glob("*/round.json"))
    sys.exit(preview(found, port))


@main.command()
@click.argument("round", type=click.Path())
@click.argument("figure", required=False)
@reports_errors
def explain(round: str, figure: str | None) -> None:
    """Derive FIGURE of ROUND down to file and line; without FIGURE, list them all."""
    from genreport.explain import explain as derive
    from genreport.figures import compute
    from genreport.publish import EVIDENCE, figures_of
    from genreport.rounds import verified

    opened = verified(round)
    # the counts of the evidence page need every figure a second time
    ledger = (figures_of if figure in EVIDENCE else compute)(opened).ledger
    lines = derive(opened, ledger, figure) if figure else (*(q.id for q in ledger), *EVIDENCE)
    click.echo("\n".join(lines))


@main.command()
@click.argument("site", default="site", type=click.Path())
@reports_errors
def audit(site: str) -> None:
    """Check a built SITE against the evidence it carries; exit 1 on any failure, or on nothing to check."""
    from genreport.audit import audit as examine

    report = examine(site)
    for failure in report.failures[:50]:
        click.echo(failure, err=True)
    if len(report.failures) > 50:
        click.echo(f"… and {len(report.failures) - 50} more", err=True)
    click.echo(", ".join(f"{number:,} {what}" for what, number in report.counts.items()))
    click.echo(f"{len(report.failures)} failures")
    sys.exit(0 if report.ok else 1)


@main.command()
@click.option("--out", default="demo", show_default=True, type=click.Path(file_okay=False), help="Folder to work in.")
@click.option("--no-open", is_flag=True, help="Do not open the site in a browser.")
@reports_errors
def demo(out: str, no_open: bool) -> None:
    """Measure an embedded llama.cpp with a small model for about two minutes, and open the site."""
    from genreport.demo import demo as first_run

    first_run(Path(out), open_site=not no_open)
