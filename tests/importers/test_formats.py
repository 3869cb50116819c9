"""Each format read: real or documented files in, the kind's own result out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TypeVar

import pytest

from campaign import schema
from campaign.errors import CampaignError, UsageError
from campaign.importers import recognise
from campaign.phases.collectives_data import CollectivesConfig, CollectivesData
from campaign.phases.gemm_data import GemmData
from campaign.phases.kind import Analysis
from campaign.phases.macro_data import MacroData
from campaign.phases.profile_data import Data as ProfileData
from campaign.runner.importing import read_imports
from campaign.runner.opening import OpenCampaign
from campaign.schema import Result
from campaign.state import PhaseState
from tests.importers.conftest import DATA

IMPORTS = DATA / "imports"
T = TypeVar("T")


def read(campaign: OpenCampaign, kind: str, *paths: Path) -> Result:
    return read_imports(campaign, campaign.entry(PhaseState(id=kind, kind=kind)), paths)


def data_of(result: Result, kind: type[T]) -> T:
    return schema.decode(bytes(result.data), kind)


def analyzed(campaign: OpenCampaign, result: Result) -> Analysis:
    analyze = campaign.kinds[result.kind].analyze
    assert analyze is not None
    return analyze(result, campaign.context)


def value(campaign: OpenCampaign, result: Result, name: str) -> float | None:
    found = {quantity.name: quantity.value for quantity in analyzed(campaign, result).quantities}
    return found[name]


@pytest.mark.parametrize(
    ("name", "format_"),
    [
        ("imports/all_reduce_perf.txt", "nccl-tests-text"),
        ("imports/nccl_tests.json", "nccl-tests-json"),
        ("imports/gemm.csv", "gemm-csv"),
        ("imports/vllm_bench_summary.json", "vllm-bench"),
        ("imports/vllm_bench_append.jsonl", "vllm-bench"),
        ("imports/aiperf.json", "aiperf"),
        ("imports/guidellm.json", "guidellm"),
        ("traces/h200-qwen3-30b-a3b-tp1/profiler_out_0.txt", "torch-profiler"),
        ("traces/cpu-deepseek-tiny-tp2/dp0_pp0_tp0_dcp0_ep0_rank0.profiler_out.txt", "torch-profiler"),
    ],
)
def test_recognise__tells_each_format(name: str, format_: str) -> None:
    importer = recognise(DATA / name)
    assert importer is not None
    assert importer.name == format_


def test_recognise__leaves_other_files_alone(tmp_path: Path) -> None:
    for name in ("configs/kimi-k2.5.json", "doc-cases/01-crlf.md", "doc-cases/cases.json"):
        assert recognise(DATA / name) is None
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    assert recognise(empty) is None


def test_traces__of_a_real_run_become_a_profile(campaign: OpenCampaign) -> None:
    folder = DATA / "traces" / "h200x2-qwen3-30b-a3b-tp2-nccl"
    result = read(campaign, "profile", folder)
    capture = data_of(result, ProfileData).captures[0]
    assert capture.analysis.decode is not None
    assert capture.analysis.decode.steps > 10
    assert len(capture.analysis.ranks) == 2
    assert "H200" in result.host.device
    assert result.origin == "imported"
    assert {file.format for file in result.imported} == {"torch-profiler"}
    assert not any(str(DATA) in rank.file for rank in capture.analysis.ranks)
    assert value(campaign, result, "profile.calls.allreduce") == pytest.approx(97, abs=0.5)


def test_profiler_text__alone_tells_categories_and_no_steps(campaign: OpenCampaign) -> None:
    result = read(campaign, "profile", DATA / "traces" / "h200-qwen3-30b-a3b-tp1" / "profiler_out_0.txt")
    (capture,) = data_of(result, ProfileData).captures
    assert capture.analysis.decode is None
    busy = {category.name: category.busy_ms_per_step for category in capture.analysis.ranks[0].whole}
    assert busy["moe_gemm"] == pytest.approx(50.265, abs=0.01)
    total = sum(busy.values())
    assert total == pytest.approx(140.27, rel=0.01)  # the table's own "Self CUDA time total"
    assert "tell no steps" in result.notes[0]


def test_profiler_text__beside_traces_is_a_cross_check(campaign: OpenCampaign, tmp_path: Path) -> None:
    source = DATA / "traces" / "h200-qwen3-30b-a3b-tp1"
    both = tmp_path / "both"
    shutil.copytree(source, both)
    honest = read(campaign, "profile", both)
    table = both / "profiler_out_0.txt"
    table.write_text(table.read_text().replace("50.265ms", "150.265ms"))
    altered = read(campaign, "profile", both)
    assert len(honest.imported) == 2
    assert any("its kernels sum to" in note for note in altered.notes)


def test_nccl_text__gives_times_ranks_and_floors(campaign: OpenCampaign) -> None:
    result = read(campaign, "collectives", IMPORTS / "all_reduce_perf.txt")
    data, config = data_of(result, CollectivesData), schema.decode(bytes(result.config), CollectivesConfig)
    assert config.ranks == 8
    assert [point.size_bytes for point in data.points] == [1024, 4096, 16384, 1048576, 16777216]
    assert data.environment.library == "NCCL 2.28.3+cuda12.9"
    rows = analyzed(campaign, result).view.rows  # type: ignore[attr-defined]
    assert rows[3].us == 94.20
    assert rows[3].busbw_gb_s == pytest.approx(19.48, abs=0.01)  # as the tool printed it
    assert value(campaign, result, "collectives.alpha_us") == pytest.approx(21.6, abs=2.0)


def test_nccl_text__wrong_results_are_refused(campaign: OpenCampaign, tmp_path: Path) -> None:
    spoiled = tmp_path / "all_reduce_perf.txt"
    text = (IMPORTS / "all_reduce_perf.txt").read_text()
    spoiled.write_text(text.replace("26.70    0.61    1.07      0", "26.70    0.61    1.07      3"))
    findings = analyzed(campaign, read(campaign, "collectives", spoiled)).findings
    assert [finding.severity for finding in findings] == ["broken"]


def test_nccl_json__tells_operation_ranks_and_device(campaign: OpenCampaign) -> None:
    result = read(campaign, "collectives", IMPORTS / "nccl_tests.json")
    data = data_of(result, CollectivesData)
    assert [(p.operation, p.size_bytes, p.ranks[0].us) for p in data.points] == [("all_to_all", 14336, (19.25,))]
    assert data.environment.library == "NCCL 2.28.3"
    assert result.host.device == "NVIDIA H200"
    assert schema.decode(bytes(result.config), CollectivesConfig).ranks == 2
    assert b"HOME" not in schema.encode(result)  # the file's environment may hold keys


def test_gemm_csv__becomes_points_of_the_model(campaign: OpenCampaign) -> None:
    result = read(campaign, "gemm", IMPORTS / "gemm.csv")
    assert {(p.kind, p.m) for p in data_of(result, GemmData).points if p.cold_us} == {
        ("moe_gate_up", 1), ("moe_down", 1), ("router", 1)
    }  # fmt: skip
    assert value(campaign, result, "gemm.us.moe_gate_up") == 31.5
    assert value(campaign, result, "gemm.us.o") is None
    assert value(campaign, result, "gemm.step_ms") is None  # a sum without all its parts is none
    fraction = value(campaign, result, "gemm.floor_fraction.moe_gate_up")
    assert fraction is not None and 0 < fraction < 1
    assert any("a step's sum is not known" in note for note in result.notes)


def test_gemm_csv__of_another_model_is_refused(campaign: OpenCampaign, tmp_path: Path) -> None:
    path = tmp_path / "gemm.csv"
    path.write_text("layer,M,N,K,us\nqkv,1,999,7168,12\n")
    with pytest.raises(UsageError, match="999×7168: is no product of this model"):
        read(campaign, "gemm", path)


def test_vllm_bench__summary_without_details(campaign: OpenCampaign) -> None:
    result = read(campaign, "macro", IMPORTS / "vllm_bench_summary.json")
    (cell,) = data_of(result, MacroData).cells
    assert (cell.concurrency_asked, cell.completed, cell.failed, cell.duration_s) == (4, 19, 1, 25.0)
    assert (cell.output_tok_s, cell.tpot_ms.mean, cell.ttft_ms.p50) == (97.28, 37.5, 400.0)
    assert cell.tpot_ms.p90 == 39.0
    assert cell.ttft_ms.p99 is None  # 19 requests are too few for a p99
    assert cell.itl_ms.mean is None  # only the gap between chunks is known
    assert cell.chunk_gap_ms.mean == 37.6
    assert result.finished_at == "2026-02-03T10:11:12"
    assert value(campaign, result, "macro.tpot_ms.c4") == 37.5


def test_vllm_bench__append_form_has_repeats_and_rates(campaign: OpenCampaign) -> None:
    result = read(campaign, "macro", IMPORTS / "vllm_bench_append.jsonl")
    data = data_of(result, MacroData)
    assert [(c.concurrency_asked, c.rate_asked, c.repeat) for c in data.cells] == [
        (1, None, 1), (1, None, 2), (None, 2.5, 1)
    ]  # fmt: skip
    assert data.summary[0].tpot_ms.mean == pytest.approx(24.1)
    assert data.summary[0].repeats == 2


def test_aiperf__summary(campaign: OpenCampaign) -> None:
    result = read(campaign, "macro", IMPORTS / "aiperf.json")
    (cell,) = data_of(result, MacroData).cells
    assert (cell.concurrency_asked, cell.completed, cell.failed) == (4, 40, 2)
    assert cell.errors == {"InternalServerError": 2}
    assert (cell.e2el_ms.p50, cell.tpot_ms.mean, cell.output_tok_s) == (3050.0, 29.5, 125.0)
    assert result.versions == {"aiperf": "0.10.0"}


def test_guidellm__one_cell_a_benchmark(campaign: OpenCampaign) -> None:
    result = read(campaign, "macro", IMPORTS / "guidellm.json")
    cells = data_of(result, MacroData).cells
    assert [(c.concurrency_asked, c.rate_asked, c.completed) for c in cells] == [(4, None, 40), (None, 2.0, 38)]
    assert (cells[0].e2el_ms.mean, cells[0].ttft_ms.p50, cells[0].cancelled) == (3100.0, 205.0, 3)
    assert result.finished_at.startswith("2026-02-03T")


def test_formats__that_answer_one_phase_are_not_mixed(campaign: OpenCampaign) -> None:
    with pytest.raises(UsageError, match="both answer a macro phase"):
        read(campaign, "macro", IMPORTS / "aiperf.json", IMPORTS / "guidellm.json")


def test_result__does_not_depend_on_where_the_folder_lies(folder: Path, tmp_path: Path) -> None:
    from campaign.phases.catalog import KINDS

    results = []
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(folder, elsewhere)
    for home in (folder, elsewhere):
        shutil.copytree(DATA / "traces" / "h200-kimi-mini-w4a16-tp1", home / "t")
        results.append(schema.encode(read(OpenCampaign(home, KINDS), "profile", home / "t")))
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.json", '{"benchmarks": [], "strategy": 1, "guidellm_version": "0"}', "is no whole report of GuideLLM"),
        ("x.json", '{"num_prompts": 3, "request_rate": "inf"}', "is no whole result of vllm bench serve"),
        (
            "x.json",
            '{"request_throughput": {"avg": 1}, "request_latency": {"avg": "fast"}}',
            "no whole summary of AIPerf",
        ),
        ("x.csv", "layer,M,N,K,us\nqkv,1,2\n", "line 2"),
        ("x.csv", "layer,M,N,K,us\n", "holds no rows"),
        ("gemm.csv", "layer,M,N,K,us\nqkv,1,2112,7168,-3\n", "not above 0"),
        ("x.txt", "# out-of-place algbw\n", "does not tell which program wrote it"),
        ("all_reduce_perf", "# out-of-place algbw\n", "the table has no rows"),
        ("facts.toml", "[notes]\nsource = 3\n", "source"),
        ("facts.toml", "[notes]\nsource = 'x'\nfcat = 1\n", "fcat"),
        ("notes.txt", "hello", "of no format that can be imported"),
    ],
)
def test_broken_files__are_named_with_what_is_wrong(
    campaign: OpenCampaign, tmp_path: Path, name: str, content: str, said: str
) -> None:
    path = tmp_path / name
    path.write_text(content)
    kind = {"x.json": "macro", "x.csv": "gemm", "gemm.csv": "gemm"}.get(name, "collectives")
    with pytest.raises(CampaignError) as caught:
        read(campaign, kind, path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_nothing_in_results_is_infinite(campaign: OpenCampaign) -> None:
    for name, kind in (("aiperf.json", "macro"), ("gemm.csv", "gemm"), ("all_reduce_perf.txt", "collectives")):
        json.loads(schema.encode(read(campaign, kind, IMPORTS / name)), parse_constant=pytest.fail)
