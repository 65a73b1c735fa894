"""The events of a stream are alike: most differ from the one before in their text alone.

Reading such an event in full (lines, UTF-8, JSON, its fields) costs several times what receiving it does. Where an event
was read in full once, and a probe shows that the text may be exchanged, a later one that has the same bytes around its
text is that event with another text. Whatever is not certainly so is read in full.
"""

from __future__ import annotations

from genreport.dialect import Event, parse
from genreport.sse import Decoder

TRIES = 4  # a stream whose events differ in more than their text is not tried for longer
_PROBE = "~another text~"


class Alike:
    """Knows one event of a stream in full."""

    def __init__(self) -> None:
        self._tries = TRIES
        self.known: Event | None = None
        self._before = self._after = b""

    def texts(self, reads: list[bytes]) -> list[str] | None:
        """The texts of these reads, if each of them is the known event but for its text."""
        if self.known is None:
            return None
        before, after, size = self._before, self._after, len(self._before)
        least, behind = size + len(after), -len(after)
        for data in reads:
            if len(data) <= least or not data.startswith(before) or not data.endswith(after):
                return None
        try:
            texts = [data[size:behind].decode() for data in reads]
        except UnicodeDecodeError:
            return None
        all_of_them = "".join(texts)  # a quote ends a text, and a backslash stands for another one
        return texts if all_of_them.isprintable() and not ('"' in all_of_them or "\\" in all_of_them) else None

    def learn(self, data: bytes, event: Event) -> None:
        """Takes note of a whole event that was read in full."""
        if not self._tries or not event.text or event.may_repeat:
            return
        self._tries -= 1
        text = event.text.encode("utf-8", "surrogatepass")
        before, quoted, after = data.partition(b'"%b"' % text)
        before, after = before + b'"', b'"' + after
        if quoted and after.endswith(b"\n") and self._holds(before, after, event):
            self._before, self._after, self.known = before, after, event

    def _holds(self, before: bytes, after: bytes, event: Event) -> bool:
        """Whether what stands between is the text: with another one there, all else is as it was."""
        payloads = Decoder().feed(before + _PROBE.encode() + after)
        return len(payloads) == 1 and parse(payloads[0]) == event._replace(text=_PROBE)
