"""One streamed request, observed: what was sent when, what came when, and how it ended.

While a request runs only bytes and their stamps are kept. They are read as events after the stream ended, a few at a
time, so that no parsing delays a stamp of this request and none delays another's noticeably.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import ssl
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

import httpx

from genreport import __version__
from genreport.alike import Alike
from genreport.dialect import MESSAGE_ROOM, Event, clean, endpoint, increments, kind_letters, parse, token_counts
from genreport.records import DONE, TEXT_KINDS, TEXT_LIMIT, Failure, FailureKind, Request
from genreport.sse import Decoder, Lines
from genreport.wire import Answer, Wire, head_of, monotonic_us, pieces

TEXT_ROOM = 16 * TEXT_LIMIT  # cut to the limit when it was redacted
ANSWER_BYTES = 64 << 20  # no answer of a level is nearly as large
LINE_BYTES = 4 << 20  # and no event of one
PIECE = 1 << 16  # bytes of a compressed answer, which are read as one read's are
SLICE = 16  # events of a step of reading: a tenth of a millisecond at most
JSON_LINES = ("application/x-ndjson", "application/jsonl", "application/json-lines")


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

    `dialect.endpoint` says where a body goes.
    """

    index: int
    seed: int
    body: dict[str, Any]
    asked_input: int
    asked_output: int
    warmup: bool = False
    prompt: list[int] | None = None
    conversation: int | None = None
    turn: int | None = None
    due_us: int = 0
    # the body, and it as bytes: made beforehand, since between two requests of a place there is no time for it
    encoded: tuple[dict[str, Any], bytes] | None = field(default=None, repr=False, compare=False)

    def due(self, due_us: int) -> Call:
        """The same call, due then; a quick `replace`."""
        return self._but(due_us=due_us)

    def bare(self) -> Call:
        """The same call without its body, which is large, for what outlives the sending."""
        return self._but(body={}, encoded=None)

    def _but(self, **changed: Any) -> Call:
        other = object.__new__(Call)
        other.__dict__.update(self.__dict__, **changed)
        return other

    def __post_init__(self) -> None:
        if self.encoded is None or self.encoded[0] is not self.body:
            content = json.dumps(self.body, separators=(",", ":")).encode()
            object.__setattr__(self, "encoded", (self.body, content))


