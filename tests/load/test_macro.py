"""The macro phase: script, durable points, analysis, template, figures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from campaign import schema
from campaign.errors import ConfigError
from campaign.load import rawfile
from campaign.load.plan import Limits
from campaign.measurement import points_path, read_points
from campaign.phases.kind import Analysis, Context, ServerAccess, Target
from campaign.phases.macro import KIND
from campaign.phases.macro_data import MacroConfig, MacroData
from campaign.phases.macro_parameters import MacroParameters
from campaign.render import Renderer
from campaign.schema import Result
from tests.load.truth import TruthServer

ROOT = Path(__file__).resolve().parents[2]


def context(url: str, model: str) -> Context:
    """A campaign on a server."""
    return Context(
        target=Target(model="m", config_path="nowhere", tensor_parallel=2),
        server=ServerAccess(url=url, model=model, world_size=2),
    )


def config(url: str, model: str, **parameters: object) -> MacroConfig:
    """The script's config for parameters as a person writes them."""
    given = msgspec.convert(parameters, type=MacroParameters)
    made = KIND.configure(given, context(url, model))
    assert isinstance(made, MacroConfig)
    return made


def analyze(result: Result, where: Context) -> Analysis:
    """The phase's analysis of a result."""
    assert KIND.analyze is not None
    return KIND.analyze(result, where)


def measure(folder: Path, given: MacroConfig) -> subprocess.CompletedProcess[str]:
    """Run the script."""
    (folder / "in.json").write_bytes(schema.encode(given))
    command = [sys.executable, "-m", "campaign.measure.macro"]
    command += ["--config", str(folder / "in.json"), "--out", str(folder / "result.json")]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


def result_of(folder: Path) -> Result:
    """The result it wrote."""
    return schema.decode((folder / "result.json").read_bytes(), Result)


def test_macro__measures_analyses_and_renders(paced: TruthServer, tmp_path: Path) -> None:
    given = config(
        *(paced.url, "itl=2000"), concurrency=[1, 4], output_tokens=12, input_tokens=16, slo={"ttft_ms": 900}
    )
    done = measure(tmp_path, given)
    assert done.returncode == 0, done.stderr
    result = result_of(tmp_path)
    data = schema.decode(result.data, MacroData)
    assert [point.key for point in read_points(points_path(tmp_path / "result.json"))] == list(KIND.points(given))
    assert len(data.cells) == 6
    assert all(cell.server.tokens_match for cell in data.cells)
    analysis = analyze(result, context(paced.url, "itl=2000"))
    values = {q.name: q for q in analysis.quantities}
    tpot = values["macro.tpot_ms.c1"]
    assert tpot.value is not None and 1.9 < tpot.value < 10
    assert tpot.low is not None and tpot.high is not None and tpot.low <= tpot.value <= tpot.high
    assert values["macro.client_tokens"].value == values["macro.server_tokens"].value == 6 * 8 * 12
    text = Renderer([ROOT / "templates"]).render(
        "macro.md.j2",
        {name: getattr(analysis.view, name) for name in analysis.view.__struct_fields__}
        | {"phase": {"id": "macro", "title": KIND.title}, "campaign": {}},
    )
    assert len([line for line in text.splitlines() if line.startswith("|") and "runs" in line]) == 2
    assert "Goodput counts requests with TTFT" in text
    figures = analysis.figures()
    assert [figure.name for figure in figures] == ["macro-concurrency.svg", "macro-pareto.svg"]
    assert figures == analyze(result, context(paced.url, "itl=2000")).figures()
    assert b"<dc:date>" not in figures[0].svg


def test_macro__raw_times_give_the_cells_numbers_again(paced: TruthServer, tmp_path: Path) -> None:
    given = config(paced.url, "itl=2000", concurrency=2, output_tokens=12, input_tokens=16, repeats=1)
    assert measure(tmp_path, given).returncode == 0
    (cell,) = schema.decode(result_of(tmp_path).data, MacroData).cells
    (raw,) = rawfile.read(rawfile.path_beside(tmp_path / "result.json"))
    gaps = sorted(gap for request in raw.requests for gap in request.gaps_us)
    assert len(gaps) == cell.chunk_gap_ms.n == 8 * 11
    assert sum(gaps) / len(gaps) / 1e3 == pytest.approx(cell.chunk_gap_ms.mean, abs=0.01)


