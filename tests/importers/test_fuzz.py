"""Spoiled files end in a result or in an error that names the file; nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from campaign import schema
from campaign.errors import CampaignError
from campaign.runner.importing import read_imports
from campaign.runner.opening import OpenCampaign
from campaign.state import PhaseState
from tests.importers.conftest import DATA

IMPORTS = DATA / "imports"
FILES = {
    "all_reduce_perf.txt": "collectives",
    "nccl_tests.json": "collectives",
    "gemm.csv": "gemm",
    "vllm_bench_summary.json": "macro",
    "vllm_bench_append.jsonl": "macro",
    "aiperf.json": "macro",
    "guidellm.json": "macro",
}
PROFILER = DATA / "traces" / "h200-qwen3-30b-a3b-tp1" / "profiler_out_0.txt"
ODD = st.sampled_from([None, "", "x", -1, 0, 1e308, 10**30, True, [], {}, [1], {"a": 1}, "NaN", 2**63])
LENIENT = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def spoil_bytes(data: st.DataObject, content: bytes) -> bytes:
    """A slice taken out, doubled, or overwritten; or the end cut off."""
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, min(len(content), start + 200)))
    change = data.draw(st.sampled_from(["cut", "drop", "double", "overwrite"]))
    if change == "cut":
        return content[:start]
    filling = {"drop": b"", "double": content[start:end] * 2}.get(change, data.draw(st.binary(max_size=40)))
    return content[:start] + filling + content[end:]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place inside a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, one in inner for place in places(one, (*path, key)))]


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """The value with `new` at a place (or the place taken out, for an ellipsis)."""
    if not path:
        return new
    copied = dict(value) if isinstance(value, dict) else list(value)
    if len(path) == 1 and new is ...:
        del copied[path[0]]
    else:
        copied[path[0]] = put(value[path[0]], path[1:], new)
    return copied


def read_or_refuse(campaign: OpenCampaign, kind: str, path: Path) -> None:
    """Reads, analyses and encodes; a refusal must name the file."""
    try:
        result = read_imports(campaign, campaign.entry(PhaseState(id=kind, kind=kind)), [path])
        analyze = campaign.kinds[kind].analyze
        assert analyze is not None
        analyze(schema.decode(schema.encode(result), schema.Result), campaign.context)
    except CampaignError as error:
        assert path.name in str(error)


@pytest.mark.parametrize("name", FILES)
def test_bytes__spoiled(campaign: OpenCampaign, tmp_path: Path, name: str) -> None:
    content = (IMPORTS / name).read_bytes()

    @given(st.data())
    @LENIENT
    def check(data: st.DataObject) -> None:
        path = tmp_path / name
        path.write_bytes(spoil_bytes(data, content))
        read_or_refuse(campaign, FILES[name], path)

    check()


@pytest.mark.parametrize("name", [name for name in FILES if "json" in name])
def test_json__with_odd_values(campaign: OpenCampaign, tmp_path: Path, name: str) -> None:
    whole = json.loads(
        (IMPORTS / name).read_text().split("\n", 1)[0] if name.endswith("l") else (IMPORTS / name).read_text()
    )
    known = [place for place in places(whole) if place]

    @given(st.sampled_from(known), ODD | st.just(...))
    @LENIENT
    def check(place: tuple[Any, ...], new: Any) -> None:
        path = tmp_path / name
        path.write_text(json.dumps(put(whole, place, new)))
        read_or_refuse(campaign, FILES[name], path)

    check()


def test_profiler_table__spoiled(campaign: OpenCampaign, tmp_path: Path) -> None:
    content = PROFILER.read_bytes()

    @given(st.data())
    @LENIENT
    def check(data: st.DataObject) -> None:
        path = tmp_path / PROFILER.name
        path.write_bytes(spoil_bytes(data, content))
        read_or_refuse(campaign, "profile", path)

    check()


def test_facts__spoiled(campaign: OpenCampaign, tmp_path: Path) -> None:
    example = Path(__file__).resolve().parents[2] / "doc" / "examples" / "kimi-k2.5-8x-rtx-pro-6000" / "facts.toml"
    content = example.read_bytes()

    @given(st.data())
    @LENIENT
    def check(data: st.DataObject) -> None:
        path = tmp_path / "facts.toml"
        path.write_bytes(spoil_bytes(data, content))
        read_or_refuse(campaign, data.draw(st.sampled_from(["collectives", "environment", "facts"])), path)

    check()
