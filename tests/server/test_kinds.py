"""Servers that are not simply ours: attached ones, and those behind a person's own launcher."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from campaign.errors import ConfigError, ServerError
from campaign.server import (
    ServerRecord,
    attached_spec,
    command_spec,
    ensure_ready,
    find,
    launch,
    satisfies,
    stop,
    vllm_spec,
    wait_ready,
)
from campaign.server import port as ports
from campaign.server.presence import is_alive, living_members

from .conftest import free_port

STANDIN = str(Path(__file__).with_name("standin.py"))


def ready_line(folder: Path) -> str:
    log = folder / "one-line.log"
    log.write_text("INFO:     Application startup complete.\n")
    return str(log)


@pytest.fixture()
def somebodys_server(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    port = free_port()
    words = [sys.executable, STANDIN, ready_line(tmp_path), str(port), "theirs", "0", str(tmp_path / "starts")]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as child:
        yield child, port
        child.terminate()


def test_attached__used_and_never_stopped(
    somebodys_server: tuple[subprocess.Popen[bytes], int], tmp_path: Path
) -> None:
    child, port = somebodys_server
    spec = attached_spec(f"http://127.0.0.1:{port}/v1/")
    record = ensure_ready(None, spec, log_path=tmp_path / "log", save=lambda _record: None)
    assert (record.state, record.served_name, record.pid) == ("ready", "theirs", None)
    assert not record.has_profiler
    assert living_members(record) == []
    assert stop(record, spec).state == "stopped"
    assert child.poll() is None
    assert ports.accepts("127.0.0.1", port)


def test_attached__wrong_name_is_refused_by_name(
    somebodys_server: tuple[subprocess.Popen[bytes], int], tmp_path: Path
) -> None:
    _, port = somebodys_server
    spec = attached_spec(f"http://127.0.0.1:{port}", served_name="mine")
    record = launch(spec, tmp_path / "log", lambda _record: None)
    until_open(port)
    with pytest.raises(ServerError, match="answers as theirs, not as mine"):
        wait_ready(record, spec)


def test_attached__nobody_there(tmp_path: Path) -> None:
    port = free_port()
    spec = msgspec.structs.replace(attached_spec(f"http://127.0.0.1:{port}"), ready_timeout_s=1.0)
    with pytest.raises(ServerError, match=f"No OpenAI server answers at http://127.0.0.1:{port}"):
        ensure_ready(None, spec, log_path=tmp_path / "log", save=lambda _record: None)


def test_attached__no_openai_server(tmp_path: Path) -> None:
    """A plain web server (or a tunnel whose end is not up yet) is waited for, then told."""
    port = free_port()
    words = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL, cwd=tmp_path) as child:
        try:
            until_open(port)
            spec = msgspec.structs.replace(attached_spec(f"http://127.0.0.1:{port}"), ready_timeout_s=1.0)
            with pytest.raises(ServerError, match="No OpenAI server answers"):
                ensure_ready(None, spec, log_path=tmp_path / "log", save=lambda _record: None)
            assert child.poll() is None
        finally:
            child.terminate()


def test_attached__api_key_from_the_named_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    words = [sys.executable, STANDIN, ready_line(tmp_path), str(port), "locked", "0", str(tmp_path / "starts")]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, env=os.environ | {"STANDIN_KEY": "s3cret"}) as child:
        try:
            until_open(port)
            spec = attached_spec(f"http://127.0.0.1:{port}", api_key_env="MY_KEY")
            with pytest.raises(ServerError, match="wants an API key"):
                ensure_ready(None, spec, log_path=tmp_path / "log", save=lambda _record: None)
            monkeypatch.setenv("MY_KEY", "s3cret")
            record = ensure_ready(None, spec, log_path=tmp_path / "log", save=lambda _record: None)
            assert record.state == "ready"
            assert b"s3cret" not in msgspec.json.encode(record)
        finally:
            child.terminate()


def until_open(port: int) -> None:
    end = time.monotonic() + 10
    while not ports.accepts("127.0.0.1", port):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_managed__another_server_on_the_port_is_refused_by_name(
    somebodys_server: tuple[subprocess.Popen[bytes], int], tmp_path: Path
) -> None:
    child, port = somebodys_server
    until_open(port)
    spec = vllm_spec("m", port=port, campaign_dir=tmp_path)
    with pytest.raises(ServerError, match=rf"taken by pid {child.pid} .*serving theirs"):
        launch(spec, tmp_path / "log", lambda _record: None)
    assert child.poll() is None


def launcher_words(folder: Path, port: int) -> list[str]:
    return [sys.executable, STANDIN, ready_line(folder), str(port), "job", "0", str(folder / "starts")]


def test_command__launcher_that_stays(tmp_path: Path) -> None:
    port = free_port()
    spec = command_spec(
        launcher_words(tmp_path, port),
        stop_command=["touch", str(tmp_path / "stopped-{port}")],
        url=f"http://127.0.0.1:{port}",
        campaign_dir=tmp_path,
    )
    record = ensure_ready(None, spec, log_path=tmp_path / "server.log", save=lambda _record: None)
    assert (record.state, record.served_name) == ("ready", "job")
    assert is_alive(record)
    assert stop(record, spec).state == "stopped"
    assert (tmp_path / f"stopped-{port}").exists()
    assert ports.is_free("127.0.0.1", port)
    assert find(record)[0] == "gone"


def test_command__launcher_that_submits_and_ends(tmp_path: Path) -> None:
    """Like sbatch or `docker run -d`: the command ends well, its server appears elsewhere, later."""
    port = free_port()
    pid_file = tmp_path / "job.pid"
    submit = f'setsid sh -c \'sleep 1; exec "$@"\' sh "$@" >/dev/null 2>&1 & echo $! > {pid_file}'
    spec = command_spec(
        ["/bin/sh", "-c", submit, "sh", *launcher_words(tmp_path, port)],
        stop_command=["/bin/sh", "-c", f"kill $(cat {pid_file})"],
        url=f"http://127.0.0.1:{port}",
        campaign_dir=tmp_path,
        ready_timeout_s=30.0,
    )
    record = ensure_ready(None, spec, log_path=tmp_path / "server.log", save=lambda _record: None)
    assert record.state == "ready"
    assert not is_alive(record)
    assert find(record)[0] == "ready"
    stop(record, spec)
    assert not ports.accepts("127.0.0.1", port)


def test_command__stop_command_that_does_not_stop_is_told(tmp_path: Path) -> None:
    port = free_port()
    record = ServerRecord(
        state="ready", kind="command", url=f"http://127.0.0.1:{port}", port=port, stop_command=("false",),
        log_path=str(tmp_path / "log"),
    )  # fmt: skip
    with pytest.raises(ServerError, match=r"server\.stop_command ended with 1"):
        stop(record)


def test_command__launcher_that_fails(tmp_path: Path) -> None:
    spec = command_spec(
        ["/bin/sh", "-c", "echo 'salloc: error: Invalid partition specified: gpux' >&2; exit 3"],
        stop_command=[],
        url=f"http://127.0.0.1:{free_port()}",
        campaign_dir=tmp_path,
    )
    with pytest.raises(ServerError, match=r"exit code 3.*Invalid partition"):
        ensure_ready(None, spec, log_path=tmp_path / "server.log", save=lambda _record: None, back_off_s=())


def test_reuse__profiler_is_a_plus(tmp_path: Path) -> None:
    plain = vllm_spec("m", port=18001, campaign_dir=tmp_path, args=["--max-num-seqs", "4"])
    profiled = vllm_spec(
        "m", port=18001, campaign_dir=tmp_path, args=["--max-num-seqs", "4"], profile_dir=tmp_path / "p"
    )
    other = vllm_spec("m", port=18001, campaign_dir=tmp_path, args=["--max-num-seqs", "8"])
    patient = vllm_spec("m", port=18001, campaign_dir=tmp_path, args=["--max-num-seqs", "4"], ready_timeout_s=9.0)
    assert plain.spec_hash == profiled.spec_hash == patient.spec_hash != other.spec_hash
    with_profiler = ServerRecord(
        state="ready", url=plain.base_url, spec_hash=plain.spec_hash, has_profiler=True,
        profile_dir=str((tmp_path / "p").resolve()),
    )  # fmt: skip
    without = ServerRecord(state="ready", url=plain.base_url, spec_hash=plain.spec_hash)
    assert satisfies(with_profiler, plain)
    assert satisfies(with_profiler, profiled)
    assert satisfies(without, plain)
    assert not satisfies(without, profiled)
    assert not satisfies(with_profiler, other)


@pytest.mark.parametrize("word", ["--port", "--served-model-name=x", "-tp", "--profiler-config.profiler=torch"])
def test_spec__reserved_words_are_refused(word: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"server\.args"):
        vllm_spec("m", port=18001, campaign_dir=tmp_path, args=[word])


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://x", "http://", "http://h:99999"])
def test_spec__no_url(url: str) -> None:
    with pytest.raises(ConfigError, match=r"server\.url"):
        attached_spec(url)