def test_macro__goes_on_where_it_was_and_keeps_failed_cells_out(paced: TruthServer, tmp_path: Path) -> None:
    parameters: dict[str, object] = {"concurrency": [1, 2], "output_tokens": 6, "input_tokens": 8, "repeats": 1}
    bad = config(paced.url, "itl=500;fault=close;every=5", **parameters)
    failed = measure(tmp_path, bad)
    assert failed.returncode == 3
    assert "requests failed" in failed.stderr
    good = msgspec.structs.replace(bad, server=ServerAccess(url=paced.url, model="itl=500"))
    assert measure(tmp_path, good).returncode == 0
    before = (tmp_path / "result.points.jsonl").read_bytes()
    requests = len(paced.bodies())
    assert measure(tmp_path, good).returncode == 0
    assert (tmp_path / "result.points.jsonl").read_bytes() == before
    assert len(paced.bodies()) == requests


def test_macro__a_chat_of_several_turns(paced: TruthServer, tmp_path: Path) -> None:
    asked: dict[str, object] = {"api": "chat", "turns": 2, "think_s": 0.01, "sampling": {"temperature": 0.7}}
    asked |= {"concurrency": 2, "output_tokens": 4, "input_tokens": 8, "repeats": 1, "requests": 4}
    given = config(paced.url, "itl=500", **asked)
    assert measure(tmp_path, given).returncode == 0
    (cell,) = schema.decode(result_of(tmp_path).data, MacroData).cells
    assert (cell.completed, cell.failed) == (8, 0)
    assert cell.prompts == "random words, 2 turns with the server's answers"
    measured = [body for body in paced.bodies() if len(body["messages"]) == 3]
    assert len(measured) == 4
    assert all(body["temperature"] == 0.7 for body in paced.bodies())
    analysis = analyze(result_of(tmp_path), context(paced.url, "itl=500"))
    assert {q.name for q in analysis.quantities} >= {"macro.tpot_ms.c2", "macro.client_tokens"}


def test_macro__what_is_not_asked_for_changes_no_input_of_old_results() -> None:
    """A field that came later would make every result stale; it stands in the config only where it is used."""
    plain = schema.builtins(config("http://127.0.0.1:1", "m"))
    assert not {"api", "sampling", "turns", "think_s"} & set(plain)
    asked = schema.builtins(config("http://127.0.0.1:1", "m", turns=3, api="chat"))
    assert (asked["turns"], asked["api"]) == (3, "chat")


def test_macro__a_ramp(paced: TruthServer, tmp_path: Path) -> None:
    asked: dict[str, object] = {"rate": 40, "rate_from": 10, "arrival": "ramp", "concurrency": [], "repeats": 1}
    given = config(paced.url, "itl=500", requests=20, output_tokens=3, input_tokens=8, **asked)
    assert measure(tmp_path, given).returncode == 0
    (cell,) = schema.decode(result_of(tmp_path).data, MacroData).cells
    assert cell.rate_achieved == pytest.approx(25, rel=0.15)  # the mean of a ramp from 10 to 40


def test_macro__parameters_that_cannot_be_used() -> None:
    wrong: tuple[dict[str, object], ...] = ({"concurrency": [1, 1]}, {"arrival": "soon"}, {"concurrency": []})
    for parameters in wrong:
        with pytest.raises(ConfigError):
            config("http://127.0.0.1:1", "m", **parameters)
    with pytest.raises(msgspec.ValidationError):
        config("http://127.0.0.1:1", "m", concurency=3)


def test_macro__dead_server_is_a_failure_with_a_reason(tmp_path: Path) -> None:
    given = msgspec.structs.replace(config("http://127.0.0.1:9", "m"), limits=Limits(reconnect_s=0.3))
    done = measure(tmp_path, given)
    assert done.returncode == 3
    assert "every warm-up request failed" in done.stderr
