"""The shapes of everything a round holds: what was observed, nothing computed.

Times inside a level are integer microseconds since the level's origin, on CLOCK_MONOTONIC. `None` = not observed.
`docs/format.md` describes every key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

ROUND_FORMAT = "genreport-round/1"
LEVEL_FORMAT = "genreport-level/1"
LAUNCH_FORMAT = "genreport-launch/1"
MODEL_FORMAT = "genreport-model/1"
MACHINE_FORMAT = "genreport-machine/1"
SEAL_FORMAT = "genreport-seal/1"

# one letter an event in `Request.kinds`
ROLE, CONTENT, REASONING, EMPTY, USAGE, DONE, ERROR = "rtkeudx"
TEXT_KINDS = CONTENT + REASONING
CHOICE_KINDS = ROLE + CONTENT + REASONING + EMPTY

EngineKind = Literal["vllm", "llamacpp", "sglang", "tgi", "ollama", "openai"]
# kinds whose prompts are words unless the plan says otherwise: no token ids can be sent to all of their servers
OF_WORDS = ("tgi", "ollama", "openai")
# kinds that are asked in a dialect of their own; the others take messages at the OpenAI chat endpoint too
OWN_DIALECT = ("tgi", "ollama")
FailureKind = Literal["connect", "http", "stream", "error-event", "empty", "stall", "protocol"]

# longest texts of others in a round, in characters
TEXT_LIMIT, MESSAGE_LIMIT = 1 << 16, 2000

# no request has more: none spans eleven days, and a claimed count must neither break a sum nor fill the memory
LONGEST_US, MOST_TOKENS, MOST_IN_ALL = 10**12, 100_000, 1_000_000

# ids make folders: nothing in them can lead out of the round
ID = r"^[a-z0-9][a-z0-9_+-]*$"
Id = Annotated[str, StringConstraints(pattern=ID)]
LaunchId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_+-]*/[1-9][0-9]*$")]
RepeatKey = Annotated[str, StringConstraints(pattern=r"^([a-z0-9][a-z0-9_+-]*/){3}r[1-9][0-9]*$")]
FileName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]*$")]
ModelPath = Annotated[str, StringConstraints(pattern=r"^models/[a-z0-9]+\.json$")]

# gives JSON-like data back without what must not be published
Redact = Callable[[Any], Any]


class Record(BaseModel):
    """Base of all records: unknown keys are refused, so a typo in a sealed file cannot pass as data."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    # fields that are nobody's text: ids, words out of a fixed list, hashes, letters, long lists of numbers
    KEPT: ClassVar[frozenset[str]] = frozenset({"format"})
    # where texts of others are cut, in characters
    LIMITS: ClassVar[dict[str, int]] = {}

    def published(self, redact: Redact) -> Self:
        """The record as it may be written: every text in it redacted, and only then cut; what is `KEPT` untouched."""
        texts = {name: value for name, value in self if name not in self.KEPT}
        shown = {name: _published(value, redact, self.LIMITS.get(name)) for name, value in texts.items()}
        return self.model_copy(update=shown)


def _published(value: Any, redact: Redact, limit: int | None) -> Any:
    if isinstance(value, Record):
        return value.published(redact)
    if isinstance(value, list) and value and isinstance(value[0], Record):
        return [record.published(redact) for record in value]
    return _cut(redact(value), limit) if isinstance(value, str | list | dict) else value


def _cut(value: Any, limit: int | None) -> Any:
    if isinstance(value, list) and limit is not None:
        return [_cut(each, limit) for each in value]
    return value[:limit] if isinstance(value, str) else value


class Failure(Record):
    """Why a request did not complete: its kind, the HTTP status if one came, and the server's words (cut).

    `retry_after` is the value of that header as it came: no request is tried again for it.
    """

    KEPT = frozenset({"kind"})
    LIMITS: ClassVar[dict[str, int]] = {"message": MESSAGE_LIMIT, "retry_after": 100}

    kind: FailureKind
    status: int | None = None
    message: str = ""
    retry_after: str | None = None


