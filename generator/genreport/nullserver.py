"""A server whose truth is known: it streams made-up events at a given pace and says when it wrote each.

`python -m genreport.nullserver --port 9000 --ttft 0.2 --gap 0.025` serves on 127.0.0.1 until it is stopped. The text of
every event is CLOCK_MONOTONIC in nanoseconds, read right before its write, so that a client on this machine can tell
how late it saw it. `GET /truth` gives what happened since the last such request, as JSON. One process, one thread, bare
sockets: it costs less than any client of it.
"""

from __future__ import annotations

import heapq
import json
import re
import select
import socket
import time
from collections import deque
from dataclasses import dataclass, field

import click

MODEL = "null"
BATCH = 16  # events written between two looks for requests
SPIN_S = 0.001  # epoll waits whole milliseconds: nearer than that, the time is waited out
HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
    b"Server: genreport-null\r\nTransfer-Encoding: chunked\r\n\r\n"
)
STAMP = 20  # places of a stamp and the blank before it
COMPLETION = (
    '{"id":"cmpl-0123456789abcdef0123456789abcdef","object":"text_completion","created":1767225600,"model":"null",'
    '"choices":[{"index":0,"text":"\0","logprobs":null,"finish_reason":null,"stop_reason":null}]}'
)
CHAT = (
    '{"id":"chatcmpl-0123456789abcdef0123456789abcdef","object":"chat.completion.chunk","created":1767225600,'
    '"model":"null","choices":[{"index":0,"delta":{"content":"\0"},"logprobs":null,"finish_reason":null}]}'
)
NOT_LAST, LAST = b'"finish_reason":null', b'"finish_reason":"length"'
USAGE = '{"id":"cmpl-0","object":"text_completion","model":"null","choices":[],"usage":%s}'


@dataclass(frozen=True)
class Pace:
    """Seconds until the first event and between events, and how many tokens an event is said to hold."""

    ttft_s: float = 0.2
    gap_s: float = 0.025
    tokens_per_event: int = 1


@dataclass(eq=False)
class Stream:
    """An answer under way: the truth of one request."""

    peer: Peer
    read_ns: int
    due_ns: int
    events: int
    tokens: int
    prompt_tokens: int
    before: bytes
    after: bytes
    stamps: list[int] = field(default_factory=list)
    due: list[int] = field(default_factory=list)


@dataclass(eq=False)
class Peer:
    """A connection: what it sent and was not read yet, and what it has not taken yet."""

    socket: socket.socket
    received: bytes = b""
    unsent: bytes = b""


