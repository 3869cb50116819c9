"""What every measurement script shares: its command line, durable points, progress and the result file.

A script runs in its own process: `python -m campaign.measure.KIND --config IN.json --out OUT.json`.
Each finished point is one line of `OUT.points.jsonl`, on disk before the next point begins, so a killed
script continues where it was. The runner reads the same file for progress; nothing else connects the two.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from campaign import __version__, files, schema
from campaign.errors import CampaignError, ConfigError

ConfigT = TypeVar("ConfigT", bound=msgspec.Struct)


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One finished point of a phase: one shape, one message size, one cell."""

    key: str
    """Names the point within its phase; the same key is never measured twice for one set of parameters."""
    config_hash: str
    """Hash of the parameters it was measured under."""
    started_at: str
    duration_s: float
    data: msgspec.Raw


def points_path(out: Path) -> Path:
    """Where the points of the result file `out` are kept."""
    return out.with_name(out.stem + ".points.jsonl")


def now_utc() -> str:
    """The current time, UTC, ISO 8601 with seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def read_points(path: Path) -> list[Point]:
    """Every whole line of a points file; a line torn by a crash is left out."""
    points: list[Point] = []
    for line in files.read_whole_lines(path):
        try:
            points.append(msgspec.json.decode(line, type=Point))
        except (msgspec.ValidationError, msgspec.DecodeError):
            continue
    return points


def parameters_hash(config: msgspec.Struct) -> str:
    """Hash of what a measurement depends on: its config without `server`, which changes at each restart."""
    fields = schema.builtins(config)
    fields.pop("server", None)
    return schema.content_hash(fields)


class Measurement(Generic[ConfigT]):
    """One run of a script: its parameters, the points done so far, and the way to write more."""

    def __init__(self, kind: str, script_version: int, config_type: type[ConfigT], argv: Sequence[str]) -> None:
        parser = argparse.ArgumentParser(prog=f"python -m campaign.measure.{kind}")
        parser.add_argument("--config", type=Path, required=True, help="parameters, JSON")
        parser.add_argument("--out", type=Path, required=True, help="result file to write, JSON")
        given = parser.parse_args(list(argv))
        self.kind = kind
        self.script_version = script_version
        self.out: Path = given.out
        self.config_path: Path = given.config
        try:
            raw = self.config_path.read_bytes()
            self.config: ConfigT = msgspec.json.decode(raw, type=config_type)
        except OSError as error:
            raise ConfigError(f"{self.config_path}: cannot be read: {error.strerror}.") from error
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            raise ConfigError(
                f"{self.config_path}: {error}. It must hold a {kind} measurement's parameters."
            ) from error
        self.config_hash = parameters_hash(self.config)
        self.started_at = now_utc()
        self._points_path = points_path(self.out)
        known = (p for p in read_points(self._points_path) if p.config_hash == self.config_hash)
        self._points: dict[str, Point] = {p.key: p for p in known}

    def measure_point(self, key: str, measure: Callable[[], object]) -> None:
        """Run `measure` and keep what it returns, unless the point `key` is done already."""
        if key in self._points:
            return
        started_at, start = now_utc(), time.monotonic()
        self.say(f"{key} …")
        data = measure()
        self.keep_point(key, data, started_at=started_at, duration_s=time.monotonic() - start)

    def keep_point(self, key: str, data: object, *, started_at: str, duration_s: float) -> None:
        """Append one finished point and see it on disk."""
        point = Point(
            key=key,
            config_hash=self.config_hash,
            started_at=started_at,
            duration_s=duration_s,
            data=msgspec.Raw(schema.encode(data)),
        )
        files.append_line(self._points_path, schema.encode(point))
        self._points[key] = point

    def is_done(self, key: str) -> bool:
        """Whether the point `key` is on disk for these parameters."""
        return key in self._points

    def points(self) -> list[Point]:
        """Every point done, in the order of measurement."""
        return list(self._points.values())

    def say(self, text: str) -> None:
        """One line of progress on standard error, which the runner keeps as the attempt's log."""
        sys.stderr.write(f"{now_utc()} {self.kind}: {text}\n")
        sys.stderr.flush()

    def write(self, data: object, *, host: schema.Host, versions: dict[str, str], notes: Sequence[str] = ()) -> None:
        """Write the result file, whole or not at all."""
        result = schema.Result(
            kind=self.kind,
            script_version=self.script_version,
            command=(
                *("python", "-m", f"campaign.measure.{self.kind}"),
                *("--config", str(self.config_path), "--out", str(self.out)),
            ),
            started_at=self.started_at,
            finished_at=now_utc(),
            duration_s=sum(p.duration_s for p in self._points.values()),
            attempt=int(os.environ.get("CAMPAIGN_ATTEMPT", "1")),
            host=host,
            versions={"campaign": __version__, **versions},
            config=msgspec.Raw(schema.encode(self.config)),
            data=msgspec.Raw(schema.encode(data)),
            notes=tuple(notes),
        )
        files.write_atomic(self.out, schema.encode_pretty(result))


def run_script(main: Callable[[Sequence[str]], None]) -> None:
    """The top of every script: what went wrong in one line on standard error, and an exit code."""
    try:
        main(sys.argv[1:])
    except CampaignError as error:
        sys.stderr.write(f"error: {error}\n")
        raise SystemExit(error.exit_code) from error
