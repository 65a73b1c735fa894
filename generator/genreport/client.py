"""One streamed request, observed: what was sent when, what came when, and how it ended.

While a request runs only (stamp, bytes) pairs are kept. They are read as events after the stream ended, a few at a
time, so that no parsing delays a stamp of this request and none delays another's noticeably.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from genreport.dialect import MESSAGE_ROOM, Event, clean, kind_letters, parse, token_counts
from genreport.records import DONE, TEXT_KINDS, TEXT_LIMIT, Failure, FailureKind, Request
from genreport.sse import Decoder
from genreport.wire import READ_US, Wire, monotonic_us

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
TEXT_ROOM = 16 * TEXT_LIMIT  # cut to the limit when it was redacted
ANSWER_BYTES = 64 << 20  # no answer of a level is nearly as large
SLICE = 16  # payloads read between two turns of the event loop: about a fifth of a millisecond
_SENDING = "http11.send_request_headers.started"


class Clock:
    """Microseconds since an origin on CLOCK_MONOTONIC; a new clock starts now."""

    def __init__(self, origin_us: int | None = None) -> None:
        self.origin_us = monotonic_us() if origin_us is None else origin_us

    def now_us(self) -> int:
        return monotonic_us() - self.origin_us

    def at(self, stamp_us: int) -> int:
        """A stamp of CLOCK_MONOTONIC on this clock."""
        return stamp_us - self.origin_us


@dataclass(frozen=True, kw_only=True)
class Call:
    """One request to make: the JSON body as it goes on the wire, and what the record shall say of it.

    A body with `messages` goes to the chat endpoint, any other to /v1/completions.
    """

    index: int
    seed: int
    body: dict[str, Any]
    asked_input: int
    asked_output: int
    warmup: bool = False
    prompt: list[int] | None = None
    due_us: int = 0


@dataclass(eq=False)
class Exchange:
    """What was observed of one call; `record` reads it. `end_us`: when its last byte came or it failed."""

    call: Call
    clock: Clock
    sent_us: list[int] = field(default_factory=list)  # just before the first byte of each try
    reads: list[tuple[int, bytes]] = field(default_factory=list)
    status: int | None = None
    failure: Failure | None = None
    end_us: int = 0

    def __post_init__(self) -> None:
        self._decoder = Decoder()
        self._events: list[Event] = []
        self._stamps: list[int] = []
        self._parsing = self._parse()

    async def trace(self, name: str, info: dict[str, Any]) -> None:
        """httpx's `trace` extension."""
        if name == _SENDING:
            self.sent_us.append(self.clock.now_us())

    def failed(self, kind: FailureKind, message: str) -> None:
        """Notes a failure of the transport, now."""
        self.failure, self.end_us = self._as_failure(kind, message), self.clock.now_us()

    async def read(self) -> Request:
        """The record, made in slices between which the event loop turns."""
        for _ in self._parsing:
            await asyncio.sleep(0)
        return self.record()

    def record(self) -> Request:
        """The record, at once; goes on where a cancelled `read` stopped."""
        for _ in self._parsing:
            pass
        usage = self._last("usage")
        tokens = token_counts(self._events, usage.completion_tokens if usage else None)
        kinds = kind_letters(self._events, tokens)
        failure = self._failure(kinds)
        origin_us = self.sent_us[-1] if self.sent_us else self.call.due_us
        return Request(
            index=self.call.index,
            warmup=self.call.warmup,
            seed=self.call.seed,
            asked_input=self.call.asked_input,
            asked_output=self.call.asked_output,
            due_us=self.call.due_us,
            t0_us=self.sent_us[-1] if self.sent_us else None,
            gaps_us=[later - earlier for earlier, later in itertools.pairwise([origin_us, *self._stamps])],
            kinds=kinds,
            tokens=tokens,
            usage=usage,
            finish=self._last("finish"),
            server=self._last("server") or {},
            text=clean("".join(event.text for event in self._events), TEXT_ROOM),
            end_us=self._stamps[-1] if self._stamps and not failure else self.end_us,
            retries=max(0, len(self.sent_us) - 1),
            failure=failure,
        )

    def _parse(self) -> Iterator[None]:
        payloads = ((stamp, payload) for stamp, data in self.reads for payload in self._decoder.feed(data))
        for count, (stamp, payload) in enumerate(payloads, 1):
            if (event := parse(payload)) is not None:
                self._events.append(event)
                self._stamps.append(stamp)
            if count % SLICE == 0:
                yield

    def _last(self, name: str) -> Any:
        return next((found for event in reversed(self._events) if (found := getattr(event, name))), None)

    def _failure(self, kinds: str) -> Failure | None:
        """The first cause: what the server said, then how the stream ended, then what it lacked."""
        said = next((event.failure for event in self._events if event.failure), None)
        if said:
            return said.model_copy(update={"status": self.status})
        if self.failure and DONE not in kinds:
            return self.failure
        if not set(kinds) & set(TEXT_KINDS):
            return self._as_failure("empty", "the stream ended without text")
        if DONE not in kinds and not self._last("finish"):
            how = "within an event" if self._decoder.unfinished else "without [DONE] or a finish reason"
            return self._as_failure("stream", f"the stream ended {how}")
        return None

    def _as_failure(self, kind: FailureKind, message: str) -> Failure:
        return Failure(kind=kind, status=self.status, message=clean(message, MESSAGE_ROOM))


