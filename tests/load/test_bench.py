"""Cells as wholes: processes, https, keys, counters, cancellations, sessions, capacity, the search for the knee."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from campaign.errors import LoadError, UsageError
from campaign.load import energy
from campaign.load.bench import Bench
from campaign.load.connection import Connection
from campaign.load.counters import parse_metrics, watch_of
from campaign.load.endpoint import Endpoint, endpoint_of
from campaign.load.fleet import run_plan
from campaign.load.plan import Limits, Plan
from campaign.load.prompts import RandomIds, Sampling
from campaign.load.reply import record_of
from campaign.load.search import Search
from campaign.load.share import Share, share_of
from campaign.load.slo import Slo
from campaign.load.summary import Asked, cell_of, summarize
from campaign.load.wire import Wire
from campaign.load.workload import Load, plan_of
from tests.load.conftest import ahead_of_others
from tests.load.test_truth import compared_ms, plan
from tests.load.truth import TruthServer


def bench(server: TruthServer, model: str, **options: object) -> Bench:
    """A bench of random ids."""
    return Bench(server.endpoint(), model, RandomIds, limits=Limits(idle_timeout_s=5), **options)  # type: ignore[arg-type]


def test_bench__several_processes_see_the_same_truth(paced: TruthServer) -> None:
    given = plan("itl=5000", concurrency=9, requests=27, output=20)
    shares = run_plan(given, paced.endpoint(), processes=3)
    assert len(shares) == 3
    records = [r for share in shares for r in share.records]
    assert sorted(r.index for r in records) == list(range(27))
    assert all(not r.error and r.output_tokens == 20 for r in records)
    joined = msgspec.structs.replace(shares[0], records=records)
    assert max(map(abs, compared_ms(paced, given, joined))) < 5
    cell = cell_of(Asked(concurrency=9), shares, None)
    assert cell.client.processes == 3
    assert cell.concurrency_peak == 9


def test_bench__https_with_reader_stamps(make_server: Callable[..., TruthServer], tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    server = make_server(tls=(certificate, key))
    endpoint = endpoint_of(server.url, is_verified=False)
    cell = (
        Bench(endpoint, "itl=3000", RandomIds)
        .run_cell(Load(requests=8, input_tokens=8, output_tokens=10, concurrency=4))
        .cell
    )
    assert (cell.completed, cell.failed, cell.client.timestamps) == (8, 0, "reader")
    assert cell.itl_ms.mean == pytest.approx(3.0, rel=0.3)
    assert cell.server.tokens_match is True
    distrustful = Bench(endpoint_of(server.url), "m", RandomIds, limits=Limits(reconnect_s=0.3))
    with pytest.raises(LoadError, match="certificate"):
        distrustful.run_cell(Load(requests=1, input_tokens=1, output_tokens=1, concurrency=1))


def test_bench__reader_stamps_where_the_kernel_gives_none(paced: TruthServer) -> None:
    endpoint = paced.endpoint(has_kernel_stamps=False)
    load = Load(requests=4, input_tokens=8, output_tokens=10, concurrency=2)
    cell = Bench(endpoint, "itl=5000", RandomIds).run_cell(load).cell
    assert cell.client.timestamps == "reader"
    assert cell.client.missing_stamps == 1.0
    assert cell.client.lag_ms_p99 is not None and cell.client.lag_ms_p99 > 0
    assert cell.itl_ms.mean == pytest.approx(5.0, rel=0.3)


def test_bench__a_late_reader_does_not_move_the_kernels_stamps(paced: TruthServer) -> None:
    """The naive client's fault: its own pauses in what it reports. Every read here waits 3 ms for its turn."""
    given = plan("itl=20000", concurrency=2, requests=2, output=25)
    with ahead_of_others(0, paced.process.pid):
        kernel = run_slowly(given, paced.endpoint())
    off = sorted(map(abs, compared_ms(paced, given, kernel)))
    paced.reset()
    with ahead_of_others(0, paced.process.pid):
        reader = run_slowly(given, paced.endpoint(has_kernel_stamps=False))
    naive = sorted(map(abs, compared_ms(paced, given, reader)))
    assert off[len(off) // 2] < 0.3
    assert naive[-5] > off[len(off) // 2] * 3
    assert cell_of(Asked(concurrency=2), [reader], None).client.valid is False


class SlowWire(Wire):
    """A wire whose process is busy elsewhere before each read, for 1 to 5 ms in turn."""

    turn = 0

    def _read(self, connection: Connection) -> None:
        self.turn += 1
        time.sleep(0.001 + 0.004 * (self.turn % 3) / 2)
        super()._read(connection)


def run_slowly(given: Plan, endpoint: Endpoint) -> Share:
    """A share of a slow reader."""
    run = SlowWire(given, endpoint).run()
    records = [record_of(exchange, run.start_ns) for exchange in run.exchanges]
    return share_of(run, records, time.process_time())


def test_bench__api_key_comes_from_the_environment(paced: TruthServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "secret")
    endpoint = endpoint_of(paced.url + "/v1/", api_key_env="MY_KEY")
    Bench(endpoint, "m", RandomIds).run_cell(Load(requests=1, input_tokens=1, output_tokens=1, concurrency=1))
    assert "authorization: Bearer secret" in paced.truth().head
    with pytest.raises(UsageError, match="NO_KEY"):
        endpoint_of(paced.url, api_key_env="NO_KEY")


def test_bench__cancelled_streams_are_neither_done_nor_failed(paced: TruthServer) -> None:
    given = plan("itl=2000", concurrency=2, requests=6, output=50)
    cut = tuple(msgspec.structs.replace(r, cancel_after_reads=8) for r in given.requests)
    outcome = bench(paced, "x").run_prepared(msgspec.structs.replace(given, requests=cut), Asked(concurrency=2))
    cell = outcome.cell
    assert (cell.completed, cell.failed, cell.cancelled) == (0, 0, 6)
    assert cell.tokens_received > 0
    assert cell.server.surplus_tokens is not None and 0 <= cell.server.surplus_tokens <= 6 * 3
    assert cell.server.tokens_match is None
    assert cell.output_tok_s is not None


def test_bench__sessions_wait_for_their_answers(paced: TruthServer) -> None:
    load = Load(requests=3, input_tokens=4, output_tokens=5, concurrency=2, turns=3, think_s=0.05)
    outcome = bench(paced, "itl=1000").run_cell(load)
    by_index = {r.index: r for r in outcome.records}
    assert outcome.cell.completed == 9
    for session in range(3):
        for turn in (1, 2):
            before, now = by_index[3 * session + turn - 1], by_index[3 * session + turn]
            assert before.end_ns is not None and now.sent_ns is not None
            assert now.sent_ns - before.end_ns >= 50e6
            assert now.input_tokens == 4 + 9 * turn


def test_bench__a_server_that_cannot_hold_the_load_is_said_so(paced: TruthServer) -> None:
    load = Load(requests=16, input_tokens=4, output_tokens=20, concurrency=8)
    limited = bench(paced, "itl=5000;slots=2", scrape_interval_s=0.1).run_cell(load).cell
    held = bench(paced, "itl=5000", scrape_interval_s=0.1).run_cell(load).cell
    assert (limited.capacity_limited, held.capacity_limited) == (True, False)
    assert limited.server.running_max == 2
    assert any("capacity-limited" in flag for flag in limited.flags)
    assert limited.ttft_ms.p50 is not None and held.ttft_ms.p50 is not None
    assert limited.ttft_ms.p50 > 10 * held.ttft_ms.p50


def test_bench__warms_up_at_the_cells_own_concurrency_until_two_rounds_agree(paced: TruthServer) -> None:
    said: list[str] = []
    load = Load(requests=10, input_tokens=4, output_tokens=10, concurrency=5)
    warm = Bench(paced.endpoint(), "itl=5000", RandomIds, say=said.append)
    cells = [warm.run_cell(load, repeat).cell for repeat in (1, 2)]
    sent = len(paced.bodies()) - 2 * 10
    rounds, rest = divmod(sent, 5)
    assert rest == 0 and 2 <= rounds <= 5
    assert said == [f"warm after {rounds} rounds"] or all("warm-up" in cell.flags[0] for cell in cells)
    cold = Bench(paced.endpoint(), "itl=5000", RandomIds, warm_up_rounds=0).run_cell(load).cell
    assert "no warm-up" in cold.flags


def test_energy__counts_only_where_the_server_runs() -> None:
    assert energy.is_here(endpoint_of("http://127.0.0.1:8000"))
    assert not energy.is_here(endpoint_of("https://api.example.com"))
    joules = energy.total_joules()
    assert joules is None or joules > 0
    assert energy.joules_between(None, 5.0) is None
    assert energy.joules_between(2.0, 5.0) == 3.0


def test_bench__short_answers_are_flagged(paced: TruthServer) -> None:
    cell = bench(paced, "stop=3").run_cell(Load(requests=2, input_tokens=4, output_tokens=9, concurrency=1)).cell
    assert cell.output_tokens_achieved == 3
    assert any("ended before the asked length" in flag for flag in cell.flags)


def test_bench__a_cell_bound_by_its_client_is_run_again_with_more_processes(paced: TruthServer) -> None:
    """With reader stamps one process cannot follow 64 streams without a pause to a tenth of their pace."""
    said: list[str] = []
    endpoint = paced.endpoint(has_kernel_stamps=False)
    load = Load(requests=128, input_tokens=4, output_tokens=60, concurrency=64)
    with ahead_of_others(paced.process.pid):
        cell = Bench(endpoint, "itl=50", RandomIds, say=said.append).run_cell(load).cell
    assert any("again with 2 client processes" in text for text in said)
    assert cell.client.processes == 2
    assert (cell.completed, cell.failed) == (128, 0)


def test_search__finds_the_knee(paced: TruthServer) -> None:
    searching = Search(bench(paced, "itl=10000;slots=4", slo=Slo(ttft_ms=60)), input_tokens=4, output_tokens=12)
    with ahead_of_others(paced.process.pid):
        found = searching.run(64)
    assert found.knee == 4
    assert found.best_goodput is not None and 3 <= found.best_goodput <= 6
    assert max(cell.concurrency_asked or 0 for cell in found.cells) <= 32


def share(records: list[object], **fields: object) -> Share:
    """A share with costs of one's own."""
    values = {
        "records": records,
        "lags_ns": [0],
        "cpu_s": 1.0,
        "busy": 0.1,
        "stamps": "kernel",
        "missing_stamps": 0,
        "clock_step_ns": 0,
        "wall_s": 1.0,
    }
    return msgspec.convert(values | fields, type=Share)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"busy": 0.95}, "95% of a core"),
        ({"clock_step_ns": 5_000_000}, "clock"),
        ({"stamps": "reader", "lags_ns": [3_000_000] * 100}, "reader stamps lag"),
    ],
)
def test_cell__bound_by_its_client_is_invalid_and_never_averaged(fields: dict[str, object], reason: str) -> None:
    times = {"index": 0, "sent_ns": 0, "end_ns": 30_000_000, "chunk_ns": (10_000_000, 20_000_000, 30_000_000)}
    record = times | {"chunk_tokens": (1, 1, 1), "output_tokens": 3, "input_tokens": 2}
    good = cell_of(Asked(repeat=1), [share([record])], None)
    bad = cell_of(Asked(repeat=2), [share([record], **fields)], None)
    assert good.client.valid
    assert not bad.client.valid and reason in bad.client.why
    (summary,) = summarize([good, bad])
    assert (summary.repeats, summary.repeats_invalid) == (1, 1)


