"""`shapes MODEL --tp N`: the model arithmetic as a table or as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from campaign import host, schema
from campaign.errors import ConfigError
from campaign.model import KNOWN, Device, Linear, Shards, find_device, linear_floor_us, read_model, shard

BATCHES = (1, 16, 64)


@click.command()
@click.argument("model")
@click.option("--tp", default=1, show_default=True, help="Ranks that share each layer (tensor parallelism).")
@click.option("--ep", default=1, show_default=True, help="Ranks that hold experts whole; 1 = experts are sharded.")
@click.option("--dp", default=1, show_default=True, help="Data-parallel groups of --tp ranks.")
@click.option("--device", "device_name", default="", help="Floors for this device, e.g. H200; default: the one here.")
@click.option("--context", default=1024, show_default=True, help="Tokens of context a sequence, for KV bytes.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def shapes(*, model: str, tp: int, ep: int, dp: int, device_name: str, context: int, as_json: bool) -> None:
    """Layers, shard shapes, bytes, collectives a step and floors of MODEL (a folder with config.json, or the file)."""
    shards = shard(read_model(host.read_model_config(find_config(model))), tp, ep, dp)
    device = choose_device(device_name)
    if as_json:
        click.echo(schema.encode_pretty(describe(shards, device, context)).decode(), nl=False)
    else:
        click.echo("\n".join(lines_of(shards, device, context)))


def find_config(model: str) -> str:
    """The config.json of a folder, of a file, or of a hub id that is in the local cache.

    Raises `ConfigError` where there is none; nothing is downloaded.
    """
    if Path(model).exists():
        return model
    try:
        from huggingface_hub import try_to_load_from_cache

        cached = try_to_load_from_cache(model, "config.json")
    except (ImportError, ValueError):
        cached = None
    if isinstance(cached, str):
        return cached
    raise ConfigError(
        f"{model}: no such folder or file, and not in the local hub cache. Give a folder with config.json."
    )


def choose_device(name: str) -> Device | None:
    """The device asked for, or the GPU of this machine where it is known; None = no floors.

    Raises `ConfigError` for a name that is not known.
    """
    if not name:
        return find_device(host.read_host("cuda").device)
    device = find_device(name)
    if device is None:
        known = ", ".join(each.name for each in KNOWN)
        raise ConfigError(f"--device {name!r} is not known; write one of {known}.")
    return device


def describe(shards: Shards, device: Device | None, context: int) -> dict[str, Any]:
    """Everything as plain values, for `--json`."""
    model = shards.model
    return {
        "schema": "campaign-shapes",
        "schema_version": 1,
        "architecture": model.architecture,
        "layers": {"dense": model.dense_layers, "moe": len(model.moe_layers)},
        "hidden_size": model.hidden_size,
        "tp": shards.tp,
        "ep": shards.ep,
        "dp": shards.dp,
        "unknown": shards.unknown,
        "linears": [_linear(linear) for linear in shards.linears],
        "prefill_linears": [_linear(linear) for linear in shards.prefill_linears],
        "collectives": shards.collectives,
        "allreduces_per_step": shards.collectives_per_step,
        "layer_allreduces": shards.layer_allreduces,
        "message_bytes": {str(batch): shards.message_bytes(batch) for batch in BATCHES},
        "weight_bytes_held": shards.weight_bytes_held(),
        "weight_bytes_per_step": {str(batch): shards.weight_bytes_per_step(batch) for batch in BATCHES},
        "kv_bytes_per_token": shards.kv_bytes_per_token,
        "device": device,
        "floor_ms": {str(batch): shards.floor_ms(device, batch, context) for batch in BATCHES} if device else {},
    }


def _linear(linear: Linear) -> dict[str, Any]:
    described = dict(schema.builtins(linear))
    described.pop("distinct")
    return described | {"weight_bytes": linear.weight_bytes}


def lines_of(shards: Shards, device: Device | None, context: int) -> list[str]:
    """The report for people."""
    model = shards.model
    lines = [
        f"{model.architecture}: {model.dense_layers} dense + {len(model.moe_layers)} MoE layers, "
        f"hidden {model.hidden_size}, TP {shards.tp}, EP {shards.ep}, DP {shards.dp}",
        *(f"unknown: {text}" for text in shards.unknown),
        "",
        *_table(shards, device),
        "",
    ]
    lines += [
        f"{c.calls} × {c.operation} of {c.bytes_per_token} bytes a token ({c.what})" for c in shards.collectives
    ] or ["no collectives: one rank holds the whole model"]
    lines.append(f"KV cache: {shards.kv_bytes_per_token} bytes a token and rank")
    for batch in BATCHES:
        lines.append(f"batch {batch}: {shards.weight_bytes_per_step(batch) / 1e9:.3g} GB of weights a step and rank")
        if device is not None:
            floors = shards.floor_ms(device, batch, context)
            each = ", ".join(f"{category} {floor:.3g} ms" for category, floor in floors.items())
            lines[-1] += f"; floors on {device.name} at {context} tokens of context: {each}"
    return lines


def _table(shards: Shards, device: Device | None) -> list[str]:
    headers = ["layer", "N × K", "matrices", "weights", "calls", "MB a call", "floor µs"]
    rows = []
    for linear in shards.linears:
        floor_us = linear_floor_us(linear, device, 1) if device else None
        cells = [linear.kind, f"{linear.n} × {linear.k}" + (" r" if linear.is_replicated else ""), str(linear.matrices)]
        cells += [linear.label, str(linear.calls), f"{linear.bytes_read(1) / 1e6:.3g}"]
        rows.append([*cells, "–" if floor_us is None else f"{floor_us:.3g}"])
    widths = [max(len(row[i]) for row in [headers, *rows]) for i in range(len(headers))]
    numeric = {2, 4, 5, 6}
    return [
        "  ".join(c.rjust(w) if i in numeric else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in [headers, *rows]
    ]
