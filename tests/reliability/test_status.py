"""`status` as a person meets it: how long it takes is printed, not judged on a shared machine."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.reliability.drill import ROOT, Runners


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_status__time_and_content(runners: Runners, campaign_folder: Path) -> None:
    assert runners.resume(campaign_folder).code == 0
    command = [sys.executable, "-m", "campaign", "--dir", str(campaign_folder), "status", "--json"]
    took_ms = []
    for _ in range(20):
        begun = time.perf_counter()
        shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        took_ms.append((time.perf_counter() - begun) * 1e3)
    seen = json.loads(shown.stdout)
    assert {phase["status"] for phase in seen["phases"]} == {"done"}
    assert seen["runner"] is None
    print(f"status --json: {statistics.median(took_ms):.0f} ms (median of 20, least {min(took_ms):.0f} ms)")
