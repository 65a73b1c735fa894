"""Server-sent events, or lines of JSON, from bytes, however the network cut them."""

from __future__ import annotations

_BOM = b"\xef\xbb\xbf"


class Decoder:
    """Turns a byte stream into the payloads of its completed events, in time linear in the bytes.

    Only `data` lines count: comments, `event`, `id` and `retry` lines are read over. A payload is decoded when its
    event is complete, so that no cut can fall inside a character; bytes that are no UTF-8 become U+FFFD.
    """

    def __init__(self) -> None:
        self._line: list[bytes] = []  # pieces of the unfinished line; joined once, when it ends
        self._data: list[bytes] = []  # data lines of the unfinished event
        self._after_cr = False
        self._at_start = True

    def feed(self, data: bytes) -> list[str]:
        """The payloads of the events that these bytes complete."""
        if not data:
            return []
        if self._after_cr:  # a \r already ended that line; its \n may only come now
            data = data.removeprefix(b"\n")
        self._after_cr = data.endswith(b"\r")
        first, *rest = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._line.append(first)
        if not rest:
            return []
        ended = [b"".join(self._line), *rest[:-1]]
        self._line = rest[-1:]
        return [payload for line in ended if (payload := self._take(line)) is not None]

    @property
    def unfinished(self) -> bool:
        """Whether bytes are left that no blank line has made an event: a stream that ends so was cut off."""
        return bool(self._data) or any(self._line)

    def _take(self, line: bytes) -> str | None:
        if self._at_start:
            self._at_start, line = False, line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        return None

    def _dispatch(self) -> str | None:
        lines, self._data = self._data, []
        return b"\n".join(lines).decode("utf-8", "replace") if lines else None


class Lines:
    """The same for a stream of JSON lines: each line that is not blank is a payload."""

    def __init__(self) -> None:
        self._line: list[bytes] = []

    def feed(self, data: bytes) -> list[str]:
        """The payloads that these bytes complete."""
        first, *rest = data.split(b"\n")
        self._line.append(first)
        if not rest:
            return []
        ended = [b"".join(self._line), *rest[:-1]]
        self._line = rest[-1:]
        return [line.decode("utf-8", "replace") for line in ended if line.strip()]

    @property
    def unfinished(self) -> bool:
        """Whether bytes are left that no line feed ended."""
        return bool(b"".join(self._line).strip())
