"""Waits, with a stand-in whose clock runs fast: killed runners, stalls, deadlines, ETAs."""

from __future__ import annotations

import gzip
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import msgspec
import pytest

from campaign.errors import InterruptedRun, ServerError
from campaign.server import (
    LivenessWatch,
    LoadProgress,
    PastLoad,
    ServerRecord,
    ServerSpec,
    check_alive,
    ensure_ready,
    find,
    launch,
    past_load,
    probe,
    stop,
    wait_ready,
)
from campaign.server.liveness import WorkCheck
from campaign.server.loads import eta_s
from tests.server.records import read_record

from .conftest import free_port, run_once

LOG = Path(__file__).parent.parent / "data" / "server-logs" / "h200x2-qwen3-30b-a3b-tp2-custom.log.gz"


def standin_spec(folder: Path, seconds: float, *more: str, **fields: object) -> ServerSpec:
    replayed = folder / "replayed.log"
    replayed.write_bytes(gzip.decompress(LOG.read_bytes()))
    script = str(Path(__file__).with_name("standin.py"))
    words = (sys.executable, script, str(replayed), "{port}", "{served_name}", str(seconds), str(folder / "starts"))
    spec = ServerSpec(argv=(*words, *more), cwd=str(folder), port=free_port(), ready_timeout_s=120.0)
    return msgspec.structs.replace(spec, **fields)


def starts(folder: Path) -> list[str]:
    return (folder / "starts").read_text().split()


def test_wait__twenty_killed_runners_one_load(drill: Path) -> None:
    seed = time.time_ns() % 10**6
    chance = random.Random(seed)
    (drill / "spec.json").write_bytes(msgspec.json.encode(standin_spec(drill, 16.0)))
    codes = [run_once(drill, kill_after_s=chance.uniform(0.1, 1.4)) for _ in range(20)]
    assert run_once(drill) == 0, f"seed {seed}"
    record = read_record(drill / "server.json")
    assert record is not None
    assert record.state == "ready"
    assert starts(drill) == [str(record.pid)], f"seed {seed}"
    assert record.ready_s is not None
    assert record.ready_s >= 16.0  # counted from the server's start, not the last runner's
    assert codes.count(-9) >= 10


def test_wait__killed_before_the_pid_was_saved(drill: Path) -> None:
    (drill / "spec.json").write_bytes(msgspec.json.encode(standin_spec(drill, 2.0)))
    assert run_once(drill, "before-pid") == -9
    intent = read_record(drill / "server.json")
    assert intent is not None
    assert (intent.state, intent.pid) == ("starting", None)
    assert run_once(drill) == 0
    record = read_record(drill / "server.json")
    assert record is not None
    assert (record.token, starts(drill)) == (intent.token, [str(record.pid)])


def test_wait__killed_before_anything_ran(drill: Path) -> None:
    (drill / "spec.json").write_bytes(msgspec.json.encode(standin_spec(drill, 1.0)))
    assert run_once(drill, "after-intent") == -9
    assert not (drill / "starts").exists()
    assert run_once(drill) == 0
    assert len(starts(drill)) == 1


def start(spec: ServerSpec, folder: Path) -> ServerRecord:
    return launch(spec, folder / "server.log", lambda _record: None)


def test_wait__stall_is_judged_by_its_load_phase(tmp_path: Path) -> None:
    spec = standin_spec(tmp_path, 1.0, "--hang-at", "Starting to load model", stall_limits_s={"weights": 2.0})
    record = start(spec, tmp_path)
    try:
        with pytest.raises(ServerError, match=r"nothing for . s in load phase weights") as caught:
            wait_ready(record, spec)
        assert caught.value.is_transient
    finally:
        stop(record)


def test_wait__deadline_counts_from_the_start(tmp_path: Path) -> None:
    spec = standin_spec(tmp_path, 60.0, ready_timeout_s=3.0)
    record = start(spec, tmp_path)
    try:
        time.sleep(2.0)
        began = time.monotonic()
        with pytest.raises(ServerError, match="not ready"):
            wait_ready(record, spec)
        assert time.monotonic() - began < 2.0
    finally:
        stop(record)


def test_wait__interrupted_leaves_the_server_loading(tmp_path: Path) -> None:
    spec = standin_spec(tmp_path, 60.0)
    record = start(spec, tmp_path)
    try:
        with pytest.raises(InterruptedRun):
            wait_ready(record, spec, should_stop=lambda: True)
        assert find(record)[0] == "loading"
    finally:
        assert stop(record).state == "stopped"
    assert find(record)[0] == "gone"


