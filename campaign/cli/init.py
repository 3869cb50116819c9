"""init: a commented campaign.toml to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from campaign import files
from campaign.cli.hints import typed
from campaign.config import parse
from campaign.errors import UsageError
from campaign.phases.catalog import KINDS
from campaign.store import FILE_NAME

_HEAD = """\
# A profiling campaign. `python -m campaign plan` says what a resume would do; doc/guide/config.md explains every key.

[campaign]
title = "Profiling campaign"

[target]
model = {model}                 # a folder with config.json, or a hub id in the local cache
tensor_parallel = 1

[server]
"""
_MANAGED = """\
# args = ["--max-num-seqs", "64"]   # vLLM's own arguments; the campaign starts and stops the server
url = "http://127.0.0.1:8000"
# profile_ready = true              # one load, with the profiler configured, serves macro and profile
"""
_ATTACHED = """\
manage = false                      # your server: measured, never stopped
url = {url}
# api_key_env = "MY_API_KEY"        # name of the environment variable that holds the key
# profile_dir = "/shared/profiles"  # where its profiler writes, if it has one
"""
_PHASES = """
[[phase]]
kind = "environment"

[[phase]]
kind = "macro"
input_tokens = 128
output_tokens = 128
concurrency = [1, 4, 16]
repeats = 3
# slo = { ttft_ms = 2000, tpot_ms = 50 }

[[phase]]
kind = "gemm"

[[phase]]
kind = "collectives"

[[phase]]
kind = "profile"
batch = [1, 16]

[[phase]]
kind = "synthesis"

# What you believe, before it is measured:
# [[hypothesis]]
# claim = "Expert GEMMs bound decode"
# holds_if = 'share("moe_gemm") > share("allreduce")'

[planner]
follow_ups = 1                      # phases that findings may ask for
"""


@click.command()
@click.option("--model", default="", help="A folder with config.json, or a hub id.")
@click.option("--url", default="", help="A server that runs already: measured, never stopped.")
@click.pass_obj
def init(obj: dict[str, Any], model: str, url: str) -> int:
    """Write a commented campaign.toml; an existing one is left alone."""
    path: Path = obj["dir"] / FILE_NAME
    if path.exists():
        raise UsageError(f"{path} exists already; it is left alone. Edit it, or name another folder with --dir.")
    text = config_text(model, url)
    parse(text, KINDS, name=str(path))
    files.write_atomic(path, text.encode())
    click.echo(typed(f"{path} written. Look it over, then: python -m campaign resume"))
    return 0


def config_text(model: str, url: str) -> str:
    """The text of a new campaign.toml."""
    head = _HEAD.replace("{model}", _quoted(model or "org/model"))
    server = _ATTACHED.replace("{url}", _quoted(url)) if url else _MANAGED
    return head + server + _PHASES


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