@dataclass(eq=False)
class Exchange:
    """What was observed of one call; `record` reads it. `end_us`: when its last byte came or it failed."""

    call: Call
    clock: Clock
    most_bytes: int = ANSWER_BYTES
    sent_us: list[int] = field(default_factory=list)  # just before the first byte of each try
    # what each read brought, and when, on CLOCK_MONOTONIC: two lists, since pairs keep the garbage collector busy
    reads: list[bytes] = field(default_factory=list)
    reads_us: list[int] = field(default_factory=list)
    status: int | None = None
    failure: Failure | None = None
    end_us: int = 0

    def __post_init__(self) -> None:
        self._decoder: Decoder | Lines = Decoder()
        self._events: list[Event] = []
        self._texts: list[str] = []  # of the events: those alike are one event with many texts
        self._events_us: list[int] = []  # on CLOCK_MONOTONIC
        self.parsing = self._parse()  # reads a little with each step
        self.bytes = self._line_bytes = 0

    def sent(self) -> None:
        """Called right before the first byte of a try."""
        self.sent_us.append(self.clock.now_us())

    def answered(self, status: int) -> None:
        """Called when the head of an answer is there."""
        self.status = status

    def take(self, read_us: int, data: bytes) -> bool:
        """Keeps what one read brought; whether that is too much."""
        self.reads.append(data)
        self.reads_us.append(read_us)
        newline = data.rfind(b"\n")
        if newline < 0 and (newline := data.rfind(b"\r")) < 0:  # which ends a line as well
            self._line_bytes += len(data)
        else:
            self._line_bytes = len(data) - newline - 1
        self.bytes += len(data)
        return self.bytes > self.most_bytes or self._line_bytes > LINE_BYTES

    def ended(self, read_us: int) -> None:
        """Notes the end of the answer, whole or given up for its length."""
        self.end_us = self.clock.at(read_us)
        if self.bytes > self.most_bytes or self._line_bytes > LINE_BYTES:
            what = "answer" if self.bytes > self.most_bytes else "line"
            self.failed("protocol", f"the {what} is far too long: it was given up")

    def failed(self, kind: FailureKind, message: str, retry_after: str | None = None) -> None:
        """Notes a failure of the transport, now."""
        failure = self._as_failure(kind, message)
        self.failure, self.end_us = failure.model_copy(update={"retry_after": retry_after}), self.clock.now_us()

    def in_lines(self) -> None:
        """What comes are lines of JSON in place of server-sent events."""
        self._decoder = Lines()

    async def read(self) -> Request:
        """The record, made in slices between which the event loop turns."""
        for _ in self.parsing:
            await asyncio.sleep(0)
        return self.record()

    def record(self) -> Request:
        """The record, at once; goes on where a cancelled `read` stopped."""
        for _ in self.parsing:
            pass
        events = increments(self._events)
        said = [next(same) for _, same in itertools.groupby(events, key=id)]  # of those alike, one
        usage = _last(said, "usage")
        tokens = token_counts(events, usage.completion_tokens if usage else None)
        kinds = kind_letters(events, tokens)
        failure = self._failure(kinds, said)
        begin_us = self.sent_us[-1] if self.sent_us else self.call.due_us
        origin_us = self.clock.origin_us
        stamps_us = [read_us - origin_us for read_us in self._events_us]
        return Request(
            index=self.call.index,
            conversation=self.call.conversation,
            turn=self.call.turn,
            warmup=self.call.warmup,
            seed=self.call.seed,
            asked_input=self.call.asked_input,
            asked_output=self.call.asked_output,
            due_us=self.call.due_us,
            t0_us=self.sent_us[-1] if self.sent_us else None,
            gaps_us=[later - earlier for earlier, later in itertools.pairwise([begin_us, *stamps_us])],
            kinds=kinds,
            tokens=tokens,
            usage=usage,
            finish=_last(said, "finish"),
            server=_last(said, "server") or {},
            text=clean("".join(self._texts if events is self._events else (event.text for event in events)), TEXT_ROOM),
            end_us=stamps_us[-1] if stamps_us and not failure else self.end_us,
            retries=max(0, len(self.sent_us) - 1),
            failure=failure,
        )

    def _parse(self) -> Generator[None]:
        alike, whole = Alike(), isinstance(self._decoder, Decoder)
        for begin in range(0, len(self.reads), SLICE):
            reads, reads_us = self.reads[begin : begin + SLICE], self.reads_us[begin : begin + SLICE]
            if whole and (texts := alike.texts(reads)) is not None:
                self._note([alike.known] * len(texts), texts, reads_us)
            else:
                for read_us, data in zip(reads_us, reads, strict=True):
                    whole = yield from self._read(read_us, data, alike if whole else None)
            yield

    def _read(self, read_us: int, data: bytes, alike: Alike | None) -> Generator[None, None, bool]:
        """Notes the events that one read completes; returns whether the next one begins an event."""
        if alike and (texts := alike.texts([data])) is not None:
            self._note([alike.known], texts, [read_us])
            return True
        payloads = self._decoder.feed(data)
        for begin in range(0, len(payloads), SLICE):
            events = [event for payload in payloads[begin : begin + SLICE] if (event := parse(payload)) is not None]
            self._note(events, [event.text for event in events], [read_us] * len(events))
            if len(payloads) > SLICE:
                yield
        whole = isinstance(self._decoder, Decoder) and not self._decoder.unfinished
        if alike and whole and len(payloads) == 1 and events:
            alike.learn(data, events[0])
        return whole

    def _note(self, events: list[Event], texts: list[str], reads_us: list[int]) -> None:
        self._events += events
        self._texts += texts
        self._events_us += reads_us

    def _failure(self, kinds: str, events: list[Event]) -> Failure | None:
        """The first cause: what the server said, then how the stream ended, then what it lacked."""
        said = next((event.failure for event in events if event.failure), None)
        if said:
            return said.model_copy(update={"status": self.status})
        if self.failure and DONE not in kinds:
            return self.failure
        if not set(kinds) & set(TEXT_KINDS):
            return self._as_failure("empty", "the stream ended without text")
        if DONE not in kinds and not _last(events, "finish"):
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
        self._answer_bytes = answer_bytes
        self._base_url, self._made = base_url.rstrip("/").removesuffix("/v1"), {}
        # a compressing server would hold events back to fill its window
        told = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": f"genreport/{__version__}"}
        self._headers = httpx.Headers(told | {"Content-Type": "application/json", **(headers or {})})
        self._timeout = httpx.Timeout(stall_s).as_dict() | {"whole": request_s}
        self._transport = transport or Wire(verify=verify, fresh=fresh_connections)

    async def __aenter__(self) -> Client:
        await self._transport.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._transport.__aexit__(*exc)

    async def open(self, count: int) -> None:
        """Has so many connections ready, so that the first requests of a load need not wait for theirs."""
        if isinstance(self._transport, Wire):
            await self._transport.open(httpx.URL(self._base_url), count, self._timeout)

    async def complete(self, call: Call, clock: Clock) -> Request:
        """The call's record; a request that fails is a record too, and never an exception."""
        return await (await self.exchange(call, clock)).read()

    async def exchange(self, call: Call, clock: Clock) -> Exchange:
        """Makes the call and returns as soon as its last byte is in, with nothing parsed yet."""
        seen = Exchange(call.bare(), clock, self._answer_bytes)
        try:
            await (self._over_wire if isinstance(self._transport, Wire) else self._through)(call, seen)
        except httpx.RequestError as error:
            seen.failed(_kind(error, answered=seen.status is not None), f"{type(error).__name__}: {error}")
        return seen

    async def _over_wire(self, call: Call, seen: Exchange) -> None:
        """Our own transport is given bytes."""
        path, content = endpoint(call.body), call.encoded[1]
        request, head = self._made.get(path) or self._make(path)
        whole = b"%bContent-Length: %d\r\n\r\n%b" % (head, len(content), content)
        answer = await self._transport.ask(request.url, whole, self._timeout, seen.sent, seen)
        await (_taken_whole if answer.taken else _other)(answer, seen)

    async def _through(self, call: Call, seen: Exchange) -> None:
        """A transport that was given takes a request, and may not tell when it sent it."""
        request, _ = self._make(endpoint(call.body))
        content, extensions = call.encoded[1], request.extensions
        given = httpx.Request("POST", request.url, headers=request.headers, content=content, extensions=extensions)
        about_to_send = seen.clock.now_us()
        try:
            async with asyncio.timeout(self._timeout["whole"]):
                response = await self._transport.handle_async_request(given)
                seen.sent_us = seen.sent_us or [about_to_send]
                await _receive(response, seen)
        except TimeoutError:
            raise httpx.ReadTimeout(f"not complete after {self._timeout['whole']:g} s") from None

    def _make(self, path: str) -> tuple[httpx.Request, bytes]:
        """What the requests to a path have in common, made once."""
        url, extensions = httpx.URL(f"{self._base_url}{path}"), {"timeout": self._timeout}
        request = httpx.Request("POST", url, headers=self._headers, extensions=extensions)
        request.headers.pop("Content-Length", None)
        self._made[path] = request, head_of(request)
        return self._made[path]


