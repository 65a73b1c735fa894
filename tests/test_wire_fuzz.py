"""Other streams at each run: what fixed examples never try."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from test_wire_cases import PIECES, replayed, without_stamps

KNOWN = st.sampled_from(PIECES)
ENDS = st.sampled_from([b"\n\n", b"\r\n\r\n", b"\r\r", b"\r\n", b"\n"])
EVENT = st.builds(lambda piece, end: b"data: " + piece + end, KNOWN, ENDS)
TORN = st.builds(lambda piece, at: piece[:at] + piece[at + 1 :], EVENT, st.integers(0, 60))
# mostly whole events, so that an answer gets far enough to be read differently
STREAMS = st.lists(EVENT | EVENT | TORN | KNOWN | st.binary(max_size=20), max_size=20).map(b"".join)


# a failure prints what to put above the test to see it again; about two seconds
@settings(derandomize=False, database=None, print_blob=True, max_examples=400, deadline=None)
@given(STREAMS, st.lists(st.integers(0, 5000), min_size=1, max_size=12))
def test_no_stream_of_this_run_breaks_the_reading_and_no_cut_changes_it(stream, cuts):
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    record = replayed(*(stream[a:b] for a, b in itertools.pairwise(edges)))
    assert without_stamps(record) == without_stamps(replayed(stream))
    assert len(record.gaps_us) == len(record.kinds)
    assert min(record.gaps_us, default=0) >= 0
    assert type(record).model_validate_json(record.model_dump_json()) == record
