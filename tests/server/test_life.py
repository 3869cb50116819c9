"""A real vLLM from start to stop."""

from __future__ import annotations

from pathlib import Path

import pytest

from campaign.server import (
    LoadProgress,
    ServerRecord,
    capture_profile,
    check_alive,
    find,
    launch,
    past_load,
    stop,
    trace_files,
    wait_ready,
)
from campaign.server import port as ports
from campaign.server.presence import living_members

from .conftest import complete, tiny_spec


@pytest.mark.vllm
@pytest.mark.usefixtures("heavy")
def test_life__tp2_start_wait_use_stop(tmp_path: Path) -> None:
    spec = tiny_spec(tmp_path, tensor_parallel=2, profile=True)
    saved: list[ServerRecord] = []
    seen: list[LoadProgress] = []
    record = launch(spec, tmp_path / "server.log", saved.append)
    try:
        assert [one.pid for one in saved] == [None, record.pid]
        record = wait_ready(record, spec, seen.append)
        assert record.state == "ready"
        assert find(record)[0] == "ready"
        check_alive(record)
        steps: list[str] = []
        traces = capture_profile(record, spec, lambda: complete(record), lambda one: steps.append(one.step))
        assert [trace_files.rank(path) for path in traces] == [0, 1]
        assert list(dict.fromkeys(steps)) == ["settling", "warming up", "starting", "driving", "exporting", "checking"]
        phases = list(dict.fromkeys(one.load_phase for one in seen))
        assert phases[0] == "starting"
        assert {"configuring", "engine", "answering"} <= set(phases)
        members = living_members(record)
        assert len(members) >= 4  # API server, engine, two workers
        load = past_load(record)
        assert load is not None
        assert sum(load.phase_s.values()) <= load.ready_s + 1
    finally:
        record = stop(record, spec)
    assert record.state == "stopped"
    assert not [one for one in members if living_members(saved[-1])]
    assert ports.is_free(spec.host, spec.port)
    assert find(saved[-1])[0] == "gone"
