"""Long proofs that go on where they were interrupted: `pytest -m proof --resume-proof`.

What passed is kept in build/proof.jsonl with what it printed and a hash of the code it ran on. On the same code it
is left out the next time and its figures are printed again; any change of the code makes all of it run anew.
"""

from __future__ import annotations

import hashlib
import io
import json
import signal
import sys
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import TextIO

import pytest

ROOT = Path(__file__).resolve().parents[1]
#: What a proof's outcome depends on.
CODE = ("campaign", "templates", "tests", "pyproject.toml", "constraints-cpu.txt")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--resume-proof`, and where it is kept."""
    parser.addoption("--resume-proof", action="store_true", help="leave out proofs that passed on this very code")
    parser.addoption("--proof-record", default="build/proof.jsonl", help="where passed proofs are kept")


def pytest_configure(config: pytest.Config) -> None:
    """Keep a record only where it was asked for; SIGINT reaches what the tests start.

    A suite in the background of a script begins with SIGINT ignored, and so would every process it starts.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--resume-proof"):
        path = config.rootpath / str(config.getoption("--proof-record"))
        config.pluginmanager.register(ProofRecord(path, code_hash(config.rootpath)), "proof-record")


def code_hash(root: Path) -> str:
    """Hash of every file that a proof's outcome depends on, by its path and content."""
    total = hashlib.sha256()
    for name in CODE:
        place = root / name
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.is_file() and "__pycache__" not in path.parts and ".hypothesis" not in path.parts:
                total.update(f"{path.relative_to(root)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()[:16]


class _Tee(io.TextIOBase):
    """Standard output that is kept as well."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.kept: list[str] = []

    def write(self, text: str) -> int:
        self.kept.append(text)
        return self._out.write(text)

    def flush(self) -> None:
        self._out.flush()


class ProofRecord:
    """Passed proofs of this code, kept one a line as soon as each has passed."""

    def __init__(self, path: Path, code: str) -> None:
        self._path = path
        self._code = code
        self._said: dict[str, str] = {}
        """Test → what it printed."""
        self._is_anything_left_out = False

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what has passed, after -m and -k have chosen."""
        passed = {entry["test"]: entry["said"] for entry in self._entries() if entry["code"] == self._code}
        left_out = [item for item in items if item.nodeid in passed]
        items[:] = [item for item in items if item.nodeid not in passed]
        config.hook.pytest_deselected(items=left_out)
        self._is_anything_left_out = bool(left_out)
        if left_out:
            print(
                f"\n{len(left_out)} proofs passed earlier on this code ({self._code}, {self._path}) and are left out:"
            )
        for item in left_out:
            print(f"{item.nodeid}\n{passed[item.nodeid].strip()}".rstrip())

    def _entries(self) -> Iterable[dict[str, str]]:
        for line in self._path.read_text().splitlines() if self._path.exists() else ():
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                continue  # torn by an interruption

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Keep what a test prints (with -s; otherwise pytest itself takes it)."""
        out = sys.stdout
        tee = _Tee(out)
        sys.stdout = tee
        try:
            return (yield)
        finally:
            sys.stdout = out
            self._said[item.nodeid] = "".join(tee.kept)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write down a test that passed."""
        if report.when == "call" and report.passed:
            entry = {"code": self._code, "test": report.nodeid, "said": self._said.get(report.nodeid, "")}
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as out:
                out.write("\n" + json.dumps(entry, ensure_ascii=False))  # ends a torn line first

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Nothing left to prove is no failure."""
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self._is_anything_left_out:
            session.exitstatus = pytest.ExitCode.OK