def test_counters__speculation_cache_and_engines_add_up() -> None:
    def text(scale: int) -> str:
        return "".join(
            f'vllm:{name}{{engine="{engine}",model_name="m"{extra}}} {value * scale}\n'
            for engine in (0, 1)
            for name, extra, value in (
                ("generation_tokens_total", "", 100),
                ("prompt_tokens_total", "", 1000),
                ("prefix_cache_queries_total", "", 1000),
                ("prefix_cache_hits_total", "", 250),
                ("request_prefill_time_seconds_sum", "", 2),
                ("num_preemptions_total", "", 1),
                ("spec_decode_num_drafts_total", "", 40),
                ("spec_decode_num_accepted_tokens_total", "", 60),
                ("spec_decode_num_accepted_tokens_per_pos_total", ',position="0"', 38),
                ("spec_decode_num_accepted_tokens_per_pos_total", ',position="1"', 22),
            )
        )

    watch = watch_of(parse_metrics(text(1)), parse_metrics(text(2)), [])
    server = cell_of(Asked(), [share([])], watch).server
    assert server.generation_tokens_delta == 200
    assert server.cache_hit_rate == 0.25
    assert server.prefill_tok_s == 500
    assert server.acceptance_length == 2.5
    assert server.acceptance_by_position == (0.95, 0.55)
    assert server.preemptions == 2
    assert cell_of(Asked(), [share([])], None).server.generation_tokens_delta is None


def test_plan__bodies_go_over_the_wire_as_they_are(paced: TruthServer) -> None:
    sampling = Sampling(parameters={"temperature": 0.5, "top_p": 0.9}, ignore_eos=False, running_usage=False)
    load = Load(requests=1, input_tokens=20_000, output_tokens=2, concurrency=1)
    given = plan_of(load, RandomIds("w"), sampling, model="usage=final", seed="w", limits=Limits())
    cell = bench(paced, "x").run_prepared(given, Asked(concurrency=1)).cell
    assert cell.input_tokens_achieved == 20_000
    assert [stream.body.encode() for stream in paced.truth().streams] == [given.requests[0].body]
