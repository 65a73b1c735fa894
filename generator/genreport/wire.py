"""The network under the client: HTTP/1.1 over connections that stamp a read as it returns.

An event loop hands bytes to a protocol right after `recv`, and to the task that waits for them when its turn comes. With
many streams the difference is milliseconds, so stamps are taken in the protocol, and a task is woken twice an answer:
when its head is complete, and at its end. One `recv` may hold several events: they share its stamp.
"""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Protocol, TypeVar

import httptools
import httpx

from genreport.errors import ClientError

try:
    import uvloop
except ImportError:
    uvloop = None

LONGEST_LOOK_S = 1.0  # between two looks at what is under way
HEAD_BYTES = 100_000  # no head is nearly as large
STALE_S = 0.1  # a kept connection that was closed says so sooner; one that dies later had taken the request
PIECE = 4096  # of a compressed answer: that is a thousand times as much unpacked, at most
EVENTS = b"text/event-stream"
# what this machine lacks, not the server: files, memory, ports
OWN = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL}
STARTS = 32  # requests begun between two looks at the network: a millisecond and a half
Result = TypeVar("Result")
Take = Callable[[int, bytes], bool]  # a read's stamp and bytes of the body -> whether that is enough


class Taker(Protocol):
    """Who takes an answer that is a plain event stream as it comes, so that no task is woken for its beginning."""

    def answered(self, status: int) -> None: ...

    def take(self, read_us: int, data: bytes) -> bool: ...


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """`asyncio.run` on uvloop where there is one: not on Windows."""
    with asyncio.Runner(loop_factory=uvloop and uvloop.new_event_loop) as runner:
        return runner.run(main)


def monotonic_us() -> int:
    """CLOCK_MONOTONIC in whole microseconds."""
    return time.monotonic_ns() // 1000


class DiedUnanswered(httpx.ReadError):
    """The connection was closed before the first byte of an answer, so long after the request was sent."""

    def __init__(self, after_s: float) -> None:
        super().__init__(f"closed without an answer after {after_s:.3f} s")
        self.after_s = after_s


class Watch:
    """Looks at all answers under way from time to time: a timer for each would cost as much as starting it."""

    def __init__(self) -> None:
        self._under_way: set[Answer] = set()
        self._period_s, self._ticking = LONGEST_LOOK_S, False

    def add(self, answer: Answer, within_s: float) -> None:
        """Has an answer looked at; it ends no more than a tenth of `within_s` late, its shortest patience."""
        self._under_way.add(answer)
        self._period_s = min(self._period_s, within_s / 10)
        if not self._ticking:
            self._ticking = True
            asyncio.get_running_loop().call_later(self._period_s, self._tick)

    def remove(self, answer: Answer) -> None:
        self._under_way.discard(answer)

    def _tick(self) -> None:
        now_us = monotonic_us()
        for answer in self._under_way:
            answer.look(now_us)
        self._ticking = bool(self._under_way)
        if self._ticking:
            asyncio.get_running_loop().call_later(self._period_s, self._tick)


