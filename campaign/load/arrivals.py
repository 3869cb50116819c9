"""When requests arrive in an open loop: offsets in seconds from the start of a cell."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Literal

import msgspec

from campaign.errors import UsageError

Process = Literal["poisson", "gamma", "constant", "ramp"]


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """How requests of a rate come in."""

    process: Process = "poisson"
    """poisson; gamma (burstiness below 1 = bursts); constant; ramp (rate grows evenly from `rate_from` to the rate)."""
    burstiness: float = 1.0
    """Shape of the gamma process; 1 = Poisson."""
    rate_from: float = 0.0
    """Rate at the start of a ramp, requests a second."""


def offsets_s(arrival: Arrival, rate: float, count: int, seed: str) -> list[float]:
    """Rising send times of `count` requests at `rate` requests a second, the first at 0.

    Gaps of the gamma process have shape k = burstiness and mean 1 / rate. A ramp's times solve
    N(t) = rate_from · t + (rate − rate_from) · t² / (2 T), with T such that N(T) = count.
    Raises `UsageError` for a rate that is not positive.
    """
    if rate <= 0 or arrival.burstiness <= 0:
        raise UsageError("A rate and a burstiness must be above 0. Leave the rate out for a closed loop.")
    if arrival.process == "ramp":
        return _ramp(arrival.rate_from, rate, count)
    rng = random.Random(seed)
    times, now = [], 0.0
    for _ in range(count):
        times.append(now)
        if arrival.process == "constant":
            now = len(times) / rate
        elif arrival.process == "poisson":
            now += rng.expovariate(rate)
        else:
            now += rng.gammavariate(arrival.burstiness, 1 / (rate * arrival.burstiness))
    return times


def _ramp(low: float, high: float, count: int) -> list[float]:
    length = 2 * count / (low + high)
    growth = (high - low) / length
    times = []
    for n in range(count):
        if abs(growth) < 1e-12:
            times.append(n / low)
        else:
            times.append((-low + (low * low + 2 * growth * n) ** 0.5) / growth)
    return times


class TraceLine(msgspec.Struct, frozen=True):
    """One request of a recorded trace."""

    time_s: float
    """Offset from the start of the trace."""
    input_tokens: int
    output_tokens: int


class _TraceObject(msgspec.Struct):
    time_s: float | None = None
    timestamp: float | None = None
    input_tokens: int | None = None
    input_length: int | None = None
    output_tokens: int | None = None
    output_length: int | None = None


def read_trace(path: Path) -> list[TraceLine]:
    """Requests to replay: JSON lines or CSV of time, input, output; times become offsets from the first.

    JSON fields: `time_s` (or `timestamp` in ms), `input_tokens` or `input_length`, `output_tokens` or `output_length`.
    Raises `UsageError` naming the line that cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}.") from error
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or (number == 1 and line[0] not in "{0123456789"):
            continue
        try:
            found.append(_trace_line(line))
        except (ValueError, TypeError, msgspec.MsgspecError) as error:
            raise UsageError(
                f"{path}:{number}: {line[:60]!r} is no (time, input, output) line. "
                'Write {"time_s": 0.5, "input_tokens": 128, "output_tokens": 32} or 0.5,128,32.'
            ) from error
    if not found:
        raise UsageError(f"{path}: holds no request. Write one (time, input, output) a line.")
    found.sort(key=lambda request: request.time_s)
    first = found[0].time_s
    return [msgspec.structs.replace(request, time_s=request.time_s - first) for request in found]


def _trace_line(line: str) -> TraceLine:
    if not line.lstrip().startswith("{"):
        time, length_in, length_out = line.split(",")[:3]
        return TraceLine(float(time), int(length_in), int(length_out))
    given = msgspec.json.decode(line, type=_TraceObject)
    time_s = given.time_s if given.time_s is not None else (given.timestamp or 0.0) / 1e3
    tokens_in = given.input_tokens if given.input_tokens is not None else given.input_length
    tokens_out = given.output_tokens if given.output_tokens is not None else given.output_length
    if tokens_in is None or tokens_out is None:
        raise ValueError("input or output length is missing")
    return TraceLine(time_s, tokens_in, tokens_out)
