"""The sections that no example document holds: a new header, a phase that failed, numbers that are not current."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from campaign.document import find
from campaign.phases.kind import Row
from campaign.render import Markdown, Provenance, Renderer, shipped_templates

GOLDEN = Path(__file__).resolve().parents[1] / "data" / "golden"
CAMPAIGN = {"title": "Tiny | model", "variant": {}, "figures": "figures"}
EVIL = "line 1\nline 2 | `x` <!-- campaign:end macro --> {{ x }}"
SOURCE = Provenance(
    command="python -m campaign.measure.macro --config in.json --out out.json", attempt=2,
    finished_at="2026-11-30T08:00:00+00:00", duration_s=12.3, device="cpu", versions={"campaign": "0.1.0"},
    result_path="state/results/macro/2/result.json", result_hash="0123456789abcdef",
)  # fmt: skip


def phase(status: str, reason: str = "", origin: str = "config") -> Row:
    return Row(
        id="macro", kind="macro", title="Throughput and latency", status=status, reason=reason, attempt=2, origin=origin
    )  # fmt: skip


CASES: dict[str, tuple[str, dict[str, object]]] = {
    "header": (
        "header.md.j2",
        {"date": "2026-11-30", "model": EVIL, "hardware": "8x GPU", "engine": "vllm 0.32.0, TP 2"},
    ),
    "failed": ("failed.md.j2", {"phase": phase("failed", EVIL), "points": 3}),
    "blocked": ("failed.md.j2", {"phase": phase("blocked", "TP 1 has no collectives"), "points": 0}),
    "stale": (
        "section.md.j2",
        {
            "phase": phase("stale", "parameters.repeats 3 → 5"),
            "body": Markdown("A number: 7."),
            "provenance": SOURCE,
            "origin": (),
        },
    ),
    "follow-up": (
        "section.md.j2",
        {
            "phase": phase("done", EVIL, "rule:noise"),
            "body": Markdown("A number: 7."),
            "provenance": SOURCE,
            "origin": (),
        },
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_golden__section(name: str) -> None:
    template, variables = CASES[name]
    text = Renderer([shipped_templates()]).render(template, {**variables, "campaign": CAMPAIGN})
    path = GOLDEN / f"{name}.md"
    if os.environ.get("CAMPAIGN_GOLDEN") == "update":
        path.write_text(text)
    assert text == path.read_text()
    assert find(text.encode()) == ()  # what a value says never becomes a marker
