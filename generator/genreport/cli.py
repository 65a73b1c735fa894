"""The command line: parses, calls and prints. Heavy imports wait inside the commands, so that --help is fast."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from genreport import __version__
from genreport.errors import GenreportError, printable


def rounds_here(ctx: click.Context, param: click.Parameter, typed: str) -> list[str]:
    """Rounds in runs/, for the shell."""
    return sorted(str(head.parent) for head in Path("runs").glob("*/round.json") if str(head).startswith(typed))


def figures_here(ctx: click.Context, param: click.Parameter, typed: str) -> list[str]:
    """Names of a round's figures, where a site of it is built: computing them would take too long for a key press."""
    import json

    manifest = Path("site", "rounds", Path(ctx.params.get("round") or "").name, "provenance.json")
    try:
        entries = json.loads(manifest.read_bytes())["figures"]
    except (OSError, ValueError, KeyError):
        return []
    return [entry["id"] for entry in entries if entry["id"].startswith(typed)]


class RoundPath(click.Path):
    """A path whose completion offers the rounds in runs/, and where there are none any path."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        found = rounds_here(ctx, param, incomplete)
        return [CompletionItem(name) for name in found] or super().shell_complete(ctx, param, incomplete)


class Commands(click.Group):
    """Shows commands in the order of a first use, not of the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


def tell(text: str, *, err: bool = False) -> None:
    """Lines for a person, in which no server, log or foreign round steers the terminal."""
    click.echo(printable(text, keep="\n\t"), err=err)


def reports_errors(command: Callable[..., Any]) -> Callable[..., Any]:
    """Translates our errors, and the system's, into one line on stderr and an exit code, once for all commands."""

    @wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except GenreportError as error:
            tell(str(error) if error.exit_code == 2 else f"genreport: {error}", err=True)
            sys.exit(error.exit_code)
        except BrokenPipeError:
            raise  # the reader of our output has gone: click ends without a word
        except OSError as error:
            tell(f"genreport: {_of_the_system(error)}", err=True)
            sys.exit(1)
        except KeyboardInterrupt:
            tell("genreport: interrupted", err=True)
            sys.exit(130)

    return wrapped


def may_be_cut(command: Callable[..., Any]) -> Callable[..., Any]:
    """For a command that only prints: a reader that has had enough, as `head`, is no failure."""

    @wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still held back must not fail at the end

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
@click.option("--quiet", is_flag=True, help="Say nothing but what went wrong.")
@click.option("--json", "as_json", is_flag=True, help="Say it as JSON objects, one a line, on the standard output.")
@click.option(
    "--workers", metavar="ADDRESS", help="Let the workers of a dask cluster hold the loads, e.g. tcp://scheduler:8786."
)
@reports_errors
def run(plan: str, out: str, resume: bool, quiet: bool, as_json: bool, workers: str | None) -> None:
    """Measure a round after PLAN (YAML); exit with 3 if a level does not meet the plan's conditions."""
    from genreport.progress import JsonLines, Progress, Quiet
    from genreport.runner import run as measure

    if quiet and as_json:
        raise click.UsageError("--quiet and --json exclude each other")
    shown = JsonLines() if as_json else Quiet() if quiet else Progress()
    measure(Path(plan), Path(out), resume=resume, progress=shown, scheduler=workers)


@main.group(cls=Commands)
def plan() -> None:
    """Draft a plan, or tell what one will do."""


@plan.command("init")
@click.argument("path", default="plan.yaml", type=click.Path(dir_okay=False))
@click.option("--url", "urls", multiple=True, help="A server to ask instead of localhost; may be given several times.")
@click.option("--api-key-env", "key_name", metavar="NAME", help="Variable of the environment that holds their key.")
@reports_errors
def plan_init(path: str, urls: tuple[str, ...], key_name: str | None) -> None:
    """Write a commented plan, PATH, for the engines that run on this machine."""
    from genreport.places import free
    from genreport.planning import draft, finding

    target = free(path)
    asked = tuple(map(finding.address, urls)) or tuple(f"http://127.0.0.1:{port}" for port in finding.PORTS)
    found = finding.look(asked, os.environ.get(key_name) if key_name else None)
    draft.write(target, found, key_name)
    for server in found:
        what = "wants a key: see --api-key-env" if server.locked else f"{server.kind}, {server.models[0]}"
        tell(f"{server.url}: {what}")
    if not found:
        tell(f"no engine answers at {', '.join(asked)}; {path} is a template: fill in what it marks")
    tell(f"{path}: written; genreport plan check {path}")