class Usage(Record):
    """Token counts as the server states them."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None


class Request(Record):
    """One request as the client saw it: one line of `requests.jsonl`.

    `gaps_us[k]` is the time from the event before (from `t0_us` for the first) to event k; events that shared one read
    have a gap of 0. `tokens` is `None` where the server gives no per-event count. `conversation` and `turn`, both from 0,
    are of a request that is part of one.
    """

    KEPT = frozenset({"gaps_us", "kinds", "tokens"})
    LIMITS: ClassVar[dict[str, int]] = {"text": TEXT_LIMIT, "finish": MESSAGE_LIMIT}

    index: int = Field(ge=0)
    conversation: int | None = Field(default=None, ge=0)
    turn: int | None = Field(default=None, ge=0)
    warmup: bool = False
    seed: int
    asked_input: int = Field(gt=0)
    asked_output: int = Field(gt=0)
    due_us: int
    t0_us: int | None = None
    gaps_us: list[int] = []
    kinds: str = ""
    tokens: list[int] | None = None
    usage: Usage | None = None
    finish: str | None = None
    server: dict[str, Any] = {}
    text: str = ""
    end_us: int
    retries: int = 0
    failure: Failure | None = None
    # tokens of `text` as the server's own tokenizer counted them after the level, where nobody counted them during it
    retokenized: int | None = Field(default=None, ge=0)

    @property
    def uncounted(self) -> bool:
        """It completed, and nobody said with how many tokens."""
        stated = self.usage.completion_tokens if self.usage else None
        return self.failure is None and stated is None and self.tokens is None

    @property
    def tells_all(self) -> bool:
        """Whether `text` is all that was generated: reasoning and calls of tools are no part of it."""
        cut, called = len(self.text) >= TEXT_LIMIT, self.finish in ("tool_calls", "function_call")
        return bool(self.text) and REASONING not in self.kinds and not cut and not called

    @property
    def possible(self) -> bool:
        """Whether a request can have its numbers; one that can not is in no figure and meets no condition."""
        usage = self.usage or Usage()
        stated = (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, self.retokenized)
        counts = (self.asked_input, self.asked_output, *(count or 0 for count in stated))
        gaps, tokens = self.gaps_us or [0], self.tokens or [0]
        return (
            all(abs(stamp) <= LONGEST_US for stamp in (self.due_us, self.end_us, self.t0_us or 0, min(gaps), max(gaps)))
            and all(0 <= count <= LONGEST_US for count in counts)
            and 0 <= min(tokens) <= max(tokens) <= MOST_TOKENS
            and sum(tokens) <= MOST_IN_ALL
        )

    @model_validator(mode="after")
    def _arrays_agree(self) -> Request:
        if len(self.gaps_us) != len(self.kinds) or (self.tokens is not None and len(self.tokens) != len(self.kinds)):
            raise ValueError("gaps_us, kinds and tokens differ in length")
        if set(self.kinds) - set("rtkeudx"):
            raise ValueError(f"unknown event kind in {self.kinds!r}")
        return self


class FileFact(Record):
    """What a seal knows of a file: its bytes as stored."""

    sha256: str
    bytes: int


class Shape(Record):
    """Request shape in tokens."""

    input: int
    output: int


class LogRange(Record):
    """The bytes of the engine log's lines between the two scrapes of a level; offsets count in the launch's own log."""

    start: int
    end: int


class Arrivals(Record):
    """How requests of an open loop arrive: `rate` in requests/s over the schedule, the rest as its process needs it.

    `burstiness` is the shape of the gamma distribution of the gaps, 1 for Poisson, `None` where nothing is drawn. With
    `max_in_flight`, a request waits at the client while so many are under way.
    """

    KEPT = frozenset({"process"})

    process: Literal["constant", "poisson", "gamma", "ramp", "burst", "trace"]
    rate: float | None = None
    burstiness: float | None = None
    from_rate: float | None = None
    to_rate: float | None = None
    size: int | None = None
    every_s: float | None = None
    speed: float | None = None
    max_in_flight: int | None = None


class SearchStep(Record):
    """One step of a search for the largest load that meets a service level: which, and between which bounds."""

    KEPT = frozenset({"slo"})

    slo: Id
    step: int = Field(ge=1)
    load: float
    low: float
    high: float


class HostClock(Record):
    """How far the CLOCK_MONOTONIC of a worker's host was ahead of the recorder's, and by how much that may be wrong."""

    offset_us: int
    error_us: int


class GivenFile(Record):
    """A file that prompts or arrivals were taken from: its name without folder, and what tells whether another is the same."""

    KEPT = frozenset({"sha256"})

    name: str
    sha256: str
    bytes: int


class Conversations(Record):
    """The conversations of a repeat as planned, and how many were begun.

    `input` and `output` are tokens of each turn, `prefix` those that all conversations begin with; `unsent` counts turns that
    were not sent, because one before them failed. Of those from a file, `turns` is the most of one, and `input` is `None`.
    """

    turns: int
    input: int | None = None
    output: int
    prefix: int = 0
    think_s: float = 0
    begun: int | None = None
    unsent: int | None = None


class ClientFacts(Record):
    """What the client can say about its own honesty in one repeat of a level.

    `lag_us`: how late the event loop woke from each of a series of sleeps of `lag_period_us`; `cpu_us` and `wall_us`
    from the first measured request's due time to the last one's end; `slept_us`: how long the machine was suspended then.
    Several `workers` (`None` = one process): the lag is that of the latest of them, the processor time that of all.
    `hosts`: the clocks of the hosts they ran on, where that was not the recorder's.
    """

    KEPT = frozenset({"lag_us"})

    lag_period_us: int
    lag_us: list[int]
    cpu_us: int
    wall_us: int
    slept_us: int | None = None
    workers: int | None = None
    hosts: list[HostClock] | None = None


class LevelFacts(Record):
    """One repeat of one level: what was asked, when, and the hashes of its files; written last, it is the level's seal."""

    KEPT = frozenset({"format", "test", "kind", "engine", "level", "launch", "files"})
    LIMITS: ClassVar[dict[str, int]] = {"remarks": MESSAGE_LIMIT}

    format: Literal["genreport-level/1"] = LEVEL_FORMAT
    test: Id
    kind: Literal["concurrency", "length", "cliff", "open", "conversation", "soak"]
    engine: Id
    level: Id
    repeat: int = Field(ge=1)
    launch: LaunchId
    shape: Shape
    # requests of the level differ in length: `shape` is then their mean, rounded
    mixed: bool = False
    # kept in flight, or conversations under way; `None` in an open loop, where `arrivals` say when requests are due
    concurrency: int | None = None
    arrivals: Arrivals | None = None
    duration_s: float | None = None
    search: SearchStep | None = None
    conversations: Conversations | None = None
    # sent as messages to the chat endpoint
    chat: bool = False
    prompts: GivenFile | None = None
    trace: GivenFile | None = None
    # of each prompt, the part that all prompts of the level begin with
    shared_prefix: float | None = None
    requests: int
    warmup: int
    seed: int
    sampling: dict[str, Any]
    origin_unix_us: int
    before_us: int
    after_us: int
    log: LogRange | None = None
    client: ClientFacts
    # the endpoint that gave the `retokenized` of its requests
    tokenizer: str | None = None
    remarks: list[str] = []
    files: dict[FileName, FileFact]

    @property
    def key(self) -> str:
        """Where it belongs: `test/engine/level/rN`."""
        return f"{self.test}/{self.engine}/{self.level}/r{self.repeat}"


