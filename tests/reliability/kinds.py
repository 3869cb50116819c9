"""The registered kinds that need no server, and a small campaign of them with real, quick scripts."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

from campaign.phases.kind import PhaseKind
from campaign.server import make_tiny_model

CAMPAIGN = """\
[campaign]
title = "A drill"

[target]
model = "model"
tensor_parallel = 1

[[phase]]
kind = "environment"

[[phase]]
kind = "gemm"
kinds = ["router"]
batch = [1, 2]
samples = 3
memory_limit_gb = 0.01
"""

SYNTHESIS = '\n[[phase]]\nkind = "synthesis"\n'


def drill_kinds() -> tuple[PhaseKind, ...]:
    """Kinds of the catalog that measure without a server, and the one that reads them together."""
    names = ("environment", "gemm", "collectives", "synthesis")
    return tuple(importlib.import_module(f"campaign.phases.{name}").KIND for name in names if _exists(name))


def _exists(name: str) -> bool:
    return importlib.util.find_spec(f"campaign.phases.{name}") is not None


def make_campaign(folder: Path) -> Path:
    """A campaign folder that has not begun; returns it."""
    folder.mkdir(parents=True)
    make_tiny_model(folder / "model")
    text = CAMPAIGN + (SYNTHESIS if _exists("synthesis") else "")
    (folder / "campaign.toml").write_text(text)
    return folder.resolve()