@plan.command("check")
@click.argument("path", metavar="PLAN", type=click.Path(dir_okay=False))
@click.option("--like", type=RoundPath(), help="An earlier round, whose pace the expected time is taken from.")
@click.option("--elsewhere", is_flag=True, help="Do not look for variables, programs and files of this machine.")
@reports_errors
def plan_check(path: str, like: str | None, elsewhere: bool) -> None:
    """Say all mistakes of PLAN with their lines, or what it will do and how long that may take."""
    from genreport.plan import read_plan
    from genreport.planning import ahead, draft
    from genreport.rounds import Round

    read = read_plan(path, on_this_machine=not elsewhere)
    draft.refuse_unfilled(path, read.text)
    tell("\n".join(ahead.told(read, Round(like) if like else None)))


@main.command()
@click.argument("round", type=RoundPath())
@reports_errors
def check(round: str) -> None:
    """Verify the seals, hashes and schemas of ROUND."""
    from genreport.rounds import Round, check

    findings = list(check(round))
    for finding in findings:
        tell(finding, err=True)
    if findings:
        sys.exit(1)
    sealed = Round(round)
    levels = f"and {len(sealed.levels)} levels hold" if sealed.levels else "hold; no level was measured to the end"
    tell(f"{round}: sealed, {len(sealed.seal.files):,} files {levels}")