class Answer(httpx.AsyncByteStream):
    """The answer to one request, as its bytes come: httptools tells it what they are."""

    def __init__(self, line: Line, patience: dict[str, float | None], taker: Taker | None = None) -> None:
        self._line, self._patience, self._taker = line, patience, taker
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[None] | None = None
        self._early: list[tuple[int, bytes]] = []  # came before anybody took it
        self._take: Take = self._put_by
        self._error: Exception | None = None
        self._head_bytes = 0
        self._began = self._headed = self._stopped = False
        self._sized = False  # its end is told by chunks or a length, not by the connection's
        self.headers: list[tuple[bytes, bytes]] = []
        self.status = 0
        self.complete = self.reusable = self.taken = False  # taken: by the taker, whole or as far as it wanted
        self.read_us = self._asked_us = monotonic_us()

    # what the line brings

    def data(self, read_us: int, data: bytes) -> None:
        self.read_us, self._began = read_us, True
        if not self._headed:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.fail(httpx.RemoteProtocolError(str(error.__context__ or error) or type(error).__name__))
        if not self._headed and self._head_bytes > HEAD_BYTES:
            self.fail(httpx.RemoteProtocolError(f"no end of the head after {self._head_bytes} bytes"))

    def lost(self, error: Exception | None) -> None:
        """The connection is gone, in good order where there is no error."""
        if self.complete or self._error:
            return
        if error is None:
            self.read_us = monotonic_us()
        if self._headed and not self._sized and error is None:
            self.complete = True
            self._wake()
        elif not self._began:
            self.fail(DiedUnanswered((monotonic_us() - self._asked_us) / 1e6))
        elif error is not None:
            self.fail(httpx.ReadError(str(error)))
        else:
            self.fail(httpx.RemoteProtocolError("the connection was closed within the answer"))

    def fail(self, error: Exception) -> None:
        if not self.complete and self._error is None:
            self._error = error
            self._wake()
        self.reusable = False

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def look(self, now_us: int) -> None:
        """Fails where its patience is at an end."""
        for key, since_us, what in (
            ("read", self.read_us, "no bytes for"),
            ("whole", self._asked_us, "not complete after"),
        ):
            most_s = self._patience.get(key)
            if most_s and now_us - since_us >= most_s * 1e6:
                self.fail(httpx.ReadTimeout(f"{what} {most_s:g} s"))

    # httptools' side

    def on_message_begin(self) -> None:
        if self.complete:  # the parser stops here, and the connection is not used again
            raise httpx.RemoteProtocolError("bytes behind the end of an answer belong to nobody")

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))
        if name.lower() in (b"transfer-encoding", b"content-length"):
            self._sized = True

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        if self.status < 100:
            raise httpx.RemoteProtocolError(f"{self.status:03} is no status")
        if self.status == 101:
            raise httpx.RemoteProtocolError("it switches to another protocol")
        if self.status >= 200:
            self._headed = True
            if self._taker is None or not self.is_plain_stream:
                self._wake()
                return
            self.taken, self._take = True, self._taker.take
            self._taker.answered(self.status)

    def on_body(self, body: bytes) -> None:
        if not self._stopped and self._take(self.read_us, body):
            self._stopped = True
            self._wake()

    def on_message_complete(self) -> None:
        if self.status < 200:  # a preliminary answer: the real one follows
            self.headers.clear()
            return
        self.complete, self.reusable = True, self._parser.should_keep_alive()
        self._wake()

    def _put_by(self, read_us: int, data: bytes) -> bool:
        self._early.append((read_us, data))
        return False

    # the client's side

    @property
    def is_plain_stream(self) -> bool:
        """Whether it is an event stream as it is mostly sent: not an error, not compressed."""
        told = {name.lower(): value.lower() for name, value in self.headers}
        kind, coding = told.get(b"content-type", EVENTS), told.get(b"content-encoding", b"identity")
        return self.status == 200 and kind.startswith(EVENTS) and coding == b"identity"

    async def head(self) -> None:
        """Waits for status and headers; for the end where a taker has the body."""
        while not (self.complete or self._stopped or (self._headed and not self.taken)):
            await self._news()

    async def whole(self, take: Take) -> int:
        """Hands over the body as it comes, in the turn in which it is read; the stamp of its end."""
        early, self._early, self._take = self._early, [], take
        self._stopped = any([take(read_us, data) for read_us, data in early]) or self._stopped
        while not (self.complete or self._stopped):
            await self._news()
        return self.read_us

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            while self._early:
                read_us, data = self._early.pop(0)
                for piece in pieces(data, PIECE):
                    self.read_us = read_us  # more may have come while the last piece was taken
                    yield piece
            if self.complete:
                return
            self._take = self._put_by_and_wake
            await self._news()

    def _put_by_and_wake(self, read_us: int, data: bytes) -> bool:
        self._wake()
        return self._put_by(read_us, data)

    async def _news(self) -> None:
        if self._error is None:
            self._waiter = self._loop.create_future()
            await self._waiter
        if self._error is not None and not (self._headed and self._early):
            raise self._error

    async def aclose(self) -> None:
        self._parser = None
        await self._line.release(self)


