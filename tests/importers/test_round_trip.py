"""A cell in the form of vllm bench serve and back: what the form holds comes back as it was."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from campaign import schema
from campaign.load.cell import Cell
from campaign.load.export import vllm_result
from campaign.load.record import Record
from campaign.load.share import Share
from campaign.load.slo import Slo
from campaign.load.summary import Asked, cell_of
from campaign.phases.macro_data import MacroData
from campaign.runner.importing import read_imports
from campaign.runner.opening import OpenCampaign
from campaign.state import PhaseState


def records(count: int, failed: int = 0, seed: int = 1) -> list[Record]:
    """Streams of 20 tokens, one a chunk, over about 300 ms each, four at a time."""
    random_ = random.Random(seed)
    made = []
    for index in range(count):
        sent = index // 4 * 400_000_000 + random_.randrange(1_000_000)
        times, now = [], sent + 50_000_000 + random_.randrange(20_000_000)
        for _ in range(20):
            times.append(now)
            now += 10_000_000 + random_.randrange(6_000_000)
        is_failed = index < failed
        made.append(
            Record(
                index=index,
                sent_ns=sent,
                end_ns=times[-1] + 100_000,
                chunk_ns=tuple(times[:3] if is_failed else times),
                chunk_tokens=tuple([1] * (3 if is_failed else 20)),
                input_tokens=128,
                output_tokens=3 if is_failed else 20,
                error="cut: the stream ended" if is_failed else "",
            )
        )
    return made


def there_and_back(campaign: OpenCampaign, path: Path, cell: Cell, of: list[Record]) -> Cell:
    path.write_text(json.dumps(vllm_result(cell, of, model="kimi")))
    result = read_imports(campaign, campaign.entry(PhaseState(id="macro", kind="macro")), [path])
    (back,) = schema.decode(bytes(result.data), MacroData).cells
    return back


@pytest.mark.parametrize(("count", "failed"), [(8, 0), (240, 0), (40, 3)])
def test_round_trip__keeps_what_the_form_holds(campaign: OpenCampaign, tmp_path: Path, count: int, failed: int) -> None:
    of = records(count, failed)
    share = Share(
        records=of, lags_ns=[], cpu_s=0.1, busy=0.1, stamps="kernel", missing_stamps=0, clock_step_ns=0, wall_s=1.0
    )
    cell = cell_of(Asked(concurrency=4, input_tokens=128, output_tokens=20, slo=Slo(tpot_ms=15.0)), [share], None)
    back = there_and_back(campaign, tmp_path / "result.json", cell, of)
    for name in (
        *("concurrency_asked", "completed", "failed", "rate_asked", "input_tokens_asked", "output_tokens_asked"),
        *("concurrency_peak", "output_tok_s_peak", "errors"),
    ):
        assert getattr(back, name) == getattr(cell, name), name
    assert back.duration_s == pytest.approx(cell.duration_s, rel=1e-9)
    for name in ("ttft_ms", "itl_ms", "chunk_gap_ms", "tpot_ms", "e2el_ms"):
        was, now = getattr(cell, name), getattr(back, name)
        assert now.n == was.n, name
        for field in ("mean", "p50", "p90", "p95", "p99"):
            kept, held = getattr(now, field), getattr(was, field)
            assert (kept is None) == (held is None), (name, field)
            assert held is None or kept == pytest.approx(held, rel=1e-8), (name, field)
    assert (back.goodput is None) == (cell.goodput is None)
    if cell.goodput is not None and back.goodput is not None:
        assert back.goodput.req_s == pytest.approx(cell.goodput.req_s, rel=1e-9)