def against_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a command that compares rounds."""
    noise = "Floors of noise, as `genreport noise --out` wrote them."
    family = "Figures that are corrected together: all, main, throughput or latency."
    names = "An engine that was renamed; may be given several times."
    against = "An earlier round to compare with; ROUND=EARLIER for one of several."
    command = click.option("--noise", type=click.Path(dir_okay=False), help=noise)(command)
    command = click.option("--family", default="all", show_default=True, help=family)(command)
    command = click.option("--map", "names", multiple=True, metavar="OLD=NEW", help=names)(command)
    return click.option("--against", multiple=True, metavar="ROUND", help=against)(command)


def _compared(
    paths: list[Path], against: tuple[str, ...], names: tuple[str, ...], family: str, noise: str | None
) -> Any:
    """Which rounds are compared with which, as the command line says."""
    from genreport.comparing import noise as floors
    from genreport.errors import OptionError
    from genreport.publish import Against, pairs_of

    given = {"--map": names, "--family": family != "all", "--noise": noise}
    unused = ", ".join(option for option, value in given.items() if value)
    if unused and not against:
        raise OptionError(
            "says how rounds are compared, and none is", where=unused, cure="name an earlier one: --against"
        )
    return Against(pairs_of(paths, against), mapped(names), floors.read(noise) if noise else None, family)


def mapped(names: tuple[str, ...]) -> dict[str, str]:
    """Renamed engines, old to new."""
    from genreport.errors import OptionError

    for name in names:
        if not all(name.partition("=")[::2]):
            cure = "write for example --map vllm=vllm-bf16"
            raise OptionError("not an engine's old and new name", where=f"--map {name}", cure=cure)
    return dict(name.split("=", 1) for name in names)


slo_option = click.option(
    "--slo",
    multiple=True,
    metavar="LIMIT",
    help="Answer another limit, e.g. ttft_p99=800ms; may be given several times.",
)


@main.command()
@click.argument("rounds", nargs=-1, required=True, type=RoundPath())
@against_options
@slo_option
@click.option(
    "--site", default="site", show_default=True, type=click.Path(file_okay=False), help="Where the site goes."
)
@reports_errors
def build(rounds: tuple[str, ...], slo: tuple[str, ...], site: str, **compared: Any) -> None:
    """Publish one or several ROUNDS as a site."""
    from genreport.figures import limits
    from genreport.publish import publish
    from genreport.rounds import Round

    paths = [Path(each) for each in rounds]
    built = publish(paths, Path(site), limits.read(slo), _compared(paths, **compared))
    what = f"built in {built.seconds:.1f} s" if built.fresh else f"up to date, checked in {built.seconds:.1f} s"
    tell(f"{built.path}: {what}; open {built.path / 'index.html'}")
    for path in paths:
        if not Round(path).sealed:
            tell(
                f"{path}: not sealed, so its pages are marked as a preview; `genreport run … --resume` goes on with it"
            )


@main.command()
@click.argument("old", type=RoundPath())
@click.argument("new", type=RoundPath())
@click.option("--format", type=click.Choice(["text", "md", "json", "csv"]), default="text", show_default=True)
@click.option(
    "--family",
    default="all",
    show_default=True,
    help="Figures judged together: all, main, throughput, latency, or names.",
)
@click.option(
    "--map", "names", multiple=True, metavar="OLD=NEW", help="An engine that was renamed; may be given several times."
)
@click.option(
    "--noise", type=click.Path(dir_okay=False), help="Floors of noise, as `genreport noise --out` wrote them."
)
@click.option("--fail-on-regression", "gate", is_flag=True, help="Exit with 3 if a figure of the family regressed.")
@reports_errors
def diff(old: str, new: str, format: str, family: str, names: tuple[str, ...], noise: str | None, gate: bool) -> None:
    """Compare the round NEW with the earlier round OLD: what changed, and whether it is more than noise."""
    from genreport.comparing import noise as floors
    from genreport.comparing import opened
    from genreport.diff import lines, regressions

    floor = floors.read(noise) if noise else None
    compared = opened(new, old, names=mapped(names), noise=floor, family=family)
    click.echo("\n".join(lines(compared, format)))
    found = regressions(compared) if gate else []
    for line in found:
        tell(f"genreport: regressed: {line}", err=True)
    sys.exit(3 if found else 0)


@main.command()
@click.argument("rounds", nargs=-1, required=True, type=RoundPath())
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="Only the newest N of them.")
@click.option(
    "--site", default="site", show_default=True, type=click.Path(file_okay=False), help="Where the site goes."
)
@reports_errors
def history(rounds: tuple[str, ...], last: int | None, site: str) -> None:
    """Publish ROUNDS with a page that follows the main figures from round to round and marks where they changed."""
    from genreport.publish import history as remember

    built = remember(newest([Path(each) for each in rounds], last), Path(site))
    what = f"built in {built.seconds:.1f} s" if built.fresh else f"up to date, checked in {built.seconds:.1f} s"
    tell(f"{built.path}: {what}; open {built.path / 'index.html'}")


def newest(paths: list[Path], last: int | None) -> list[Path]:
    """The rounds that were started last, by what they say of themselves."""
    from genreport.rounds import Round

    ordered = sorted(paths, key=lambda path: Round(path).head.started_unix_us)
    return ordered[-last:] if last else ordered


@main.command()
@click.argument("rounds", nargs=-1, type=RoundPath())
@against_options
@slo_option
@click.option("--port", default=8000, show_default=True, type=click.IntRange(1, 65535))
@reports_errors
def serve(rounds: tuple[str, ...], slo: tuple[str, ...], port: int, **compared: Any) -> None:
    """Preview the site of ROUNDS (all in runs/ if none is named), reloading when a page, template or round changes."""
    from genreport.figures import limits
    from genreport.publish import preview

    found = [Path(each) for each in rounds] or sorted(head.parent for head in Path("runs").glob("*/round.json"))
    sys.exit(preview(found, port, limits.read(slo), _compared(found, **compared)))


@main.command()
@click.argument("rounds", nargs=-1, required=True, type=RoundPath())
@click.option("--out", type=click.Path(dir_okay=False), help="A file to write, for --noise of `build` and `diff`.")
@reports_errors
def noise(rounds: tuple[str, ...], out: str | None) -> None:
    """Measure what ROUNDS differ by in which nothing was changed: the floor below which a difference is noise."""
    from genreport.comparing import noise as floors
    from genreport.places import free

    target = free(out) if out else None
    found = floors.of_paths(rounds)
    for line in floors.told(found):
        tell(line)
    if target:
        floors.write(found, target)


@main.command()
@click.argument("round", type=RoundPath())
@click.argument("figure", required=False, shell_complete=figures_here)
@click.option("--against", type=RoundPath(), help="An earlier round, to derive a figure of the comparison with it.")
@slo_option
@reports_errors
@may_be_cut
def explain(round: str, figure: str | None, against: str | None, slo: tuple[str, ...]) -> None:
    """Derive FIGURE of ROUND down to file and line; without FIGURE, list them all."""
    from genreport.explain import explain as derive
    from genreport.figures import limits
    from genreport.publish import EVIDENCE, ledger_of
    from genreport.rounds import verified

    given, opened = limits.read(slo), verified(round)
    ledger = ledger_of(opened, given, counted=figure in EVIDENCE, earlier=against)
    lines = derive(opened, ledger, figure) if figure else (*(q.id for q in ledger), *EVIDENCE)
    tell("\n".join(lines))


@main.command()
@click.argument("round", type=RoundPath())
@click.argument("prefixes", nargs=-1, metavar="[PREFIX]...")
@click.option("--format", type=click.Choice(["csv", "json"]), default="csv", show_default=True)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="A file instead of the standard output.")
@slo_option
@reports_errors
@may_be_cut
def figures(round: str, prefixes: tuple[str, ...], format: str, output: str | None, slo: tuple[str, ...]) -> None:
    """Export the figures of ROUND, or those whose ids start with PREFIX."""
    from genreport.export import chosen, lines
    from genreport.figures import limits
    from genreport.places import free
    from genreport.publish import ledger_of
    from genreport.rounds import verified

    target = free(output) if output else None
    given, opened = limits.read(slo), verified(round)
    ledger = ledger_of(opened, given, counted=any(prefix.startswith("evidence") for prefix in prefixes))
    text = (f"{line}\n" for line in lines(chosen(ledger, prefixes, opened.name), format))
    if target is None:
        sys.stdout.writelines(text)
    else:
        with target.open("w", encoding="utf-8", newline="") as file:
            file.writelines(text)


@main.command()
@click.argument("round", type=RoundPath())
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="The file; NAME-guide.html unless it is named.")
@slo_option
@reports_errors
def guide(round: str, output: str | None, slo: tuple[str, ...]) -> None:
    """Write the selection guide of ROUND as one file to mail: no site, no network, every number with its origin."""
    from genreport.figures import limits
    from genreport.places import free, mailed_file
    from genreport.publish import guide_of

    path = free(output or Path(mailed_file(Path(round).resolve().name)).name)
    made = guide_of(Path(round), limits.read(slo))
    path.write_text(made.text, "utf-8")
    tell(f"{path}: {made.size}, {made.shown:,} figures and the derivations of {made.derived:,}")


@main.command()
@click.argument("site", default="site", type=click.Path())
@reports_errors
def audit(site: str) -> None:
    """Check a built SITE against the evidence it carries; exit 1 on any failure, or on nothing to check."""
    from genreport.audit import audit as examine

    report = examine(site)
    for failure in report.failures[:50]:
        tell(failure, err=True)
    if len(report.failures) > 50:
        tell(f"… and {len(report.failures) - 50} more", err=True)
    tell(", ".join(f"{number:,} {what}" for what, number in report.counts.items()))
    tell(f"{len(report.failures)} failures")
    sys.exit(0 if report.ok else 1)


@main.command()
@click.option("--out", default="demo", show_default=True, type=click.Path(file_okay=False), help="Folder to work in.")
@click.option("--no-open", is_flag=True, help="Do not open the site in a browser.")
@reports_errors
def demo(out: str, no_open: bool) -> None:
    """Measure an embedded llama.cpp with a small model for about two minutes, and open the site."""
    from genreport.demo import demo as first_run

    first_run(Path(out), open_site=not no_open)
