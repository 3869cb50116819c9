"""HTTP/1.1 responses out of the raw bytes of a connection, each body byte with the read it came in.

h11 parses the head and anything unusual. A plain chunked body, which every streaming server sends, is walked
here: h11 costs some 15 µs a chunk, more than everything else that is done with a token.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import h11

#: End of a stream as every OpenAI-compatible server sends it in its last read.
USUAL_END = b"data: [DONE]\n\n\r\n0\r\n\r\n"
BLANK_LINE = b"\r\n\r\n"
#: How events with CRLF line ends look at the end of their chunk; no response ends like this.
BLANK_LINES = b"\r\n\r\n\r\n"


@dataclass
class Response:
    """One HTTP response as far as it arrived."""

    status: int | None = None
    """Status code; null where no whole head arrived."""
    headers: dict[str, str] = field(default_factory=dict)
    """Header fields, names in lower case."""
    body: bytes = b""
    """The body without its framing."""
    piece_ends: list[int] = field(default_factory=list)
    """Offsets in the body at which a piece of one read ends, rising."""
    piece_reads: list[int] = field(default_factory=list)
    """The read that each piece came in."""
    is_complete: bool = False
    """Whether the response ended as its framing says."""
    problem: str = ""
    """What is wrong with the bytes; empty = nothing."""

    def read_of(self, offset: int) -> int:
        """Index of the read that brought body byte `offset`."""
        return self.piece_reads[bisect.bisect_right(self.piece_ends, offset)]

    def is_in_read(self, offset: int, read: int) -> bool:
        """Whether body byte `offset` is there and came in read number `read`."""
        piece = bisect.bisect_right(self.piece_ends, offset)
        return piece < len(self.piece_reads) and self.piece_reads[piece] == read


def _connection() -> h11.Connection:
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
    connection.send(h11.Request(method="POST", target="/", headers=[("host", "server")]))
    connection.send(h11.EndOfMessage())
    return connection


def parse_response(reads: Sequence[bytes], *, is_closed: bool) -> Response:
    """Parse the reads of one exchange; `is_closed` = the peer ended the connection after them."""
    raw = b"".join(reads)
    head_end = raw.find(b"\r\n\r\n") + 4
    if head_end > 3 and raw.startswith(b"HTTP/1.1 2") and b"chunked" in raw[:head_end].lower():
        response = Response()
        try:
            _read_head(response, raw[:head_end])
        except h11.RemoteProtocolError:
            return _parse_slowly(reads, is_closed=is_closed)
        if response.headers.get("transfer-encoding") == "chunked" and walk_chunks(response, raw, head_end, reads):
            return response
    return _parse_slowly(reads, is_closed=is_closed)


def _read_head(response: Response, head: bytes) -> None:
    connection = _connection()
    connection.receive_data(head)
    event = connection.next_event()
    if isinstance(event, h11.Response):
        response.status = event.status_code
        response.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}


def walk_chunks(response: Response, raw: bytes, position: int, reads: Sequence[bytes]) -> bool:
    """Fill in the body from plain chunks; False where the bytes need the full parser (extensions, trailers)."""
    read_ends = list(accumulate(map(len, reads)))
    read = bisect.bisect_right(read_ends, position)
    parts: list[bytes] = []
    ends, owners, size = response.piece_ends, response.piece_reads, 0
    total = len(raw)
    while position < total:
        line_end = raw.find(b"\r\n", position, position + 20)
        if line_end < 0:
            if total - position < 20:
                break
            return False
        digits = raw[position:line_end]
        if not digits.isalnum():
            return False
        try:
            length = int(digits, 16)
        except ValueError:
            return False
        start = line_end + 2
        if length == 0:
            if total - start < 2:
                break
            if raw[start : start + 2] != b"\r\n" or total > start + 2:
                return False
            response.is_complete = True
            break
        stop = min(start + length, total)
        parts.append(raw[start:stop])
        while start < stop:
            while read_ends[read] <= start:
                read += 1
            piece = min(stop, read_ends[read]) - start
            size += piece
            start += piece
            ends.append(size)
            owners.append(read)
        if raw[stop : stop + 2] not in (b"\r\n", b"\r", b""):
            return False
        position = stop + 2
    response.body = b"".join(parts)
    return True


def _parse_slowly(reads: Sequence[bytes], *, is_closed: bool) -> Response:
    response, connection, parts, size = Response(), _connection(), list[bytes](), 0
    try:
        for number, data in enumerate([*reads, b""] if is_closed else reads):
            connection.receive_data(data)
            while (event := connection.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                if isinstance(event, h11.Response):
                    response.status = event.status_code
                    response.headers = {n.decode("latin-1"): v.decode("latin-1") for n, v in event.headers}
                elif isinstance(event, h11.Data):
                    parts.append(bytes(event.data))
                    size += len(event.data)
                    response.piece_ends.append(size)
                    response.piece_reads.append(min(number, len(reads) - 1))
                elif isinstance(event, h11.EndOfMessage):
                    response.is_complete = True
                    break
                elif isinstance(event, h11.ConnectionClosed):
                    break
            if response.is_complete:
                break
    except h11.RemoteProtocolError as error:
        response.problem = str(error)
    response.body = b"".join(parts)
    return response


class EndFinder:
    """Tells when the reads of one exchange hold a whole response: cheap for a stream, exact for the rest."""

    __slots__ = ("_is_stream",)

    def __init__(self) -> None:
        self._is_stream: bool | None = None

    def is_end(self, reads: list[bytes]) -> bool:
        """Whether the response ends with the last of `reads`; called after every read."""
        last = reads[-1]
        if self._is_stream is None:
            raw = b"".join(reads)
            head_end = raw.find(b"\r\n\r\n")
            if head_end < 0:
                return len(raw) > 1 << 20
            self._is_stream = raw.startswith(b"HTTP/1.1 2") and b"chunked" in raw[:head_end].lower()
        if self._is_stream:
            if last.endswith(USUAL_END):
                return True
            tail = last if len(last) >= len(BLANK_LINES) else b"".join(reads[-len(BLANK_LINES) :])
            if not tail.endswith(BLANK_LINE) or tail.endswith(BLANK_LINES):
                return False
        response = parse_response(reads, is_closed=False)
        return response.is_complete or bool(response.problem)
