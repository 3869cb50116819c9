"""Several client processes for one cell, where one core does not carry the load."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import BinaryIO, cast

import msgspec

from campaign.errors import LoadError
from campaign.load.endpoint import Endpoint
from campaign.load.plan import Plan, split_plan
from campaign.load.share import Share, Task, run_share
from campaign.load.worker import Answer, read_message, write_message

#: Time between the word to begin and the common start: connecting falls into it.
LEAD_S = 0.5


def run_plan(plan: Plan, endpoint: Endpoint, processes: int = 1) -> list[Share]:
    """Run a plan in this process (one) or in so many of its own; raises `LoadError` where a process died."""
    if processes <= 1:
        return [run_share(Task(plan=plan, endpoint=endpoint))]
    tasks = [Task(plan=part, endpoint=endpoint) for part in split_plan(plan, processes)]
    children = [
        subprocess.Popen([sys.executable, "-m", "campaign.load.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in tasks
    ]
    try:
        return _conduct(children, tasks)
    finally:
        for child in children:
            if child.poll() is None:
                child.kill()
            child.wait()
            cast(BinaryIO, child.stdout).close()


def _conduct(children: list[subprocess.Popen[bytes]], tasks: list[Task]) -> list[Share]:
    try:
        for child, task in zip(children, tasks, strict=True):
            write_message(cast(BinaryIO, child.stdin), task)
        for child in children:
            read_message(cast(BinaryIO, child.stdout))
        start_ns = time.time_ns() + round(LEAD_S * 1e9)
        for child in children:
            write_message(cast(BinaryIO, child.stdin), start_ns)
            cast(BinaryIO, child.stdin).close()
        answers = [read_message(cast(BinaryIO, child.stdout)) for child in children]
    except BrokenPipeError as error:
        raise LoadError("A client process ended before its work began. Run again with --processes 1.") from error
    shares: list[Share] = []
    for data in answers:
        answer = msgspec.msgpack.decode(data, type=Answer) if data else Answer(error="it ended without an answer")
        if answer.share is None:
            raise LoadError(f"A client process failed: {answer.error}. Run again with --processes 1.")
        shares.append(answer.share)
    return shares
