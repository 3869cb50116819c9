"""`status` as a person meets it: how long it takes is printed, not judged on a shared machine."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.reliability.drill import ROOT, Runners


def cpu_s() -> float:
    """Processor time of all children so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_status__time_and_content(runners: Runners, campaign_folder: Path) -> None:
    assert runners.resume(campaign_folder).code == 0
    command = [sys.executable, "-m", "campaign", "--dir", str(campaign_folder), "status", "--json"]
    took_ms = []
    before_s = cpu_s()
    for _ in range(20):
        begun = time.perf_counter()
        shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        took_ms.append((time.perf_counter() - begun) * 1e3)
    seen = json.loads(shown.stdout)
    assert {phase["status"] for phase in seen["phases"]} == {"done"}
    assert seen["runner"] is None
    least, median, cpu_ms = min(took_ms), statistics.median(took_ms), (cpu_s() - before_s) / 20 * 1e3
    load = os.getloadavg()[0]
    print(f"status --json: least {least:.0f} ms, median of 20 {median:.0f} ms, CPU {cpu_ms:.0f} ms; load {load:.0f}")
