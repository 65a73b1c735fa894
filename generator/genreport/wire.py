"""The connection under the client: HTTP/1.1 over sockets that know when each read returned.

asyncio hands bytes to a protocol right after `recv`, and to the task that waits for them when its turn comes. With many
streams the difference is milliseconds, so the stamp is taken in the protocol. One `recv` may hold several HTTP chunks:
they share its stamp.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import httpcore
import httpx

READ_US = "read_us"  # `get_extra_info` key of the latest read's stamp


def monotonic_us() -> int:
    """CLOCK_MONOTONIC in whole microseconds."""
    return time.monotonic_ns() // 1000


class Line(asyncio.Protocol, httpcore.AsyncNetworkStream, httpcore.AsyncNetworkBackend):
    """One TCP or TLS connection: what httpcore calls a network stream, and the backend that opens it."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._reads: deque[tuple[int, bytes]] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        self._error: Exception | None = None
        self.read_us = 0
        self.received = 0

    # asyncio's side

    def data_received(self, data: bytes) -> None:
        self._reads.append((monotonic_us(), data))
        self.received += len(data)
        self._wake()

    def eof_received(self) -> None:
        self.connection_lost(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._ended:
            self._reads.append((monotonic_us(), b""))
        self._ended, self._error = True, self._error or exc
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # httpcore's side

    async def connect_tcp(self, host, port, timeout=None, local_address=None, socket_options=None) -> Line:  # noqa: ASYNC109
        with _connecting(timeout):
            async with asyncio.timeout(timeout):
                loop = asyncio.get_running_loop()
                self._transport, _ = await loop.create_connection(lambda: self, host, port)
        return self

    async def start_tls(self, ssl_context, server_hostname=None, timeout=None) -> Line:  # noqa: ASYNC109
        loop, plain = asyncio.get_running_loop(), self._transport
        try:
            with _connecting(timeout):
                async with asyncio.timeout(timeout):
                    self._transport = await loop.start_tls(plain, self, ssl_context, server_hostname=server_hostname)
        except BaseException:
            plain.abort()
            raise
        return self

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        """What one `recv` brought, whole: h11 takes any size, and a part would need a stamp of its own."""
        if not self._reads and not self._ended:
            await self._arrival(timeout)
        data = b""
        if self._reads:
            self.read_us, data = self._reads.popleft()
        if not data and self._error:
            raise httpcore.ReadError(str(self._error)) from self._error
        return data

    async def _arrival(self, timeout: float | None) -> None:  # noqa: ASYNC109
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout):
                await self._waiter
        except TimeoutError:
            raise httpcore.ReadTimeout(f"no bytes for {timeout:g} s") from None

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Hands the bytes over without waiting: a request is small, and a server that reads none of it stalls."""
        if self._ended:
            raise httpcore.WriteError("the server closed the connection")
        self._transport.write(buffer)

    async def aclose(self) -> None:
        if self._transport is not None:
            self._transport.abort()
            await asyncio.sleep(0)  # asyncio frees the socket in its next turn

    def get_extra_info(self, info: str) -> object:
        match info:
            case "read_us":
                return self.read_us
            case "is_readable":  # on an idle connection: the server has closed it
                return self._ended or bool(self._reads)
            case _:
                return self._transport.get_extra_info(info)


class DiedUnanswered(httpx.ReadError):
    """The connection was closed before the first byte of an answer."""


class _Connection(httpcore.AsyncHTTPConnection):
    def __init__(self, origin: httpcore.Origin, tls: ssl.SSLContext | None) -> None:
        self.line = Line()
        super().__init__(origin, ssl_context=tls, network_backend=self.line)

    async def answer(self, request: httpcore.Request) -> httpcore.Response:
        before = self.line.received
        with _as_httpx():
            try:
                return await self.handle_async_request(request)
            except (httpcore.ReadError, httpcore.WriteError, httpcore.RemoteProtocolError) as error:
                if self.line.received > before:
                    raise
                raise DiedUnanswered("the connection died before the answer began") from error


class Wire(httpx.AsyncBaseTransport):
    """An httpx transport over `Line`s, for one server.

    A kept connection that dies before the first byte of an answer is replaced once: a server may close one that it
    announced to keep, and the request then finds it dead. `fresh=True` keeps none, so each request has its own and is
    sent once.
    """

    def __init__(self, *, verify: bool | ssl.SSLContext = True, fresh: bool = False) -> None:
        self._verify, self._fresh = verify, fresh
        self._tls: ssl.SSLContext | None = None
        self._idle: list[_Connection] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        plain = _plain(request)
        kept = await self._kept()
        connection = kept or self._opened(plain)
        try:
            response = await connection.answer(plain)
        except DiedUnanswered:
            if kept is None:
                raise
            connection = self._opened(plain)
            response = await connection.answer(plain)
        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=_Body(response, connection, self),
            extensions=response.extensions,
        )

    async def release(self, connection: _Connection) -> None:
        """Takes back a connection whose answer was read or given up."""
        if connection.is_idle() and not self._fresh:
            self._idle.append(connection)
        else:
            await connection.aclose()

    async def aclose(self) -> None:
        while self._idle:
            await self._idle.pop().aclose()

    async def _kept(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if not connection.has_expired():
                return connection
            await connection.aclose()
        return None

    def _opened(self, request: httpcore.Request) -> _Connection:
        if request.url.scheme == b"https" and self._tls is None:
            self._tls = httpx.create_ssl_context(verify=self._verify, trust_env=False)
        return _Connection(request.url.origin, self._tls)


class _Body(httpx.AsyncByteStream):
    def __init__(self, response: httpcore.Response, connection: _Connection, wire: Wire) -> None:
        self._response, self._connection, self._wire = response, connection, wire
        self._closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _as_httpx():
            async for chunk in self._response.stream:
                yield chunk

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            await self._response.aclose()
            await self._wire.release(self._connection)


def _plain(request: httpx.Request) -> httpcore.Request:
    url = request.url
    return httpcore.Request(
        request.method,
        httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
        headers=request.headers.raw,
        content=request.stream,
        extensions=request.extensions,
    )


@contextmanager
def _connecting(timeout: float | None) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise httpcore.ConnectTimeout(f"no connection in {timeout:g} s" if timeout else str(error)) from None
    except OSError as error:
        raise httpcore.ConnectError(str(error)) from error


@contextmanager
def _as_httpx() -> Iterator[None]:
    # httpx has an exception of the same name for each of httpcore's
    try:
        yield
    except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError) as error:
        raise getattr(httpx, type(error).__name__)(str(error)) from error