class Line(asyncio.Protocol):
    """One TCP or TLS connection, and the answer that is under way on it."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._transport: asyncio.Transport | None = None
        self._answer: Answer | None = None
        self._descriptor: int | None = None  # of a socket that may be written to directly
        self._ended = self._gone = False
        self._unasked = b""  # what came on it before anybody asked: a refusal, as a rule

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        if transport.get_extra_info("ssl_object") is None:
            self._descriptor = transport.get_extra_info("socket").fileno()

    def data_received(self, data: bytes) -> None:
        read_us = time.monotonic_ns() // 1000
        if self._answer is not None:
            self._answer.data(read_us, data)
        elif len(self._unasked) < HEAD_BYTES:  # nobody asked
            self._ended, self._unasked = True, self._unasked + data

    def eof_received(self) -> None:
        self.connection_lost(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = self._gone = True
        if self._answer is not None:
            self._answer.lost(exc)

    @property
    def usable(self) -> bool:
        return not self._ended and not self._transport.is_closing()

    def ask(
        self, request: bytes, patience: dict[str, float | None], sent: Callable[[], None], taker: Taker | None
    ) -> Answer:
        """Sends a request; `sent` is called right before its first byte is."""
        self._answer = Answer(self, patience, taker)
        self._wire.watch.add(self._answer, min(filter(None, patience.values()), default=LONGEST_LOOK_S))
        sent()
        if self._unasked:
            self._answer.data(monotonic_us(), self._unasked)
        if self._gone:
            self._answer.lost(None)
        elif (written := self._write_now(request)) < len(request):
            self._transport.write(request[written:])
        return self._answer

    def _write_now(self, data: bytes) -> int:
        """Writes past the event loop, which would do it in its next turn only; what the socket does not take is left.

        Of a connection that is closed the next read will tell, after what the server said before.
        """
        if self._descriptor is None or not self.usable or self._transport.get_write_buffer_size():
            return 0
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)

    async def release(self, answer: Answer) -> None:
        """Takes the line back from an answer that was read or given up."""
        self._wire.watch.remove(answer)
        if self._answer is not answer:
            return
        self._answer = None
        if answer.reusable and self.usable and self._wire.keeps:
            self._wire.idle.append(self)
        else:
            await self.close()

    async def close(self) -> None:
        self._ended = True
        self._transport.abort()
        await asyncio.sleep(0)  # the loop frees the socket in its next turn


class Turnstile:
    """Lets so many requests start in one turn of the event loop, so that many at once hold up no stamp of the others."""

    def __init__(self) -> None:
        self._entered = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> None:
        loop = asyncio.get_running_loop()
        if self._entered >= STARTS:
            waiter = loop.create_future()
            self._waiting.append(waiter)
            await waiter
            return
        if not self._entered:
            loop.call_soon(self._next_turn)
        self._entered += 1

    def _next_turn(self) -> None:
        self._entered = 0
        while self._waiting and self._entered < STARTS:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                self._entered += 1
        if self._entered:
            asyncio.get_running_loop().call_soon(self._next_turn)


class Wire(httpx.AsyncBaseTransport):
    """An httpx transport over `Line`s, for one server.

    A request's extension `sent` is called right before its first byte is sent. A kept connection that dies at once, before
    the first byte of an answer, is replaced once: a server may close one that it announced to keep, and the request then
    finds it dead. `fresh=True` keeps none, so each request has its own and is sent once. Of httpx's timeouts it knows
    `connect` and `read`, and `whole` besides: of a request from its first byte sent to the last of its answer.
    """

    def __init__(self, *, verify: bool | ssl.SSLContext = True, fresh: bool = False) -> None:
        self._verify, self.keeps = verify, not fresh
        self._tls: ssl.SSLContext | None = None
        self.idle: list[Line] = []
        self._turnstile, self.watch = Turnstile(), Watch()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        extensions = request.extensions
        whole = b"%bContent-Length: %d\r\n\r\n%b" % (head_of(request), len(request.content), request.content)
        timeout, sent = extensions.get("timeout", {}), extensions.get("sent", _nothing)
        answer = await self.ask(request.url, whole, timeout, sent)
        return httpx.Response(answer.status, headers=answer.headers, stream=answer)

    async def ask(
        self,
        url: httpx.URL,
        request: bytes,
        timeout: dict[str, float | None],  # noqa: ASYNC109 - as httpx's extension of that name
        sent: Callable[[], None],
        taker: Taker | None = None,
    ) -> Answer:
        """Sends a request that was made beforehand; returns when the head of its answer is there, or all for a taker."""
        await self._turnstile.enter()
        kept = await self._kept()
        try:
            return await _asked(kept or await self._opened(url, timeout), request, timeout, sent, taker)
        except DiedUnanswered as died:
            if kept is None or died.after_s > STALE_S:
                raise
        return await _asked(await self._opened(url, timeout), request, timeout, sent, taker)

    async def open(self, url: httpx.URL, count: int, timeout: dict[str, float | None]) -> None:  # noqa: ASYNC109 (httpx names it so)
        """Has so many connections ready; where that fails, the requests will say why."""
        dead = [line for line in self.idle if not line.usable]  # a server may have closed some since
        self.idle = [line for line in self.idle if line.usable]
        for line in dead:
            await line.close()
        missing = count - len(self.idle) if self.keeps else 0
        opened = await asyncio.gather(*(self._opened(url, timeout) for _ in range(missing)), return_exceptions=True)
        self.idle.extend(line for line in opened if isinstance(line, Line))

    async def aclose(self) -> None:
        while self.idle:
            await self.idle.pop().close()

    async def _kept(self) -> Line | None:
        while self.idle:
            line = self.idle.pop()
            if line.usable:
                return line
            await line.close()
        return None

    async def _opened(self, url: httpx.URL, timeout: dict[str, float | None]) -> Line:  # noqa: ASYNC109 (httpx names it so)
        wait_s = timeout.get("connect")
        if url.scheme not in ("http", "https") or not url.host:
            raise httpx.UnsupportedProtocol(f"{url} is no address of an HTTP server")
        if url.scheme == "https" and self._tls is None:
            self._tls = httpx.create_ssl_context(verify=self._verify, trust_env=False)
        port, tls = url.port or (443 if url.scheme == "https" else 80), self._tls if url.scheme == "https" else None
        try:
            async with asyncio.timeout(wait_s):
                loop = asyncio.get_running_loop()
                _, line = await loop.create_connection(lambda: Line(self), url.host, port, ssl=tls)
        except TimeoutError as error:
            raise httpx.ConnectTimeout(f"no connection in {wait_s:g} s" if wait_s else str(error)) from None
        except OSError as error:
            if error.errno == errno.EMFILE and _more_files():
                return await self._opened(url, timeout)
            if error.errno in OWN:
                cure = "raise `ulimit -n`, or plan a smaller load"
                raise ClientError(f"no connection from here: {os.strerror(error.errno)}", cure=cure) from None
            raise httpx.ConnectError(str(error)) from error
        return line


def _more_files() -> bool:
    """Takes as many open files as the system lets this process have; whether it had fewer."""
    import resource  # not on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return False
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        return False
    return True


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    """The same bytes, so many at a time."""
    return (data[begin : begin + size] for begin in range(0, len(data), size))


def _nothing() -> None:
    pass


async def _asked(
    line: Line,
    request: bytes,
    timeout: dict[str, float | None],  # noqa: ASYNC109 (httpx names it so)
    sent: Callable[[], None],
    taker: Taker | None,
) -> Answer:
    answer = line.ask(request, timeout, sent, taker)
    try:
        await answer.head()
    except BaseException:
        await answer.aclose()
        raise
    return answer


def head_of(request: httpx.Request) -> bytes:
    """The lines of a request's head but for its length; a header that would smuggle in another is refused."""
    headers = [
        header for header in request.headers.raw if header[0].lower() not in (b"content-length", b"transfer-encoding")
    ]
    first = b"%b %b HTTP/1.1\r\n" % (request.method.encode(), request.url.raw_path)
    head = b"".join([first, *(b"%b: %b\r\n" % header for header in headers)])
    if not head.count(b"\n") == head.count(b"\r") == len(headers) + 1:
        raise httpx.LocalProtocolError("a header holds the end of a line")
    return head