def test_wait__progress_and_eta_of_a_second_load(tmp_path: Path) -> None:
    spec = standin_spec(tmp_path, 3.0)
    seen: list[LoadProgress] = []
    record = start(spec, tmp_path)
    try:
        record = wait_ready(record, spec, seen.append)
    finally:
        stop(record)
    load = past_load(record)
    assert load is not None
    assert seen[-1].load_phase == "answering"
    assert any(one.load_phase == "graphs" and one.progress is not None for one in seen)
    record = start(spec, tmp_path)
    seen.clear()
    try:
        wait_ready(record, spec, seen.append, earlier=[load])
    finally:
        stop(record)
    assert all(one.eta_s is not None for one in seen)


def test_eta__later_phases_whole_and_this_one_less_what_is_behind() -> None:
    past = PastLoad(spec_hash="a", phase_s={"starting": 10.0, "weights": 100.0, "graphs": 30.0}, ready_s=150.0)
    assert eta_s([past], "a", "weights", 50.0, 40.0) == 60.0 + 30.0 + 10.0
    assert eta_s([past], "a", "weights", 500.0, 490.0) == 30.0 + 10.0
    assert eta_s([past], "a", "compile", 110.0, 0.0) == 40.0
    assert eta_s([past], "b", "weights", 50.0, 40.0) is None


def test_wait__passing_failure_is_tried_again(tmp_path: Path) -> None:
    """The first start dies of a left-over process's GPU memory, the second one loads."""
    spec = standin_spec(tmp_path, 0.5)
    died = "ValueError: Free memory on device (10/140 GiB) on startup is less than desired GPU memory utilization"
    once = f'test -e died || {{ touch died; echo "(EngineCore pid=1) {died}"; exit 1; }}; exec "$@"'
    spec = msgspec.structs.replace(spec, argv=("/bin/sh", "-c", once, "sh", *spec.argv))
    saved: list[ServerRecord] = []
    record = ensure_ready(None, spec, log_path=tmp_path / "server.log", save=saved.append, back_off_s=(0.2,))
    try:
        assert record.state == "ready"
        failed = [one for one in saved if one.state == "failed"]
        assert len(failed) == 1
        assert "less than desired GPU memory utilization" in failed[0].failure
    finally:
        stop(record)


def quick_check(record: ServerRecord) -> None:
    check_alive(record, timeout_s=1.0)


def test_watch__finds_a_server_that_stops_answering(tmp_path: Path) -> None:
    spec = standin_spec(tmp_path, 0.3)
    record = start(spec, tmp_path)
    try:
        record = wait_ready(record, spec)
        assert record.pid is not None
        with LivenessWatch(record, interval_s=0.1, check=quick_check) as watch:
            time.sleep(1.0)
            assert watch.error is None
            os.kill(record.pid, signal.SIGSTOP)
            wait_for(lambda: watch.error is not None, 15.0)
        assert "hangs: no completion within 1 s" in str(watch.error)
        os.kill(record.pid, signal.SIGCONT)
        check_alive(record, timeout_s=10.0)
        os.kill(record.pid, signal.SIGKILL)
        with LivenessWatch(record, interval_s=0.1, check=quick_check) as watch:
            wait_for(lambda: watch.error is not None, 5.0)
        assert "died after it was up (signal 9)" in str(watch.error)
    finally:
        stop(record)


def test_watch__does_not_disturb_a_server_at_work(tmp_path: Path) -> None:
    """While tokens are counted nothing is asked of it; idle, it is."""
    spec = standin_spec(tmp_path, 0.3)
    record = wait_ready(start(spec, tmp_path), spec)
    try:
        check = WorkCheck()
        check(record)
        before = tokens(record)
        for sent in range(1, 4):
            httpx.post(f"{record.url}/v1/completions", json={}, timeout=30).raise_for_status()
            check(record)
            assert tokens(record) == before + sent
        check(record)
        assert tokens(record) == before + 4
    finally:
        stop(record)


def tokens(record: ServerRecord) -> float:
    found = probe.counters(record)
    assert found is not None
    return found["vllm:generation_tokens_total"]


def wait_for(condition: Callable[[], bool], timeout_s: float) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "did not come true in time"
        time.sleep(0.05)