class NullServer:
    """Answers completions, chat or not, and what clients ask before them."""

    def __init__(self, port: int, pace: Pace, lifeline: int | None = None) -> None:
        """`lifeline`: a pipe that nobody writes to; it ends when the other side is gone."""
        self._pace, self._gap_ns = pace, int(pace.gap_s * 1e9)
        self._listener = socket.create_server(("127.0.0.1", port), backlog=4096)
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        self._epoll = select.epoll()
        self._epoll.register(self._listener, select.EPOLLIN)
        self._lifeline = lifeline
        if lifeline is not None:
            self._epoll.register(lifeline, select.EPOLLIN)
        self._peers: dict[int, Peer] = {}
        self._timed: list[tuple[int, int, Stream]] = []  # a heap: when due, then in the order of requests
        self._ready: deque[Stream] = deque()  # with no gap, the streams take turns
        self._count = 0
        self._done: list[Stream] = []

    def serve(self) -> None:
        while True:
            for number, happened in self._epoll.poll(self._patience_s()):
                if number == self._lifeline:
                    return
                if number == self._listener.fileno():
                    self._accept()
                elif happened & select.EPOLLOUT:
                    self._flush(self._peers[number])
                else:
                    self._read(self._peers[number])
            self._write_due()

    # ---- requests

    def _accept(self) -> None:
        for _ in range(BATCH):
            try:
                accepted, _ = self._listener.accept()
            except BlockingIOError:
                return
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._peers[accepted.fileno()] = Peer(accepted)
            self._epoll.register(accepted, select.EPOLLIN)

    def _read(self, peer: Peer) -> None:
        try:
            data = peer.socket.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self._drop(peer)
            return
        peer.received += data
        head, ended, rest = peer.received.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: *([0-9]+)", head)
        wanted = int(length[1]) if length else 0
        if ended and len(rest) >= wanted:
            peer.received = rest[wanted:]
            self._answer(peer, head.split(b" ", 2)[1].decode(), rest[:wanted])

    def _drop(self, peer: Peer) -> None:
        if self._peers.pop(peer.socket.fileno(), None):
            self._epoll.unregister(peer.socket)
            peer.socket.close()

    def _answer(self, peer: Peer, path: str, body: bytes) -> None:
        if path.endswith("/completions"):
            self._begin(peer, json.loads(body), chat="chat" in path)
        elif path == "/truth":
            self._tell(peer, self._truth())
        elif path.endswith("/models"):
            self._tell(peer, {"object": "list", "data": [{"id": MODEL, "object": "model", "max_model_len": 1 << 17}]})
        else:
            self._tell(peer, {"status": "ok", "version": "null"})

    def _tell(self, peer: Peer, told: object) -> None:
        body = json.dumps(told).encode()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        self._send(peer, head % len(body) + body)

    def _truth(self) -> list[dict[str, object]]:
        told = [{"read_ns": s.read_ns, "stamps_ns": s.stamps, "due_ns": s.due, "tokens": s.tokens} for s in self._done]
        self._done = []
        return told

    # ---- answers

    def _begin(self, peer: Peer, body: dict[str, object], *, chat: bool) -> None:
        tokens = int(body.get("max_tokens") or body.get("max_completion_tokens") or 16)
        prompt = body.get("prompt") or body.get("messages") or []
        before, after = (CHAT if chat else COMPLETION).encode().split(b"\0")
        now = time.monotonic_ns()
        stream = Stream(
            peer, now, now + int(self._pace.ttft_s * 1e9), -(-tokens // self._pace.tokens_per_event), tokens,
            len(prompt) if isinstance(prompt, list) else len(str(prompt).split()), before, after,
        )  # fmt: skip
        self._send(peer, HEAD)
        self._schedule(stream)

    def _schedule(self, stream: Stream) -> None:
        if self._gap_ns or (not stream.stamps and self._pace.ttft_s):
            self._count += 1
            heapq.heappush(self._timed, (stream.due_ns, self._count, stream))
        else:
            self._ready.append(stream)

    def _patience_s(self) -> float | None:
        if self._ready:
            return 0
        if not self._timed:
            return None
        left_s = (self._timed[0][0] - time.monotonic_ns()) / 1e9
        return left_s - SPIN_S if left_s > 2 * SPIN_S else 0

    def _write_due(self) -> None:
        """A batch of what is due; a stream whose reader is behind waits for it."""
        for _ in range(BATCH):
            if self._timed and self._timed[0][0] <= time.monotonic_ns():
                stream = heapq.heappop(self._timed)[2]
            elif self._ready:
                stream = self._ready.popleft()
            else:
                return
            if stream.peer.socket.fileno() < 0:
                self._done.append(stream)
            elif stream.peer.unsent and not self._gap_ns:
                self._ready.append(stream)
            else:
                self._write(stream)

    def _write(self, stream: Stream) -> None:
        last = len(stream.stamps) + 1 == stream.events
        after = stream.after.replace(NOT_LAST, LAST) if last else stream.after
        size = 8 + len(stream.before) + STAMP + len(after)
        stream.due.append(stream.due_ns)
        stamp = time.monotonic_ns()
        chunk = b"%x\r\ndata: %b %0*d%b\n\n\r\n" % (size, stream.before, STAMP - 1, stamp, after)
        stream.stamps.append(stamp)
        self._send(stream.peer, chunk + self._end(stream) if last else chunk)
        if last:
            self._done.append(stream)
        else:
            stream.due_ns += self._gap_ns
            self._schedule(stream)

    def _end(self, stream: Stream) -> bytes:
        counts = {"prompt_tokens": stream.prompt_tokens, "completion_tokens": stream.tokens,
                  "total_tokens": stream.prompt_tokens + stream.tokens}  # fmt: skip
        usage = b"data: %b\n\n" % (USAGE % json.dumps(counts)).encode()
        done = b"data: [DONE]\n\n"
        return b"%x\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(usage), usage, len(done), done)

    def _send(self, peer: Peer, data: bytes) -> None:
        if peer.unsent:
            peer.unsent += data
            return
        try:
            sent = peer.socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._drop(peer)
            return
        if sent < len(data):
            peer.unsent = data[sent:]
            self._epoll.modify(peer.socket, select.EPOLLIN | select.EPOLLOUT)

    def _flush(self, peer: Peer) -> None:
        data, peer.unsent = peer.unsent, b""
        self._epoll.modify(peer.socket, select.EPOLLIN)
        self._send(peer, data)


@click.command()
@click.option("--port", default=0, show_default=True, help="0 takes a free one; the first line of output names it.")
@click.option("--ttft", default=0.2, show_default=True, help="Seconds until the first event.")
@click.option("--gap", default=0.025, show_default=True, help="Seconds between events; 0 streams at full speed.")
@click.option("--tokens-per-event", default=1, show_default=True)
@click.option("--lifeline", is_flag=True, help="End when the standard input, a pipe, does.")
def main(port: int, ttft: float, gap: float, tokens_per_event: int, lifeline: bool) -> None:
    """Stream made-up events on 127.0.0.1 until stopped."""
    server = NullServer(port, Pace(ttft, gap, tokens_per_event), 0 if lifeline else None)
    click.echo(f"http://127.0.0.1:{server.port}")
    server.serve()


if __name__ == "__main__":
    main()
