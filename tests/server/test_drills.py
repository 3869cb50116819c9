"""Every way to die, with a real vLLM: right outcome, right message, no process and no port left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import msgspec
import pytest

from campaign.errors import ServerError
from campaign.server import (
    LivenessWatch,
    ServerRecord,
    ServerSpec,
    capture_profile,
    check_alive,
    ensure_ready,
    find,
    is_alive,
    launch,
    phrases,
    probe,
    stop,
    wait_ready,
)
from campaign.server import port as ports
from campaign.server.presence import living_members
from tests.server.records import read_record, write_record

from .conftest import complete, run_once, tiny_spec

pytestmark = [pytest.mark.vllm, pytest.mark.usefixtures("heavy")]


def until(condition: Callable[[], bool], timeout_s: float) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "did not come true in time"
        time.sleep(0.1)


def member(record: ServerRecord, name: str) -> int | None:
    """Pid of the server's process of that title; APIServer is the first process."""
    if name == "APIServer":
        return record.pid
    found = [one.pid for one in living_members(record) if one.name.startswith(f"VLLM::{name}"[:15])]
    return min(found, default=None)


def kill(record: ServerRecord, name: str, number: int = signal.SIGKILL) -> None:
    pid = member(record, name)
    assert pid is not None
    os.kill(pid, number)


def nothing_left(record: ServerRecord, spec: ServerSpec) -> bool:
    return not living_members(record) and ports.is_free(spec.host, spec.port) and find(record)[0] == "gone"


def fails_to_load(spec: ServerSpec, folder: Path) -> tuple[ServerError, ServerRecord]:
    """Start it without retries; the error, and the record as it was while it lived."""
    saved: list[ServerRecord] = []
    with pytest.raises(ServerError) as caught:
        ensure_ready(None, spec, log_path=folder / "server.log", save=saved.append, back_off_s=())
    assert saved[-1].state == "failed"
    alive = next(one for one in saved if one.pid)
    assert nothing_left(alive, spec)
    return caught.value, alive


def test_drill__missing_model(tmp_path: Path) -> None:
    spec = tiny_spec(tmp_path)
    spec = msgspec.structs.replace(spec, argv=tuple(word.replace("models/tiny", "models/none") for word in spec.argv))
    error, _ = fails_to_load(spec, tmp_path)
    assert "models/none" in str(error)
    assert "target.model" in str(error)
    assert not error.is_transient


@pytest.mark.proof
def test_drill__unsupported_architecture(tmp_path: Path) -> None:
    spec = tiny_spec(tmp_path)
    config = tmp_path / "models" / "tiny" / "config.json"
    config.write_text(config.read_text().replace("DeepseekV3ForCausalLM", "NoSuchModelForCausalLM"))
    error, _ = fails_to_load(spec, tmp_path)
    assert "NoSuchModelForCausalLM" in str(error)
    assert "another model" in str(error)
    assert not error.is_transient


@pytest.mark.proof
def test_drill__unknown_word(tmp_path: Path) -> None:
    spec = tiny_spec(tmp_path)
    spec = msgspec.structs.replace(spec, argv=(*spec.argv, "--no-such-word"))
    error, _ = fails_to_load(spec, tmp_path)
    assert "--no-such-word" in str(error)
    assert "server.args" in str(error)


def test_drill__engine_dies_at_its_first_request(tmp_path: Path) -> None:
    spec = tiny_spec(tmp_path, kv_lora_rank=64, qk_rope_head_dim=32)
    error, _ = fails_to_load(spec, tmp_path)
    assert "Head dimension 96 is not supported by MLA" in str(error)
    assert "died after it was up" in str(error)


def test_drill__port_taken_by_another_server(tmp_path: Path) -> None:
    spec = tiny_spec(tmp_path)
    listener = subprocess.Popen(
        [spec.argv[0], "-m", "http.server", str(spec.port), "--bind", "127.0.0.1"], stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: ports.accepts(spec.host, spec.port), 20)
        with pytest.raises(ServerError, match=rf"taken by pid {listener.pid} .*http\.server") as caught:
            launch(spec, tmp_path / "server.log", lambda _record: None)
        assert str(spec.port) in str(caught.value)
        assert listener.poll() is None
    finally:
        listener.terminate()
        listener.wait()


@pytest.mark.proof
@pytest.mark.parametrize("victim", ["APIServer", "EngineCore", "Worker"])
def test_drill__killed_while_loading(victim: str, tmp_path: Path) -> None:
    spec = tiny_spec(tmp_path, tensor_parallel=2)
    record = launch(spec, tmp_path / "server.log", lambda _record: None)
    try:
        until(lambda: member(record, "Worker") is not None, 120)
        kill(record, victim)
        began = time.monotonic()
        with pytest.raises(ServerError) as caught:
            wait_ready(record, spec)
        assert time.monotonic() - began < 45
        assert "died in load phase" in str(caught.value)
    finally:
        stop(record, spec)
    assert nothing_left(record, spec)


@pytest.mark.proof
def test_drill__worker_stopped_while_loading_is_a_stall(tmp_path: Path) -> None:
    spec = tiny_spec(tmp_path, tensor_parallel=2)
    spec = msgspec.structs.replace(spec, stall_limits_s=dict.fromkeys(phrases.LOAD_PHASES, 20.0))
    record = launch(spec, tmp_path / "server.log", lambda _record: None)
    try:
        until(lambda: member(record, "Worker") is not None, 120)
        kill(record, "Worker", signal.SIGSTOP)
        with pytest.raises(ServerError, match=r"done nothing for \d+ s in load phase") as caught:
            wait_ready(record, spec)
        assert caught.value.is_transient
    finally:
        stop(record, spec)
    assert nothing_left(record, spec)


