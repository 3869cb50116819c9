"""A client process: takes a task on standard input, hands its share back on standard output.

Length-prefixed msgpack: the task, then (once connected processes are wanted to begin) the start time.
"""

from __future__ import annotations

import struct
import sys
from typing import BinaryIO

import msgspec

from campaign.errors import CampaignError
from campaign.load.share import Share, Task, run_share

LENGTH = struct.Struct("<Q")


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the process ends with: a share, or why there is none."""

    share: Share | None = None
    error: str = ""


def write_message(stream: BinaryIO, value: object) -> None:
    """One message with its length before it."""
    data = msgspec.msgpack.encode(value)
    stream.write(LENGTH.pack(len(data)) + data)
    stream.flush()


def read_message(stream: BinaryIO) -> bytes:
    """The next message; empty where the stream ended."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return b""
    return stream.read(LENGTH.unpack(head)[0])


def main() -> None:
    """Run one task."""
    task = msgspec.msgpack.decode(read_message(sys.stdin.buffer), type=Task)
    write_message(sys.stdout.buffer, "ready")
    start_ns = msgspec.msgpack.decode(read_message(sys.stdin.buffer), type=int)
    try:
        answer = Answer(share=run_share(task, start_ns))
    except CampaignError as error:
        answer = Answer(error=str(error))
    write_message(sys.stdout.buffer, answer)


if __name__ == "__main__":
    main()
