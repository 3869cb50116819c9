"""Small campaigns of registered kinds with real, quick scripts: without a server, and with one."""

from __future__ import annotations

from pathlib import Path

from campaign.phases import collectives, environment, gemm, macro, profile, synthesis
from campaign.phases.kind import PhaseKind
from campaign.server import make_tiny_model
from tests.reliability.quick_server import Served

SMALL = """\
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

[[phase]]
kind = "synthesis"
"""

WHOLE = """\
[campaign]
title = "A whole drill"

[target]
model = "model"
tensor_parallel = 2

[server]
manage = false
url = "{url}"
profile_dir = "{profile_dir}"

[[phase]]
kind = "environment"

[[phase]]
kind = "gemm"
kinds = ["router"]
batch = [1, 2]
samples = 3
memory_limit_gb = 0.01

[[phase]]
kind = "collectives"
batch = [1]
sizes_bytes = []
operations = ["all_reduce"]
samples = 3

[[phase]]
kind = "macro"
input_tokens = 8
output_tokens = 4
concurrency = []
rate = [100, 200]
requests = 2
repeats = 1

[[phase]]
kind = "profile"
batch = 1
steps = 4
input_tokens = 8

[[phase]]
kind = "synthesis"
"""
#: The phases of the whole campaign in their order; the last one reads the others.
WHOLE_PHASES = ("environment", "gemm", "collectives", "macro", "profile", "synthesis")


def drill_kinds() -> tuple[PhaseKind, ...]:
    """The kinds of the catalog that the drills' campaigns have."""
    return tuple(module.KIND for module in (environment, macro, gemm, collectives, profile, synthesis))


def make_campaign(folder: Path, server: Served | None = None) -> Path:
    """A campaign folder that has not begun: the small one, or with a server the whole one; returns it."""
    folder.mkdir(parents=True)
    make_tiny_model(folder / "model")
    text = WHOLE.format(url=server.url, profile_dir=server.folder) if server else SMALL
    (folder / "campaign.toml").write_text(text)
    return folder.resolve()
