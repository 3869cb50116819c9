"""Logs of real loads, read as they grew."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from campaign.server import phrases
from campaign.server.log import LogReader

LOGS = Path(__file__).parent.parent / "data" / "server-logs"

#: Load phases and whole seconds between their first lines, read by eye from each log's own times.
READ_BY_EYE = {
    "cpu-deepseek-tiny-tp2-compiled": {
        "starting": 0, "configuring": 21, "engine": 12, "weights": 2, "compile": 59, "kv_cache": 5, "api": 1,
    },
    "cpu-deepseek-tiny-tp2": {"starting": 1, "configuring": 101, "engine": 171, "weights": 15, "kv_cache": 7, "api": 1},
    "cpu-llama-ready": {"starting": 0, "configuring": 66, "engine": 31, "weights": 2, "kv_cache": 5, "api": 3},
    "h200-kimi-mini-w4a16-tp1": {
        "starting": 14, "configuring": 42, "engine": 1, "weights": 2, "compile": 89, "kv_cache": 0, "graphs": 4,
        "api": 2,
    },
    "h200-qwen3-30b-a3b-tp1": {
        "starting": 15, "configuring": 37, "engine": 2, "weights": 2, "compile": 51, "kv_cache": 0, "graphs": 10,
        "api": 1,
    },
    "h200x2-qwen3-30b-a3b-tp2-custom": {
        "starting": 17, "configuring": 42, "engine": 26, "weights": 3, "compile": 71, "kv_cache": 0, "graphs": 13,
        "api": 3,
    },
    "h200x2-qwen3-30b-a3b-tp2-nccl": {
        "starting": 16, "configuring": 18, "engine": 21, "weights": 2, "compile": 24, "kv_cache": 1, "graphs": 14,
        "api": 4,
    },
}  # fmt: skip


def unpacked(name: str) -> bytes:
    return gzip.decompress((LOGS / f"{name}.log.gz").read_bytes())


@pytest.mark.parametrize("name", READ_BY_EYE)
def test_log__phases_and_times_of_a_real_load(name: str, tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(unpacked(name))
    log = LogReader(path)
    log.finish()
    assert log.phase_seconds() == READ_BY_EYE[name]
    assert log.phases == [*READ_BY_EYE[name], "answering"]
    assert log.phases == sorted(log.phases, key=phrases.LOAD_PHASES.index)
    assert (log.fatal_line, log.root_cause()) == ("", None)


def test_log__every_log_here_is_read() -> None:
    assert {path.name.removesuffix(".log.gz") for path in LOGS.glob("*.log.gz")} >= set(READ_BY_EYE)


@pytest.mark.parametrize("chunk_bytes", [7, 4096])
def test_log__grown_in_pieces_reads_as_one(chunk_bytes: int, tmp_path: Path) -> None:
    whole = unpacked("h200x2-qwen3-30b-a3b-tp2-nccl")[:60_000]
    path = tmp_path / "server.log"
    log = LogReader(path)
    assert not log.poll()
    seen: list[tuple[str, str]] = []
    with path.open("ab", buffering=0) as out:
        for start in range(0, len(whole), chunk_bytes):
            out.write(whole[start : start + chunk_bytes])
            assert log.poll()
            if not seen or seen[-1] != (log.load_phase, log.detail):
                seen.append((log.load_phase, log.detail))
    assert log.phases == [*READ_BY_EYE["h200x2-qwen3-30b-a3b-tp2-nccl"], "answering"]
    if chunk_bytes == 7:
        graphs = [detail for phase, detail in seen if phase == "graphs" and detail]
        assert graphs == [f"{n}/19" for n in range(20)] + [f"{n}/11" for n in range(12)]


def test_log__offset_skips_an_earlier_server(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(b"(APIServer pid=1) ERROR 11-29 15:22:05 [a.py:1] RuntimeError: the former one\n")
    offset = path.stat().st_size
    with path.open("ab") as out:
        out.write(unpacked("cpu-llama-ready"))
    log = LogReader(path, offset)
    log.finish()
    assert log.root_cause() is None
    assert log.load_phase == "answering"


def test_log__weights_bar(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(
        "(Worker_TP0 pid=9) INFO 11-29 15:07:17 [gpu_model_runner.py:5160] Starting to load model m...\n"
        "\rLoading safetensors checkpoint shards:   0% Completed | 0/64 [00:00<?, ?it/s]\r"
        "Loading safetensors checkpoint shards:  38% Completed | 24/64 [04:10<06:57, 10.4s/it]\r"
    )
    log = LogReader(path)
    log.poll()
    assert (log.load_phase, log.detail, log.progress) == ("weights", "24/64", 0.375)
