"""The gemm phase on this machine's CPU, with the real script."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from campaign import schema
from campaign.errors import ConfigError
from campaign.measurement import read_points
from campaign.model import Device
from campaign.phases.gemm import KIND
from campaign.phases.gemm_data import GemmConfig, GemmData, GemmPoint, Peaks
from campaign.phases.gemm_table import rows_of
from campaign.phases.kind import Analysis
from tests.measure.scripts import analyze, configure, context_of, render, run, start, values


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[schema.Result, Analysis]:
    context = context_of("tiny-deepseek", tp=2)
    config = configure(KIND, context, batch=[1, 16], samples=5, memory_limit_gb=0.5)
    result, _ = run(KIND, config, tmp_path_factory.mktemp("gemm"))
    return result, analyze(KIND, result, context)


def test_gemm__measures_every_point_it_planned(measured: tuple[schema.Result, Analysis]) -> None:
    config = schema.decode(measured[0].config, GemmConfig)
    data = schema.decode(measured[0].data, GemmData)
    assert len(data.points) == 2 * len(config.linears) == len(KIND.points(config)) - 1
    for point in data.points:
        assert point.is_correct, point
        assert [len(samples) for samples in point.cold_us] == [5, 5]
        assert [len(samples) for samples in point.hot_us] == [5, 5]
        assert point.rotated_bytes >= 3 * data.peaks.cache_bytes


def test_gemm__publishes_the_step_as_the_sum_of_its_rows(measured: tuple[schema.Result, Analysis]) -> None:
    found = values(measured[1])
    for suffix in ("", "@b16"):
        parts = [found[f"gemm.step_ms.{category}{suffix}"] for category in ("gemm", "moe_gemm")]
        assert found[f"gemm.step_ms{suffix}"] == pytest.approx(sum(part for part in parts if part is not None))
        assert found[f"model.floor_ms.gemm{suffix}"]
        assert found[f"model.weight_bytes_per_step{suffix}"]
    qkv = found["gemm.us.qkv_a"]
    assert qkv is not None
    assert qkv > 0


def test_gemm__template_shows_every_row(measured: tuple[schema.Result, Analysis]) -> None:
    text = render(KIND, measured[1])
    assert "say nothing of a GPU" in text
    assert text.count("torch") >= 26
    assert "peaks measured here" in text


def test_gemm__a_killed_script_goes_on_where_it_was(tmp_path: Path) -> None:
    config = configure(KIND, context_of("tiny-llama"), batch=[1], samples=3, memory_limit_gb=0.3)
    process = start(KIND, config, tmp_path)
    assert process.stderr is not None
    for line in process.stderr:
        if "gate_up@b1" in line:
            break
    process.kill()
    process.wait()
    process.stderr.close()
    before = {p.key: p for p in read_points(tmp_path / "result.points.jsonl")}
    assert {"peaks", "qkv@b1", "o@b1"} <= set(before)
    _, log = run(KIND, config, tmp_path)
    assert "qkv@b1" not in log
    after = {p.key: p for p in read_points(tmp_path / "result.points.jsonl")}
    assert set(after) == set(KIND.points(config))
    assert all(after[key] == point for key, point in before.items())


def point(**changes: object) -> GemmPoint:
    plain = {"kind": "o", "m": 1, "kernel": "k", "dtype": "bf16", "bytes_per_weight": 2.0, "is_correct": True}
    return msgspec.convert(plain | {"cold_us": [[100.0] * 3] * 2} | changes, GemmPoint)


def row_for(measured_point: GemmPoint, device: Device, *, is_measured: bool = False) -> dict[str, object]:
    config = configure(KIND, context_of("llama-3.3-70b", tp=8), batch=[1])
    assert isinstance(config, GemmConfig)
    peaks = Peaks(device=device, is_measured=is_measured, cache_bytes=1)
    (row,) = rows_of(config, GemmData(peaks=peaks, points=(measured_point,)))
    return dict(schema.builtins(row))


SLOW = Device(name="x", memory_gb_s=100.0, tflops={"bf16": 1000.0})
WEAK = Device(name="x", memory_gb_s=1e6, tflops={"bf16": 0.1})


@pytest.mark.parametrize(("device", "why"), [(SLOW, "GB/s is above"), (WEAK, "TFLOP/s is above")])
def test_gemm__above_the_physical_peak_is_refused(device: Device, why: str) -> None:
    row = row_for(point(), device)
    assert why in str(row["note"])
    assert row["cold_us"] is None
    assert row["step_ms"] is None


def test_gemm__measured_peaks_refuse_nothing() -> None:
    assert row_for(point(), SLOW, is_measured=True)["cold_us"] == 100.0


def test_gemm__a_wrong_result_is_refused() -> None:
    row = row_for(point(is_correct=False, relative_error=0.5), Device(name="x", memory_gb_s=None))
    assert "wrong result" in str(row["note"])
    assert row["cold_us"] is None


def test_gemm__rates_follow_from_shape_and_time() -> None:
    row = row_for(point(), Device(name="x", memory_gb_s=1000.0, tflops={"bf16": 1000.0}))
    assert row["tflops"] == pytest.approx(2 * 8192 * 1024 / 100e-6 / 1e12)
    assert row["gb_s"] == pytest.approx((1024 * 2 + 8192 * 1024 * 2 + 8192 * 2) / 100e-6 / 1e9)
    assert row["floor_fraction"] == pytest.approx((1024 * 2 + 8192 * 1024 * 2 + 8192 * 2) / 1e12 / 100e-6)


@pytest.mark.parametrize("parameters", [{"batch": []}, {"batch": [0]}, {"samples": 1}, {"kinds": ["nonsense"]}])
def test_gemm__unusable_parameters_are_refused(parameters: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        configure(KIND, context_of("tiny-llama"), **parameters)
