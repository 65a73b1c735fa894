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
_TEXT = Event._fields.index("text")


class Alike:
    """Knows one event of a stream in full."""

    def __init__(self) -> None:
        self._tries = TRIES
        self._ahead, self._behind = (), ()  # the event's fields before its text and after
        self._before = self._after = b"\0"
        self._least = 1 << 62  # until an event is known, none is long enough

    def event(self, data: bytes) -> Event | None:
        """The event that these bytes are, if they are the known one's but for the text."""
        if not data.startswith(self._before) or not data.endswith(self._after) or len(data) <= self._least:
            return None
        try:
            text = data[len(self._before) : -len(self._after)].decode()
        except UnicodeDecodeError:
            return None
        if not text.isprintable() or '"' in text or "\\" in text:  # the text ends there, or stands for another
            return None
        return Event._make((*self._ahead, text, *self._behind))

    def learn(self, data: bytes, event: Event) -> None:
        """Takes note of a whole event that was read in full."""
        if not self._tries or not event.text:
            return
        self._tries -= 1
        text = event.text.encode("utf-8", "surrogatepass")
        before, quoted, after = data.partition(b'"%b"' % text)
        before, after = before + b'"', b'"' + after
        if quoted and after.endswith(b"\n") and self._holds(before, after, event):
            self._before, self._after = before, after
            self._ahead, self._behind = event[:_TEXT], event[_TEXT + 1 :]
            self._least = len(before) + len(after)

    def _holds(self, before: bytes, after: bytes, event: Event) -> bool:
        """Whether what stands between is the text: with another one there, all else is as it was."""
        payloads = Decoder().feed(before + _PROBE.encode() + after)
        return len(payloads) == 1 and parse(payloads[0]) == event._replace(text=_PROBE)
