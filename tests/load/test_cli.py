"""`load URL` as a person runs it: JSON, exit codes, files."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from campaign.cli.load import load
from campaign.errors import LoadError, UsageError
from tests.load.truth import TruthServer


def invoke(*arguments: str) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(load, arguments)


def cells(result: Result) -> list[dict[str, Any]]:
    """The cells of its JSON."""
    assert result.exception is None, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)["cells"]
    return found


def test_load_command__json_has_the_promised_fields(paced: TruthServer) -> None:
    result = invoke(
        *(paced.url, "--model", "itl=2000", "--concurrency", "1,4", "--requests", "8", "--repeats", "2"),
        *("--input-tokens", "32", "--output-tokens", "10", "--slo", "ttft_ms=500,tpot_ms=20", "--json"),
    )
    found = cells(result)
    assert [(c["concurrency_asked"], c["repeat"]) for c in found] == [(1, 1), (4, 1), (1, 2), (4, 2)]
    for cell in found:
        assert cell["completed"] == 8
        assert cell["failed"] == 0
        assert cell["errors"] == {}
        assert cell["rate_asked"] is None
        assert (cell["input_tokens_achieved"], cell["output_tokens_achieved"]) == (32, 10)
        assert 1.9 < cell["itl_ms"]["mean"] < 10
        assert cell["itl_ms"]["p99"] is None
        assert cell["itl_ms"]["n"] == 72
        assert cell["goodput"]["share"] == 1.0
        assert cell["client"]["timestamps"] == "kernel"
        assert cell["server"]["generation_tokens_delta"] == 80
        assert cell["server"]["tokens_match"] is True
        assert abs(cell["concurrency_achieved"] - cell["concurrency_asked"]) < 0.2 * cell["concurrency_asked"]
    assert json.loads(result.stdout)["kv_capacity_tokens"] == 1024
    summary = json.loads(result.stdout)["summary"]
    assert [s["repeats"] + s["repeats_invalid"] for s in summary] == [2, 2]
    assert summary[0]["tpot_ms"]["ci95"] is None


def test_load_command__the_table_says_what_was_delivered(paced: TruthServer) -> None:
    options = ("--concurrency", "2", "--requests", "4", "--output-tokens", "12", "--prompts", "random")
    text = invoke(paced.url, "--model", "itl=30000;stop=9", *options, "--input-tokens", "16").stdout
    head, row, *rest = text.splitlines()
    assert [name for name in ("running", "in", "out", "hits", "TTFT p50") if name not in head] == []
    assert "9 of 12" in row and "/2 " in row and " 0% " in row
    assert any("random token ids, which distort" in line for line in rest)
    assert "the server's KV cache holds 1,024 tokens" in rest


def test_load_command__prompts_are_fresh_in_every_cell(paced: TruthServer) -> None:
    invoke(
        *(paced.url, "--model", "m", "--concurrency", "1,2", "--requests", "4", "--repeats", "2"),
        *("--output-tokens", "4", "--prompts", "random"),
    )
    prompts = [str(body["prompt"]) for body in paced.bodies()]
    assert len(prompts) > 16
    assert len(set(prompts)) == len(prompts)


def test_load_command__fails_when_requests_failed(paced: TruthServer) -> None:
    given = (paced.url, "--model", "itl=1000;fault=reset;every=3", "--concurrency", "2", "--requests", "9")
    result = invoke(*given, "--output-tokens", "6", "--json")
    assert isinstance(result.exception, LoadError)
    assert result.exception.exit_code == 3
    cell = json.loads(result.stdout)["cells"][0]
    assert (cell["completed"], cell["failed"], cell["errors"]) == (6, 3, {"reset": 3})
    assert cell["tokens_received"] == 6 * 6 + 3 * 3
    tolerant = invoke(*given, "--output-tokens", "6", "--max-failed", "0.5")
    assert tolerant.exception is None


def test_load_command__says_what_to_write_instead() -> None:
    for arguments in (["ftp://x"], ["http://127.0.0.1:1", "--model", "m", "--concurrency", "0"]):
        assert isinstance(invoke(*arguments).exception, UsageError | LoadError)
    wrong = invoke("http://127.0.0.1:1", "--model", "m", "--slo", "speed=3")
    assert isinstance(wrong.exception, UsageError)
    assert "ttft_ms=500" in str(wrong.exception)


def test_load_command__open_loop_reports_rate_and_queue(paced: TruthServer) -> None:
    cell = cells(
        invoke(
            *(paced.url, "--model", "itl=1000", "--rate", "50", "--arrival", "constant", "--requests", "40"),
            *("--output-tokens", "5", "--json"),
        )
    )[0]
    assert cell["rate_asked"] == 50
    assert abs(cell["rate_achieved"] - 50) < 5
    assert cell["queue_ms"]["n"] == 40
    assert cell["queue_ms"]["p50"] < 5


def test_load_command__replays_a_trace(paced: TruthServer, tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("5.0,7,3\n5.2,9,2\n5.3,11,4\n")
    raw = tmp_path / "raw.jsonl"
    given = (paced.url, "--model", "m", "--trace", str(trace), "--warm-up", "0", "--raw", str(raw), "--json")
    (cell,) = cells(invoke(*given))
    assert (cell["completed"], cell["input_tokens_asked"], cell["input_tokens_achieved"]) == (3, None, 9)
    requests = json.loads(raw.read_text())["requests"]
    assert [row[1] for row in requests] == [0, 200_000, 300_000]
    assert [row[6:8] for row in requests] == [[7, 3], [9, 2], [11, 4]]
    assert all(0 <= row[2] - row[1] < 50_000 for row in requests)


def test_load_command__capped_open_loop_shows_the_wait(paced: TruthServer) -> None:
    """Coordinated omission: what waits for a slot is late, and its latency from the intended send shows it."""
    cell = cells(
        invoke(
            *(paced.url, "--model", "itl=10000", "--rate", "100", "--arrival", "constant", "--requests", "20"),
            *("--concurrency", "1", "--output-tokens", "5", "--json"),
        )
    )[0]
    assert cell["queue_ms"]["mean"] > 200
    assert cell["ttft_due_ms"]["p50"] > 200 > cell["ttft_ms"]["p50"]
    assert cell["e2el_ms"]["mean"] < 60
    assert cell["e2el_due_ms"]["mean"] > 250


def test_load_command__cancelled_streams_show_what_they_cost_the_server(paced: TruthServer) -> None:
    options = ("--requests", "16", "--concurrency", "2", "--output-tokens", "50", "--warm-up", "0")
    given = (paced.url, "--model", "itl=2000", *options, "--cancel", "0.25", "--cancel-after", "6")
    (cell,) = cells(invoke(*given, "--json"))
    assert (cell["completed"], cell["cancelled"], cell["failed"]) == (12, 4, 0)
    assert 0 <= cell["server"]["surplus_per_cut"] <= 3
    assert cell["server"]["surplus_tokens"] == 4 * cell["server"]["surplus_per_cut"]
    assert cell["tokens_received"] < 12 * 50 + 4 * 25
    assert "4 streams cut: the server computed" in invoke(*given).stdout


def test_load_command__vllm_form_and_raw_times(paced: TruthServer, tmp_path: Path) -> None:
    result = invoke(
        *(paced.url, "--model", "itl=1000", "--concurrency", "2", "--requests", "4", "--output-tokens", "5"),
        *("--raw", str(tmp_path / "raw.jsonl"), "--vllm-result", str(tmp_path / "v.json")),
    )
    assert result.exception is None
    written = json.loads((tmp_path / "v.json").read_text())
    assert written["request_rate"] == "inf"
    assert written["completed"] == 4
    assert written["total_output_tokens"] == 20
    assert [len(itls) for itls in written["itls"]] == [4] * 4
    raw = json.loads((tmp_path / "raw.jsonl").read_text())
    assert len(raw["requests"]) == 4


def test_load_command__interrupted_prints_whole_cells(paced: TruthServer) -> None:
    command = [sys.executable, "-m", "campaign", "load", paced.url, "--model", "itl=20000", "--concurrency", "1"]
    command += ["--requests", "4", "--output-tokens", "8", "--repeats", "50", "--warm-up", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while len(paced.truth().streams) < 9:  # two whole cells and one begun
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=20)
    assert process.returncode == 130, errors
    assert 0 < len(json.loads(output)["cells"]) < 50