def _last(events: list[Event], name: str) -> Any:
    return next((found for event in reversed(events) if (found := getattr(event, name))), None)


async def _taken_whole(answer: Answer, seen: Exchange) -> None:
    """What nearly every answer is, without a response made of it."""
    seen.ended(answer.read_us)
    await answer.aclose()


async def _other(answer: Answer, seen: Exchange) -> None:
    await _receive(httpx.Response(answer.status, headers=answer.headers, stream=answer), seen)


async def _receive(response: httpx.Response, seen: Exchange) -> None:
    seen.status = response.status_code
    try:
        told = response.headers.get("content-type", "text/event-stream")
        kind = told.lower()
        if response.status_code != 200:
            seen.failed("http", _whither(response) + await _beginning(response), response.headers.get("retry-after"))
        elif kind.startswith(JSON_LINES):
            seen.in_lines()
            await _keep(response, seen)
        elif kind.startswith("text/event-stream"):
            await _keep(response, seen)
        else:
            seen.failed("protocol", f"{told} in place of an event stream: {await _beginning(response)}")
    finally:
        await response.aclose()


async def _keep(response: httpx.Response, seen: Exchange) -> None:
    answer = response.stream
    if not isinstance(answer, Answer):  # a given transport's: it is stamped when it gets here
        seen.ended(await _taken(response, seen, monotonic_us))
    elif response.headers.get("content-encoding", "identity").lower() == "identity":
        seen.ended(await answer.whole(seen.take))
    else:
        seen.ended(await _taken(response, seen, lambda: answer.read_us))


async def _taken(response: httpx.Response, seen: Exchange, read_us: Callable[[], int]) -> int:
    async for data in response.aiter_bytes():
        if any(seen.take(read_us(), piece) for piece in pieces(data, PIECE)):
            break
        await asyncio.sleep(0)  # a compressed answer may be a thousand times as long as what was sent
    return read_us()


def _whither(response: httpx.Response) -> str:
    """Where a redirect, which is never followed, leads."""
    return f"redirects to {response.headers['location']}; " if response.has_redirect_location else ""


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
