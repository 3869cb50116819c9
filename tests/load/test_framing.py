"""The quick walk over chunks against h11, for every way to cut the bytes."""

from __future__ import annotations

import h11
from hypothesis import given, settings
from hypothesis import strategies as st

from campaign.load.framing import EndFinder, parse_response
from campaign.load.reply import split_events

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"

payloads = st.lists(
    st.one_of(
        st.binary(min_size=1, max_size=40),
        st.sampled_from([b"0\r\n\r\n", b"data: [DONE]\n\n", b'data: {"a": 1}\n\n', b"\r\n0\r\n\r\n", b"\r\n"]),
    ),
    max_size=8,
)


def chunked(parts: list[bytes], extension: bytes = b"", trailer: bytes = b"") -> bytes:
    """A chunked response."""
    body = b"".join(b"%x%s\r\n%s\r\n" % (len(part), extension, part) for part in parts)
    return HEAD + body + b"0\r\n" + trailer + b"\r\n"


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """The bytes as reads that end at the places."""
    ends = sorted({place % len(data) for place in places} - {0})
    return [data[a:b] for a, b in zip([0, *ends], [*ends, len(data)], strict=True)]


def by_h11(data: bytes) -> bytes:
    """The body as h11 alone has it."""
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(data)
    body = b""
    while not isinstance(event := connection.next_event(), h11.EndOfMessage):
        if isinstance(event, h11.Data):
            body += bytes(event.data)
    return body


@given(
    payloads,
    st.lists(st.integers(0, 10**6), max_size=30),
    st.sampled_from([b"", b";x=1"]),
    st.sampled_from([b"", b"a: b\r\n"]),
)
@settings(max_examples=300, deadline=None)
def test_framing__equals_h11_for_any_cut(parts: list[bytes], places: list[int], ext: bytes, trailer: bytes) -> None:
    data = chunked(parts, ext, trailer)
    reads = cut(data, places)
    response = parse_response(reads, is_closed=False)
    assert (response.status, response.is_complete, response.problem) == (200, True, "")
    assert response.body == by_h11(data) == b"".join(parts)
    # each body byte is said to have come in a read that holds it
    for offset in range(len(response.body)):
        assert response.body[offset : offset + 1] in reads[response.read_of(offset)]
    finder, seen = EndFinder(), list[bytes]()
    ends = []
    for read in reads:
        seen.append(read)
        ends.append(finder.is_end(seen))
    assert ends == [False] * (len(reads) - 1) + [True]


@given(payloads.filter(bool), st.integers(1, 10**6))
@settings(max_examples=200, deadline=None)
def test_framing__a_cut_response_is_not_complete_and_keeps_its_bytes(parts: list[bytes], place: int) -> None:
    data = chunked(parts)
    part = data[: len(HEAD) + place % (len(data) - len(HEAD))]
    response = parse_response([part], is_closed=True)
    assert not response.is_complete
    assert b"".join(parts).startswith(response.body)


def test_framing__read_of_is_the_read_that_brought_the_byte() -> None:
    data = chunked([b"abc", b"defg"])
    middle = data.index(b"efg")
    response = parse_response([data[:middle], data[middle:]], is_closed=False)
    assert [response.read_of(i) for i in range(7)] == [0, 0, 0, 0, 1, 1, 1]


def test_framing__responses_with_a_length_or_until_the_end() -> None:
    sized = b"HTTP/1.1 500 No\r\ncontent-length: 4\r\n\r\nboom"
    until_close = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\ndata: 1\n\n"
    assert parse_response([sized], is_closed=False).body == b"boom"
    assert EndFinder().is_end([sized])
    assert not EndFinder().is_end([sized[:-1]])
    assert parse_response([until_close], is_closed=True).is_complete
    assert not parse_response([until_close], is_closed=False).is_complete
    assert parse_response([b"SSH-2.0-x\r\n\r\n"], is_closed=True).problem


@given(
    st.lists(st.tuples(st.sampled_from(["\n", "\r\n", "\r"]), st.sampled_from(["a", "b\tc", "{}"])), max_size=6),
    st.sampled_from(["", ": comment\n\n", "event: x\n", "id: 7\n", "retry: 1\n"]),
)
def test_events__by_the_rules_of_server_sent_events(events: list[tuple[str, str]], before: str) -> None:
    body = before.encode() + b"".join(f"data: {data}{end}{end}".encode() for end, data in events)
    found = list(split_events(body))
    assert [data.decode() for _, data in found] == [data for _, data in events]
    for offset, data in found:
        assert body[offset : offset + 1] == data[-1:]


def test_events__several_data_lines_and_a_torn_end() -> None:
    assert [data for _, data in split_events(b"data: a\ndata:b\n\ndata: c\n")] == [b"a\nb"]
    assert list(split_events(b"data: a")) == []