class SamplesHead(Record):
    """First line of `samples.jsonl`: which series the values of the others are of."""

    format: Literal["genreport-samples/1"]
    period_us: int
    series: list[str]


class SlotsHead(Record):
    """First line of `slots.jsonl`."""

    format: Literal["genreport-slots/1"]


class ModelFile(Record):
    """One file of the model as loaded; `name` is its base name."""

    KEPT = frozenset({"sha256"})

    name: str
    sha256: str
    bytes: int


class Tensor(Record):
    """One tensor of the model files: its stored type, shape and exact bytes."""

    KEPT = frozenset({"dtype", "shape"})

    name: str
    dtype: str
    shape: list[int]
    bytes: int


class Architecture(Record):
    """What the roofline and KV arithmetic need of a model; `None` where its files do not say."""

    name: str | None = None
    layers: int | None = None
    hidden: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    vocabulary: int | None = None
    context: int | None = None
    tied_embeddings: bool | None = None
    # what a layer keeps of a token: keys and values in `full`, or why arithmetic over them does not hold
    attention: Literal["full", "latent", "state", "window", "uneven"] | None = None


class ModelFacts(Record):
    """The weights an engine serves, tensor by tensor."""

    format: Literal["genreport-model/1"] = MODEL_FORMAT
    files: list[ModelFile]
    architecture: Architecture
    tensors: list[Tensor]


