"""Engines of a plan: how each is started or reached, what it is, and which variants of it are measured."""

# ruff: noqa: RUF012  (pydantic copies defaults)
from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, JsonValue, StringConstraints, field_validator, model_validator

from genreport.machine import cpu_set
from genreport.plan.levels import PlannedTest
from genreport.plan.parts import ENV_NAME, VARIABLE, Count, CountFromZero, Id, Names, Part, Positive, Words
from genreport.records import OF_WORDS, EngineKind

# what the runner sets in every request body itself, so that a level is what its plan says
OWN_FIELDS = {
    "best_of", "details", "echo", "input_ids", "inputs", "max_completion_tokens", "max_new_tokens", "max_tokens", "messages",
    "model", "num_predict", "prompt", "raw", "sampling_params", "seed", "stream", "stream_options", "text",
}  # fmt: skip


class LaunchPlan(Part):
    """How to start an engine in the foreground: argument list, environment on top of the runner's, cores, patience."""

    command: Annotated[Words, Field(min_length=1)]
    env: dict[str, str] = {}
    cpus: str | None = None
    ready_s: Positive = 300
    stop_s: Positive = 20

    @field_validator("cpus")
    @classmethod
    def _cores(cls, cpus: str | None) -> str | None:
        if cpus is not None and not VARIABLE.search(cpus):
            cpu_set(cpus)
        return cpus


class CeilingPlan(Part):
    """A hardware ceiling: `measure`, or a value (bytes/s or FLOP/s) with the source it is cited from."""

    measure: bool = False
    value: Positive | None = None
    source: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _word(cls, given: Any) -> Any:
        if isinstance(given, str) and given != "measure":
            raise ValueError("is `measure`, or a mapping with `value` and `source`")
        return {"measure": True} if given == "measure" else given

    @model_validator(mode="after")
    def _one_way(self) -> CeilingPlan:
        cited = self.value is not None
        if self.measure == cited or cited != bool(self.source):
            raise ValueError("is `measure`, or a mapping with `value` and the `source` it is cited from")
        return self


class Ceilings(Part):
    """Both roofs of the roofline; `None` = the default of `EngineFields.ceiling`."""

    bandwidth: CeilingPlan | None = None
    flops: CeilingPlan | None = None


class Sampled(Part):
    """Whatever adds sampling parameters to request bodies."""

    sampling: dict[str, JsonValue] = {}

    @field_validator("sampling")
    @classmethod
    def _allowed(cls, given: dict[str, Any]) -> dict[str, Any]:
        if own := sorted(OWN_FIELDS & set(given)):
            raise ValueError(f"the runner itself sets {', '.join(own)}; leave it out")
        if given.get("n") not in (None, 1) or given.get("n") is True:
            raise ValueError("n must be 1: one answer a request")
        return given


class Variant(Sampled):
    """What one variant of an engine changes: it becomes an engine `<engine>-<id>` of its own."""

    id: Id
    flags: Words = []
    env: dict[str, str] = {}
    precision: str | None = None
    kv_bytes_per_element: Positive | None = None


class EngineFields(Sampled):
    """What every engine has; `url` is the server's root (without `/v1`), sizes are in bytes."""

    id: Id
    kind: EngineKind
    baseline: bool = False
    model: str
    precision: str | None = None
    kv_bytes_per_element: Positive = 2
    url: str
    launch: LaunchPlan | None = None
    model_files: Names = []
    metrics_url: str | None = None
    log_path: str | None = None
    api_key_env: Annotated[str, StringConstraints(pattern=ENV_NAME)] | None = None
    ca_file: str | None = None
    ceilings: Ceilings = Ceilings()
    first_token: CountFromZero = 1000
    vocabulary: Annotated[Count, Field(lt=1 << 31)] | None = None
    prompt: Literal["ids", "text"] | None = None
    api: Literal["openai", "own"] | None = None

    @field_validator("url", "metrics_url")
    @classmethod
    def _address(cls, url: str | None) -> str | None:
        if url is None or VARIABLE.search(url):
            return url
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not a http:// or https:// address")
        if parts.username or parts.query or parts.fragment:
            raise ValueError("carries credentials, a query or a fragment; a key goes through `api_key_env`")
        _ = parts.port  # out of range: ValueError
        if parts.path.rstrip("/").endswith("/v1"):
            raise ValueError("ends in /v1; give the server's root, without it")
        return url.rstrip("/")

    @field_validator("vocabulary")
    @classmethod
    def _room(cls, vocabulary: int | None, info: Any) -> int | None:
        first = info.data.get("first_token", 0)
        if vocabulary is not None and vocabulary <= first:
            raise ValueError(f"leaves no token ids to draw: must be above first_token, {first}")
        return vocabulary

    @field_validator("api")
    @classmethod
    def _chosen(cls, api: str | None, info: Any) -> str | None:
        if api is not None and info.data.get("kind", "sglang") != "sglang":
            raise ValueError("is for kind sglang alone: every other kind is asked at one place")
        return api

    def ceiling(self, name: Literal["bandwidth", "flops"]) -> CeilingPlan | None:
        """The plan's word on one ceiling; an engine started here is measured unless the plan cites a value."""
        return getattr(self.ceilings, name) or (CeilingPlan(measure=True) if self.launch else None)

    @property
    def prompt_form(self) -> Literal["ids", "text"]:
        return self.prompt or ("text" if self.kind in OF_WORDS else "ids")


class Engine(EngineFields):
    """An engine that is measured; `flags` are its variant's and follow the launch command."""

    variant_of: str | None = None
    flags: list[str] = []

    def command(self, test: PlannedTest | None = None) -> list[str]:
        """The argument list of a launch, with the variant's and the test's flags; empty for a running server."""
        return [*self.launch.command, *self.flags, *(test.flags if test else [])] if self.launch else []


class EngineEntry(EngineFields):
    """An engine as the plan writes it, before its variants become engines of their own."""

    variants: list[Variant] = []
    keep_base: bool = False

    def expanded(self) -> Iterator[Engine]:
        """The engines it stands for; the first of them is the baseline where the entry is."""
        fields = {name: getattr(self, name) for name in EngineFields.model_fields}
        changes = [{}] if self.keep_base or not self.variants else []
        changes += [self._changes(variant) for variant in self.variants]
        for place, change in enumerate(changes):
            yield Engine(**fields | {"baseline": self.baseline and place == 0} | change)

    def _changes(self, variant: Variant) -> dict[str, Any]:
        changed = {"id": f"{self.id}-{variant.id}", "variant_of": self.id, "flags": variant.flags}
        changed["sampling"] = self.sampling | variant.sampling
        if self.launch:
            changed["launch"] = self.launch.model_copy(update={"env": self.launch.env | variant.env})
        own = {"precision": variant.precision, "kv_bytes_per_element": variant.kv_bytes_per_element}
        return changed | {name: value for name, value in own.items() if value is not None}
