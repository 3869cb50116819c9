"""The shapes command, as a person and as a program read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from campaign.cli.shapes import shapes
from campaign.errors import ConfigError
from tests.model.test_sharding import CONFIGS


def test_shapes__json_has_the_arithmetic() -> None:
    arguments = [str(CONFIGS / "kimi-k2.5.json"), "--tp", "8", "--json", "--device", "RTX PRO 6000 Blackwell"]
    result = CliRunner().invoke(shapes, arguments, catch_exceptions=False)
    found = json.loads(result.output)
    assert (found["schema"], found["schema_version"]) == ("campaign-shapes", 1)
    assert found["layers"] == {"dense": 1, "moe": 60}
    assert found["allreduces_per_step"] == 123
    assert found["message_bytes"]["1"] == 14336
    assert found["weight_bytes_per_step"]["1"] == pytest.approx(6.03e9, rel=1e-3)
    assert sum(found["floor_ms"]["1"][category] for category in ("gemm", "moe_gemm")) == pytest.approx(3.36, abs=0.02)
    shapes_found = {line["kind"]: (line["n"], line["k"]) for line in found["linears"]}
    assert shapes_found["moe_gate_up"] == (512, 7168)


def test_shapes__text_says_what_is_unknown(tmp_path: Path) -> None:
    config = json.loads((CONFIGS / "llama-3.3-70b.json").read_text()) | {"architectures": ["Odd"], "model_type": "odd"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    result = CliRunner().invoke(shapes, [str(tmp_path), "--tp", "2"], catch_exceptions=False)
    assert "unknown: architecture 'Odd' is not known" in result.output
    assert "161" not in result.output.split("all_reduce")[0]
    assert "80 × all_reduce of 16384 bytes a token (attention output)" in result.output


@pytest.mark.parametrize("arguments", [["/nowhere/at/all"], [str(CONFIGS / "tiny-llama.json"), "--device", "Abacus"]])
def test_shapes__errors_say_what_to_type(arguments: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"Give a folder|write one of"):
        CliRunner().invoke(shapes, arguments, catch_exceptions=False)
