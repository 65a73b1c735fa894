"""Records a round: starts each engine in turn, sends the plan's load, and seals what it saw."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from genreport import __version__, rounds, wire
from genreport.ceiling import client_ceiling
from genreport.corpus import described
from genreport.crew import Means, hosts
from genreport.engines.process import pinned
from genreport.errors import ConditionError, EngineError, OptionError, RoundError
from genreport.machine import cpu_set, machine_facts, measure_ceilings, own_cores
from genreport.plan import Engine, LaunchGroup, Met, Plan, PlannedTest, read_plan
from genreport.planning import draft
from genreport.progress import Progress, Silent
from genreport.records import Ceiling, ClientCeiling, RoundHead
from genreport.redact import Redactor
from genreport.rounds import RoundWriter
from genreport.session import Sink, Step, model_of, serving, steps, unix_us
from genreport.verdict import broken_conditions, meets

# deaths in a row after which an engine is not started again
CRASHES = 3
# of the disk, not of a connection
DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO}
LOOPBACK = ("localhost", "127.0.0.1", "::1")
UNITS = {"bandwidth": "B/s", "flops": "FLOP/s"}


def run(
    plan_path: str | Path,
    out: str | Path,
    *,
    resume: bool = False,
    progress: Silent | None = None,
    scheduler: str | None = None,
) -> None:
    """Records the plan's round into a folder and seals it, with live progress unless another display is given.

    `scheduler` is the address of a dask cluster whose workers hold the loads.
    Ctrl-C, SIGTERM and a lost terminal end it with KeyboardInterrupt and every finished level kept. Raises PlanError,
    OptionError and RoundError before anything is written, EngineError at the end when an engine had to be given up, and
    ConditionError when a level does not meet the plan's `fail_on`.
    """
    with progress or Progress() as shown:
        plan = read_plan(plan_path)
        draft.refuse_unfilled(plan_path, plan.text)
        recording = Recording(plan, Path(out), shown, scheduler)
        recording.look()
        recording.read_models()
        with recording.opened(resume):
            shown.started(str(recording.round.path), len(recording.planned), len(recording.ahead()))
            with _disk_of(recording):
                with _interrupted():
                    recording.describe_machine()
                recording.measure()
                with _interrupted():
                    recording.close()


class Recording:
    """One round on its way to disk; `plan` keeps its variables as written, `acting` has them expanded."""

    def __init__(self, plan: Plan, out: Path, progress: Silent, scheduler: str | None = None) -> None:
        self.plan, self.acting = plan, plan.expanded()
        self._scheduler = scheduler
        self.redactor = Redactor(self.acting.redact, plan.secrets(), self.acting.words())
        self.round = RoundWriter(out, self.redactor.value)
        self.sink = Sink(self.round, progress)
        self.groups = list(zip(self.acting.launches(), plan.launches(), strict=True))
        self.given_up: list[str] = []

    @property
    def planned(self) -> list[Step]:
        """All repeats; of a search those that are known to come, and that grow with what was measured."""
        return [step for group, _ in self.groups for step in steps(group, self.plan.seed, self._judge)]

    def _judge(self, engine: Engine, test: PlannedTest) -> Met:
        if test.searches is None or not self.round.exists:
            return lambda level: None
        return meets(rounds.Round(self.round.path), self.acting, test, engine.id)

    def ahead(self) -> list[Step]:
        """What is still to be measured, in order."""
        done = self.round.sealed_levels()
        return [step for step in self.planned if step.key not in done]

    def look(self) -> None:
        """Whether the workers that shall hold the loads are there, and can: OptionError."""
        if self._scheduler is None:
            return
        if by_time := [step.key for step in self.planned if step.level.requests is None and not step.level.arrivals]:
            cure = "give it `requests`"
            raise OptionError(
                f"{by_time[0]}: a closed loop by time cannot be shared out", where=hosts.OPTION, cure=cure
            )
        wire.run(hosts.look(self._scheduler))

    def read_models(self) -> None:
        """Reads the model files that will be needed, so that a broken one is known before anything is written."""
        for files in dict.fromkeys(tuple(step.engine.model_files) for step in self.ahead()):
            model_of(files)

    @contextmanager
    def opened(self, resume: bool) -> Iterator[None]:
        """Begins the round, or goes on with it, alone; RoundError when the folder holds something else."""
        if self.round.blocked and not self.round.exists:
            where = str(self.round.path)
            raise RoundError("is in the way: neither a round nor empty", where=where, cure="name another --out")
        with self.round.held():
            self._begin(resume)
            yield

    def _begin(self, resume: bool) -> None:
        out, text = self.round.path, self.redactor.text(self.plan.text)
        if self.round.exists and not resume:
            raise RoundError("holds a round already", where=str(out), cure="go on with --resume, or name another --out")
        if self.round.exists:
            self.round.mend()
            if (out / rounds.PLAN).read_text(encoding="utf-8") != text:
                raise RoundError("was begun with another plan", where=str(out), cure="give that one, or another --out")
            self._unchanged(rounds.verified(out))  # its seal is written anew, which would hide what was changed since
            return
        self.round.head(self._head(), text)

    def _unchanged(self, begun: rounds.Round) -> None:
        """Refuses other prompts or another trace than those that some of a level's repeats were measured with."""
        files = {test.id: test.files for test in self.acting.tests}
        for level in begun.levels:
            for name, path in files.get(level.facts.test, {}).items():
                if getattr(level.facts, name) not in (None, described(path)):
                    what = f"is not the file that {level.facts.key} was measured with"
                    raise RoundError(what, where=path, cure="restore it, or name another --out")

    def _head(self) -> RoundHead:
        return RoundHead(
            name=self.round.path.resolve().name,
            tool=f"genreport {__version__}",
            started_unix_us=unix_us(),
            redaction=self.redactor.rules,
            planned=[step.key for step in self.planned],
        )

    def describe_machine(self) -> None:
        """Machine facts and ceilings, once a round; a round is not gone on with elsewhere."""
        found = machine_facts()
        if not (self.round.path / rounds.MACHINE).is_file():
            self.round.machine(found.model_copy(update={"ceilings": self._ceilings(), "client": self._client()}))
            return
        known = rounds.Round(self.round.path).machine
        if (known.cpu, known.cores) != (found.cpu, found.cores):
            raise RoundError("was begun on another machine", where=str(self.round.path), cure="name another --out")

    def _ceilings(self) -> dict[str, dict[str, Ceiling]]:
        """Each engine's, measured once for the same cores, so that engines on them share one ceiling."""
        measured: dict[tuple[str | None, bool], dict[str, Ceiling]] = {}
        found = {}
        for engine, written in zip(self.acting.engines, self.plan.engines, strict=True):
            cpus, dtype = engine.launch and engine.launch.cpus, engine.precision or "fp32"
            key = cpus, dtype in ("fp32", "float32")  # any other type is judged by fp32 products, as a lower bound
            if _measures(engine) and key not in measured:
                self.sink.progress.say(f"measuring the ceilings of core {cpus}" if cpus else "measuring the ceilings")
                measured[key] = measure_ceilings(cpus, dtype)
            found[engine.id] = _ceilings_of(written, measured.get(key, {}))
        return found

    def _client(self) -> ClientCeiling | None:
        """The client's own, on the cores it will have, against a server on those of the engines."""
        self.sink.progress.say("measuring the client")
        given = [cpu_set(engine.launch.cpus) for engine in self.acting.engines if engine.launch and engine.launch.cpus]
        with _client_pinned(self.acting):
            return client_ceiling(set().union(*given))

    def measure(self) -> None:
        """Every launch that has levels ahead, one engine at a time, the client out of the engines' way."""
        if not self.ahead():
            return
        self.round.unseal()
        self.sink.progress.begin(_work(self.ahead()))
        try:
            with _client_pinned(self.acting):
                wire.run(self._launches())
        except (KeyboardInterrupt, asyncio.CancelledError):
            kept = len(self.planned) - len(self.ahead())
            self.sink.progress.say(f"stopped; {kept} of {len(self.planned)} repeats are kept, --resume goes on")
            raise KeyboardInterrupt from None

    def _means(self) -> Means:
        """What loads can be held with, on the cores that the client has now."""
        client, cores = rounds.Round(self.round.path).machine.client, own_cores()
        ceiling = client.events / client.wall_us * 1e6 if client else None
        return Means(self.acting.workers, len(cores), _free(self.acting, cores), ceiling)

    @asynccontextmanager
    async def _held(self) -> AsyncIterator[Means]:
        """What loads are held with: processes of this machine, or workers of a dask cluster."""
        if self._scheduler is None:
            yield self._means()
            return
        async with hosts.reached(self._scheduler) as found:
            count = len(found.addresses)
            yield Means(wanted=count, cores=count, links=found.links)

    async def _launches(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        for number in _endings():
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        async with self._held() as means:
            for group, as_written in self.groups:
                await self._launch(group, as_written, means)

    async def _launch(self, group: LaunchGroup, as_written: LaunchGroup, means: Means) -> None:
        """The levels of a launch; an engine that dies is started again for the next one, unless it keeps dying."""
        crashes, begun, why = 0, False, "died again and again"
        while (ahead := self._ahead_of(group)) and crashes < CRASHES:
            measured = False
            try:
                async with serving(group, as_written, self.sink, means) as session:
                    begun = True
                    while (ahead := self._ahead_of(group)) and await session.server.alive():
                        await session.level(ahead[0])
                        measured = True
                        crashes = 0 if await session.server.alive() else crashes + 1
                if not measured:
                    crashes += 1
                    self.sink.progress.say(f"{group.name}: was ready, and gone before its first level")
            except EngineError as error:
                self.sink.progress.say(f"{group.name}: {error}")
                why = error.what
                crashes = crashes + 1 if begun else CRASHES
        if ahead:
            self.given_up.append(f"{group.name} given up ({why})")
            self.sink.progress.dropped(_work(ahead))
            self.sink.progress.say(f"{group.name}: given up; {len(ahead)} repeats are not measured")

    def _ahead_of(self, group: LaunchGroup) -> list[Step]:
        done = self.round.sealed_levels()
        return [step for step in steps(group, self.plan.seed, self._judge) if step.key not in done]

    def close(self) -> None:
        """Seals the round; what is missing of it, or not as its plan wants it, is told when everything is safe."""
        if not rounds.Round(self.round.path).sealed:
            self.round.seal(unix_us())
        where, planned, missing = str(self.round.path), len(self.planned), len(self.ahead())
        self.sink.progress.sealed(where, planned, planned - missing)
        broken = list(broken_conditions(rounds.Round(self.round.path), self.plan))
        for level, sentence in broken:
            self.sink.progress.broken(level, sentence)
        if missing:
            raise EngineError(
                f"{missing} of {planned} repeats were not measured: {', '.join(self.given_up)}",
                where=where,
                cure="mend the engine and go on with --resume, or mend the plan and name another --out",
            )
        if broken:
            raise ConditionError(
                f"sealed; conditions of its plan (fail_on) that are not met: {len(broken)}", where=where
            )


@contextmanager
def _disk_of(recording: Recording) -> Iterator[None]:
    """A disk that takes no more ends the recording in one line; what is sealed is kept."""
    try:
        yield
    except OSError as error:
        if error.errno not in DISK:
            raise
        planned = len(recording.planned)
        raise RoundError(
            f"{os.strerror(error.errno)}; {planned - len(recording.ahead())} of {planned} repeats are kept",
            where=str(recording.round.path),
            cure="make room and go on with --resume",
        ) from error


def _endings() -> list[int]:
    """Signals that end a recording in good order; a hang-up that was ignored before (`nohup`) stays so."""
    hang_up = [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN else []
    return [signal.SIGTERM, *hang_up]


@contextmanager
def _interrupted() -> Iterator[None]:
    """Meanwhile what ends a recording does it as Ctrl-C; while it measures, the event loop is told."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in _endings()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _work(ahead: Iterable[Step]) -> dict[str, float]:
    """What is ahead of each engine."""
    found: dict[str, float] = defaultdict(float)
    for step in ahead:
        found[step.engine.id] += step.work
    return found


def _measures(engine: Engine) -> bool:
    return any(given and given.measure for given in (engine.ceiling("bandwidth"), engine.ceiling("flops")))


def _ceilings_of(engine: Engine, measured: dict[str, Ceiling]) -> dict[str, Ceiling]:
    """An engine's ceilings: cited from the plan, or measured, or absent."""
    found = {}
    for name, unit in UNITS.items():
        given = engine.ceiling(name)
        if given and given.measure:
            found[name] = measured[name]
        elif given:
            found[name] = Ceiling(value=given.value, unit=unit, source=given.source, method="cited in the plan")
    return found


def _free(plan: Plan, cores: set[int]) -> int:
    """How many of the client's cores no engine uses; one on this machine without `cpus` may use any."""
    taken: set[int] = set()
    for engine in plan.engines:
        cpus = engine.launch and engine.launch.cpus
        if not cpus and (engine.launch or urlsplit(engine.url).hostname in LOOPBACK):
            return 1
        taken |= cpu_set(cpus) if cpus else set()
    return max(1, len(cores - taken))


@contextmanager
def _client_pinned(plan: Plan) -> Iterator[None]:
    """The client on the cores no engine has, when the plan gives every engine its cores and leaves some."""
    given = [engine.launch and engine.launch.cpus for engine in plan.engines]
    if not all(given) or not hasattr(os, "sched_getaffinity"):
        yield
        return
    with pinned(os.sched_getaffinity(0).difference(*(cpu_set(cpus) for cpus in given if cpus))):
        yield
