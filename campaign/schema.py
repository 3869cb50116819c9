"""Typed structs that cross modules: quantities, findings, the envelope of a result; strict decoding and hashes."""

from __future__ import annotations

import hashlib
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


class Source(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a number came from."""

    phase: str
    """Id of the phase whose result holds it."""
    attempt: int | None = None
    """Attempt that measured it."""
    pointer: str = ""
    """JSON pointer into the result's data."""
    origin: str = "measured"
    """measured, computed, imported, or noted (known only from notes)."""


class Quantity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A named number with its unit, its interval and where it came from."""

    name: str
    """Dotted name, e.g. `profile.exposed_ms.allreduce`; unique in a campaign."""
    value: float | None
    """The value; null when it could not be measured."""
    unit: str
    """Unit as it is printed: ms, us, tok/s, GB/s, 1 (a fraction or a count)."""
    low: float | None = None
    """Lower end of the interval that noise and unclassified time leave open."""
    high: float | None = None
    """Upper end of that interval."""
    source: Source | None = None
    """The result it rests on."""
    note: str = ""
    """A caveat to print where the number stands."""


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One claim computed from results, with the numbers it rests on."""

    id: str
    """Stable id, e.g. `bottleneck`, `law.collective_calls`."""
    text: str
    """The claim as a plain sentence with its numbers."""
    severity: str = "info"
    """info, notice (a person should look) or broken (a law does not hold)."""
    quantities: tuple[Quantity, ...] = ()
    """The numbers in the claim."""


class Host(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a measurement ran."""

    hostname: str = ""
    platform: str = ""
    cpu: str = ""
    cpu_count: int = 0
    device: str = "cpu"
    """The device measured: a GPU's name or `cpu`."""
    driver: str = ""


class ImportedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file from elsewhere that a result was read from."""

    path: str
    """Relative to the campaign folder where it lies inside."""
    hash: str
    """Of its bytes."""
    size_bytes: int
    format: str
    """Name of the importer that read it."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a measurement wrote: envelope plus the kind's own data; never changed afterwards."""

    schema: str = "campaign-result"
    schema_version: int = 1
    kind: str
    script_version: int
    """Declared by the script; raised when a change of the script changes what it measures."""
    command: tuple[str, ...]
    """The one command that repeats it, relative to the campaign folder."""
    started_at: str
    """UTC, ISO 8601."""
    finished_at: str
    duration_s: float
    """Measuring time, summed over the attempts whose points are in it."""
    attempt: int = 1
    host: Host = Host()
    versions: dict[str, str] = {}
    config: msgspec.Raw = msgspec.Raw(b"{}")
    """Parameters exactly as the script was given them."""
    data: msgspec.Raw = msgspec.Raw(b"{}")
    """The kind's own result struct with raw samples."""
    notes: tuple[str, ...] = ()
    origin: str = "measured"
    """measured here, imported (measured elsewhere), or noted (known only from notes)."""
    imported: tuple[ImportedFile, ...] = ()
    """The files it was read from; empty where it was measured here."""


def encode(value: object) -> bytes:
    """Canonical JSON: sorted keys, no spaces, UTF-8; equal values give equal bytes on any machine."""
    return msgspec.json.encode(value, order="sorted")


def encode_pretty(value: object) -> bytes:
    """The same with two-space indents and a final newline, for files that people read."""
    return pretty(encode(value))


def pretty(data: bytes) -> bytes:
    """Canonical JSON with two-space indents and a final newline."""
    return msgspec.json.format(data, indent=2) + b"\n"


def decode(data: bytes, kind: type[T]) -> T:
    """Strictly decode JSON bytes into `kind`; raises `msgspec.ValidationError` or `msgspec.DecodeError`."""
    return msgspec.json.decode(data, type=kind)


def content_hash(value: object) -> str:
    """Short sha256 (16 hex digits) of the canonical encoding of `value` (bytes are hashed as they are)."""
    data = value if isinstance(value, bytes) else encode(value)
    return hashlib.sha256(data).hexdigest()[:16]


def builtins(value: object) -> Any:
    """Structs as plain dicts and lists, for templates and JSON output."""
    return msgspec.to_builtins(value)
