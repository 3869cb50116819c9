"""Run measurement scripts as the runner does: a process of its own, a config file, a result file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from campaign import schema
from campaign.phases.kind import Analysis, Context, PhaseKind, Target
from campaign.render import Renderer

ROOT = Path(__file__).parent.parent.parent
CONFIGS = ROOT / "tests" / "data" / "configs"


def context_of(name: str, tp: int = 1, ep: int = 1) -> Context:
    """A CPU target of one of our test configs."""
    path = str(CONFIGS / f"{name}.json")
    return Context(target=Target(model=name, config_path=path, tensor_parallel=tp, expert_parallel=ep))


def configure(kind: PhaseKind, context: Context, **parameters: Any) -> msgspec.Struct:
    """The script's config for parameters as a person writes them."""
    return kind.configure(msgspec.convert(parameters, kind.parameters), context)


def start(kind: PhaseKind, config: msgspec.Struct, folder: Path) -> subprocess.Popen[str]:
    """Start the script; its result will be `folder`/result.json."""
    (folder / "in.json").write_bytes(schema.encode(config))
    files = ["--config", str(folder / "in.json"), "--out", str(folder / "result.json")]
    command = [sys.executable, "-m", f"campaign.measure.{kind.name}", *files]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, process_group=0)


def run(kind: PhaseKind, config: msgspec.Struct, folder: Path) -> tuple[schema.Result, str]:
    """Run the script to its end; its result and its log."""
    process = start(kind, config, folder)
    _, log = process.communicate(timeout=120)
    assert process.returncode == 0, log
    return schema.decode((folder / "result.json").read_bytes(), schema.Result), log


def analyze(kind: PhaseKind, result: schema.Result, context: Context) -> Analysis:
    """What the phase makes of a result."""
    assert kind.analyze is not None
    return kind.analyze(result, context)


def values(analysis: Analysis) -> dict[str, float | None]:
    """Quantities by name."""
    names = [quantity.name for quantity in analysis.quantities]
    assert len(names) == len(set(names)), "a name is published twice"
    return {quantity.name: quantity.value for quantity in analysis.quantities}


def render(kind: PhaseKind, analysis: Analysis) -> str:
    """The phase's text as the document has it."""
    view = {name: getattr(analysis.view, name) for name in analysis.view.__struct_fields__}
    phase = {"id": kind.name, "kind": kind.name, "attempt": 1, "status": "done", "title": kind.title}
    return Renderer([ROOT / "templates"]).render(kind.template, {**view, "phase": phase, "campaign": {"title": "test"}})