class Client:
    """Streams completions from one server; enter it before use.

    `base_url` may end in `/v1`. `stall_s` bounds the wait for a connection and for each next byte, `request_s` a whole
    request, `answer_bytes` its answer, so that no server holds a load for ever. `fresh_connections` opens one for each
    request, for a server that closes those it announced to keep. `transport` replaces the network.
    """

    def __init__(
        self,
        base_url: str,
        *,
        headers: dict[str, str] | None = None,
        fresh_connections: bool = False,
        verify: bool | ssl.SSLContext = True,
        stall_s: float = 120.0,
        request_s: float = 600.0,
        answer_bytes: int = ANSWER_BYTES,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._request_s, self._answer_bytes = request_s, answer_bytes
        self._http = httpx.AsyncClient(
            base_url=base_url.rstrip("/").removesuffix("/v1"),
            # a compressing server would hold events back to fill its window
            headers={"Accept-Encoding": "identity", "Content-Type": "application/json", **(headers or {})},
            transport=transport or Wire(verify=verify, fresh=fresh_connections),
            timeout=stall_s,
            trust_env=False,
            follow_redirects=False,
        )

    async def __aenter__(self) -> Client:
        await self._http.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._http.__aexit__(*exc)

    async def complete(self, call: Call, clock: Clock) -> Request:
        """The call's record; a request that fails is a record too, and never an exception."""
        return await (await self.exchange(call, clock)).read()

    async def exchange(self, call: Call, clock: Clock) -> Exchange:
        """Makes the call and returns as soon as its last byte is in, with nothing parsed yet."""
        seen = Exchange(call, clock)
        request = self._http.build_request(
            "POST",
            CHAT if "messages" in call.body else COMPLETIONS,
            content=json.dumps(call.body, separators=(",", ":")).encode(),
            extensions={"trace": seen.trace},
        )
        about_to_send = clock.now_us()
        try:
            async with asyncio.timeout(self._request_s):
                response = await self._http.send(request, stream=True)
                seen.sent_us = seen.sent_us or [about_to_send]  # a given transport may not trace
                seen.status = response.status_code
                await _receive(response, seen, self._answer_bytes)
        except TimeoutError:
            seen.failed("stall", f"not complete after {self._request_s:g} s")
        except httpx.RequestError as error:
            seen.failed(_kind(error, answered=seen.status is not None), f"{type(error).__name__}: {error}")
        return seen


async def _receive(response: httpx.Response, seen: Exchange, most_bytes: int) -> None:
    try:
        kind = response.headers.get("content-type", "text/event-stream")
        if response.status_code != 200:
            seen.failed("http", await _beginning(response))
        elif not kind.startswith("text/event-stream"):
            seen.failed("protocol", f"{kind} in place of an event stream: {await _beginning(response)}")
        else:
            await _keep(response, seen, most_bytes)
    finally:
        await response.aclose()


async def _keep(response: httpx.Response, seen: Exchange, most_bytes: int) -> None:
    line = response.extensions.get("network_stream")  # none under a given transport

    def read_us() -> int:
        return seen.clock.at(line.get_extra_info(READ_US)) if line else seen.clock.now_us()

    async for data in response.aiter_bytes():
        seen.reads.append((read_us(), data))
        most_bytes -= len(data)
        if most_bytes < 0:
            seen.failed("protocol", "the answer is far too long: it was given up")
            return
    seen.end_us = read_us()


async def _beginning(response: httpx.Response) -> str:
    body = b""
    try:
        async for data in response.aiter_bytes():
            body += data
            if len(body) >= MESSAGE_ROOM:
                break
    except httpx.RequestError:
        pass  # the status says enough, and what came of the body is kept
    return body[:MESSAGE_ROOM].decode("utf-8", "replace")


def _kind(error: httpx.RequestError, *, answered: bool) -> FailureKind:
    match error:
        case httpx.ConnectError() | httpx.ConnectTimeout() | httpx.UnsupportedProtocol():
            return "connect"
        case httpx.TimeoutException():
            return "stall"
        case httpx.DecodingError():
            return "protocol"
        case httpx.ProtocolError() if not answered:
            return "protocol"
        case _:
            return "stream"
