import itertools
import time

from hypothesis import given
from hypothesis import strategies as st

from genreport.sse import Decoder

STREAM = (
    b": ping\r\nevent: delta\r\nid: 7\r\n" + 'data: {"text":"grüße 🚀"}'.encode() + b"\r\n\r\n"
    b"data:two\ndata: lines\n\n\rdata:  kept\r\rdata: "
)
PAYLOADS = ['{"text":"grüße 🚀"}', "two\nlines", " kept"]


def decoded(*pieces: bytes) -> list[str]:
    decoder = Decoder()
    return [payload for piece in pieces for payload in decoder.feed(piece)]


def test_comments_and_other_fields_are_no_data():
    assert decoded(STREAM) == PAYLOADS


def test_every_single_cut_leaves_the_payloads_alone():
    for at in range(len(STREAM) + 1):
        assert decoded(STREAM[:at], STREAM[at:]) == PAYLOADS


def test_a_stream_byte_by_byte_gives_the_same_payloads():
    assert decoded(*(STREAM[i : i + 1] for i in range(len(STREAM)))) == PAYLOADS


@given(
    st.lists(st.sampled_from([b"data: ", b"data:", b"x", b"\r", b"\n", b"\r\n", b":", b"\xc3\xbc", b"\xff", b"id: 1"])),
    st.lists(st.integers(0, 60)),
)
def test_payloads_do_not_depend_on_the_cuts(pieces, cuts):
    stream = b"".join(pieces)
    edges = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    parts = [stream[a:b] for a, b in itertools.pairwise(edges)]
    assert decoded(*parts) == decoded(stream)


@given(st.lists(st.text().filter(lambda t: "\r" not in t), min_size=1), st.sampled_from(["\n", "\r", "\r\n"]))
def test_any_text_comes_out_as_it_went_in(texts, newline):
    stream = "".join("".join(f"data: {line}{newline}" for line in text.split("\n")) + newline for text in texts)
    assert decoded(stream.encode()) == texts


def test_an_incomplete_tail_is_no_event():
    decoder = Decoder()
    assert decoder.feed(b"data: [DONE]\n") == []
    assert decoder.unfinished
    assert decoder.feed(b"\n") == ["[DONE]"]
    assert not decoder.unfinished


def test_a_carriage_return_alone_ends_an_event_before_its_line_feed_comes():
    decoder = Decoder()
    assert decoder.feed(b"data: 1\r\n\r") == ["1"]
    assert decoder.feed(b"\ndata: 2\r\n\r\n") == ["2"]
    assert not decoder.unfinished


def test_a_byte_order_mark_is_no_part_of_the_first_field():
    assert decoded(b"\xef\xbb", b"\xbfdata: 1\n\n") == ["1"]


def test_bytes_that_are_no_utf8_become_replacement_characters():
    assert decoded(b"data: a\xffb\n\n") == ["a\ufffdb"]


def test_a_line_of_a_hundred_megabytes_takes_linear_time():
    piece, start = b"x" * 65536, time.process_time()
    decoder = Decoder()
    decoder.feed(b"data: ")
    for _ in range(1600):
        assert decoder.feed(piece) == []
    (payload,) = decoder.feed(b"\n\n")
    assert len(payload) == 1600 * 65536
    assert time.process_time() - start < 5  # quadratic joining would copy 80 GB
