"""A server that stops answering while it is measured: found within a minute and a quarter, and in nobody's way."""

from __future__ import annotations

import shutil
import signal
import time
from pathlib import Path

import pytest

from tests.reliability.drill import Run, Runners, wait_until
from tests.reliability.stretches import Stretches


def begin_macro(runners: Runners, stretches: Stretches, tmp_path: Path) -> Run:
    """A runner in the middle of a macro cell of some seconds."""
    folder = Path(shutil.copytree(stretches.named("macro").folder, tmp_path / "campaign")).resolve()
    config = folder / "campaign.toml"
    config.write_text(config.read_text().replace("output_tokens = 4", "output_tokens = 50000"))
    run = runners.begin(folder, until="macro")
    wait_until(lambda: "macro: 0 of 2" in run.said() or not run.is_alive())
    return run


@pytest.mark.proof
def test_hang__is_found_and_said(runners: Runners, stretches: Stretches, tmp_path: Path) -> None:
    run = begin_macro(runners, stretches, tmp_path)
    begun = time.monotonic()
    stretches.server.send(signal.SIGSTOP)
    try:
        wait_until(lambda: "attempt 2 of 3" in run.said() or not run.is_alive(), timeout_s=120)
        took_s = time.monotonic() - begun
        run.send(signal.SIGINT)
        ended = run.wait()
    finally:
        stretches.server.send(signal.SIGCONT)
    assert ended.code == 130, ended.output
    assert "hangs: " in ended.output
    print(f"a server that hangs while it is measured: said after {took_s:.0f} s")
    assert took_s < 90


@pytest.mark.proof
def test_hang__ctrl_c_does_not_wait_for_the_server(runners: Runners, stretches: Stretches, tmp_path: Path) -> None:
    run = begin_macro(runners, stretches, tmp_path)
    stretches.server.send(signal.SIGSTOP)
    try:
        time.sleep(20)  # by now the server is being asked whether it works
        begun = time.monotonic()
        run.send(signal.SIGINT)
        ended = run.wait()
        took_s = time.monotonic() - begun
    finally:
        stretches.server.send(signal.SIGCONT)
    assert ended.code == 130, ended.output
    print(f"Ctrl-C while the server is asked whether it works: ended after {took_s:.1f} s")
    assert took_s < 12