class LaunchFacts(Record):
    """One start of one engine: command, version, files, and what it said of itself when ready."""

    KEPT = frozenset({"format", "engine", "kind", "test", "variant_of", "model_facts"})

    format: Literal["genreport-launch/1"] = LAUNCH_FORMAT
    engine: Id
    kind: EngineKind
    model: str
    precision: str | None = None
    kv_bytes_per_element: float = 2
    baseline: bool = False
    test: Id | None = None
    variant_of: Id | None = None
    command: list[str] | None = None
    flags: list[str] = []
    env: dict[str, str] = {}
    cpus: str | None = None
    url: str
    version: str | None = None
    model_facts: ModelPath | None = None
    started_unix_us: int
    ready_us: int | None = None
    start_log_bytes: int | None = None
    endpoints: dict[str, Any] = {}

    @property
    def name(self) -> str:
        """What its starts are counted under: `engine` or `engine+test`."""
        return f"{self.engine}+{self.test}" if self.test else self.engine


class Ceiling(Record):
    """A hardware ceiling and where it comes from: measured by the runner, or cited from the plan."""

    KEPT = frozenset({"unit", "samples"})

    value: float
    unit: str
    source: str
    method: str
    cpus: str | None = None
    dtype: str | None = None
    lower_bound: bool = False
    samples: list[float] = []


class Gpu(Record):
    """One accelerator as its driver names it."""

    name: str
    memory_bytes: int | None = None
    driver: str | None = None


class ClientCeiling(Record):
    """What the client read, parsed and wrote at most on this machine: counts of a run against the null server."""

    streams: int
    events: int
    failed: int
    wall_us: int
    cpu_us: int
    method: str


class MachineFacts(Record):
    """The machine of the round, without any name that identifies it."""

    KEPT = frozenset({"format", "ceilings"})

    format: Literal["genreport-machine/1"] = MACHINE_FORMAT
    cpu: str
    cores: int
    l3_bytes: int | None = None
    memory_bytes: int
    kernel: str
    os: str
    python: str
    packages: dict[str, str] = {}
    gpus: list[Gpu] = []
    clocks: dict[str, Any] = {}
    # engine id -> {"bandwidth": ..., "flops": ...}
    ceilings: dict[Id, dict[str, Ceiling]] = {}
    client: ClientCeiling | None = None

    def published(self, redact: Redact) -> Self:
        ceilings = {
            engine: {name: ceiling.published(redact) for name, ceiling in known.items()}
            for engine, known in self.ceilings.items()
        }
        return super().published(redact).model_copy(update={"ceilings": ceilings})


class RoundHead(Record):
    """The head of a round: which tool wrote it, when, and what was replaced in it before sealing."""

    KEPT = frozenset({"format", "planned"})

    format: Literal["genreport-round/1"] = ROUND_FORMAT
    name: str
    tool: str
    started_unix_us: int
    redaction: list[str]
    # levels the plan asks for, as "test/engine/level/rN"
    planned: list[RepeatKey]


class Seal(Record):
    """Hash and size of every file of a finished round but the seal itself."""

    KEPT = frozenset({"format", "files"})

    format: Literal["genreport-seal/1"] = SEAL_FORMAT
    finished_unix_us: int
    files: dict[str, FileFact]