@pytest.mark.proof
@pytest.mark.parametrize("victim", ["APIServer", "EngineCore", "Worker"])
def test_drill__killed_after_ready(victim: str, tmp_path: Path) -> None:
    spec = tiny_spec(tmp_path, tensor_parallel=2)
    record = ensure_ready(None, spec, log_path=tmp_path / "server.log", save=lambda _record: None)
    try:
        kill(record, victim)
        if victim == "APIServer":
            until(lambda: not is_alive(record), 10)
            time.sleep(2)
            assert find(record)[0] in ("orphans", "gone")
        with pytest.raises(ServerError, match=r"died after it was up|hangs|is gone"):
            check_alive(record)
    finally:
        stop(record, spec)
    assert nothing_left(record, spec)


@pytest.mark.proof
def test_drill__runner_killed_while_loading_then_again_when_ready(drill: Path) -> None:
    spec = tiny_spec(drill, tensor_parallel=2)
    (drill / "spec.json").write_bytes(msgspec.json.encode(spec))
    assert run_once(drill, "before-pid") == -9
    for pause_s in (5.0, 9.0, 12.0):
        assert run_once(drill, kill_after_s=pause_s) == -9
    assert run_once(drill) == 0
    record = read_record(drill / "server.json")
    assert record is not None
    assert run_once(drill) == 0  # ready already: adopted, not started
    again = read_record(drill / "server.json")
    assert again is not None
    assert (again.pid, again.start_ticks, again.token) == (record.pid, record.start_ticks, record.token)
    assert (drill / "server.log").read_text().count("non-default args:") == 1
    stop(again)
    assert nothing_left(record, spec)


@pytest.fixture()
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 192 MiB."""
    folder = tmp_path / "profile"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=192m", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def hang_found_within_a_minute(record: ServerRecord) -> str:
    with LivenessWatch(record) as watch:
        until(lambda: watch.error is not None, 60)
    return str(watch.error)


@contextlib.contextmanager
def under_load(record: ServerRecord) -> Iterator[None]:
    """A stream of requests that keeps the engine busy."""
    is_over = threading.Event()

    def load() -> None:
        while not is_over.is_set():
            complete(record, 400)

    thread = threading.Thread(target=load)
    thread.start()
    until(lambda: (probe.counters(record) or {}).get("vllm:num_requests_running", 0) > 0, 30)
    yield
    is_over.set()
    thread.join()


@pytest.mark.proof
def test_drill__profiles(small_disk: Path, drill: Path) -> None:
    """One server: a whole profile, a runner killed in one, the disk full, a worker stopped, a worker killed."""
    spec = tiny_spec(drill, tensor_parallel=2, profile=True)
    (drill / "spec.json").write_bytes(msgspec.json.encode(spec))
    record = ensure_ready(None, spec, log_path=drill / "server.log", save=lambda one: save(drill, one))
    first = capture_profile(record, spec, lambda: complete(record))
    assert [path.name.split(".")[0] for path in first] == ["dp0_pp0_tp0_dcp0_ep0_rank0", "dp0_pp0_tp1_dcp0_ep1_rank1"]

    assert run_once(drill, "profiling") == -9
    second = capture_profile(record, spec, lambda: complete(record))
    assert len(second) == 2
    assert not set(first) & set(second)

    ballast = small_disk / "ballast"

    def fill_the_disk() -> None:
        complete(record)
        with pytest.raises(OSError, match="No space left"), ballast.open("wb", buffering=0) as out:
            while True:
                out.write(bytes(1 << 16))

    with pytest.raises(ServerError, match=r"0 of 2 ranks.*disk of .* is full"):
        capture_profile(record, spec, fill_the_disk)
    with pytest.raises(ServerError, match=r"MiB free; 128 MiB are wanted"):
        capture_profile(record, spec, lambda: complete(record))
    ballast.unlink()
    check_alive(record)
    assert len(capture_profile(record, spec, lambda: complete(record))) == 2

    kill(record, "Worker", signal.SIGSTOP)
    assert httpx.get(f"{record.url}/health", trust_env=False).status_code == 200
    assert "hangs: no completion within 45 s" in hang_found_within_a_minute(record)
    kill(record, "Worker", signal.SIGCONT)
    check_alive(record)

    with under_load(record):
        check_alive(record)  # counters move: no request of its own
        kill(record, "Worker", signal.SIGSTOP)
        assert "token counters have not moved for 45 s" in hang_found_within_a_minute(record)
        kill(record, "Worker", signal.SIGCONT)

    def kill_a_worker() -> None:
        complete(record)
        kill(record, "Worker")

    with pytest.raises(ServerError, match=r"[01] of 2 ranks.*died after it was up"):
        capture_profile(record, spec, kill_a_worker)
    stop(record, spec)
    assert nothing_left(record, spec)


def save(folder: Path, record: ServerRecord) -> None:
    write_record(folder / "server.json", record)


@pytest.mark.proof
def test_drill__stopped_with_a_hung_worker(tmp_path: Path) -> None:
    spec = tiny_spec(tmp_path, tensor_parallel=2)
    record = ensure_ready(None, spec, log_path=tmp_path / "server.log", save=lambda _record: None)
    kill(record, "Worker", signal.SIGSTOP)
    stop(record, spec)
    assert nothing_left(record, spec)
