"""Names of engine annotations → what kind of step they announce and its batch size."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from campaign.errors import UsageError

StepKind = Literal["decode", "prefill", "mixed", "empty", "step"]


_KINDS: Final[dict[str, StepKind]] = {
    "decode": "decode",
    "prefill": "prefill",
    "mixed": "mixed",
    "empty": "empty",
}


class Announcement(NamedTuple):
    """What an annotation's name says."""

    kind: StepKind
    """`step` where the name does not tell."""
    batch: int | None


#: SGLang's modes; others (DRAFT of speculative decoding) are no decode step of their own.
_SGLANG_KINDS: Final[dict[str, StepKind]] = {
    "DECODE": "decode",
    "VERIFY": "decode",
    "TARGET_VERIFY": "decode",
    "EXTEND": "prefill",
    "MIXED": "mixed",
    "IDLE": "empty",
}
_VLLM: Final = re.compile(r"^execute_(?:\d+_)?context_(\d+)\([^)]*\)_generation_(\d+)\([^)]*\)")
_VLLM_OLD: Final = re.compile(r"^execute_new_(\d+)_cached_(\d+)")
_SGLANG: Final = re.compile(r"^step\[(\w+)(?:\s+bs=(\d+))?")
_PROFILER: Final = re.compile(r"^ProfilerStep#\d+")


def announced(name: str) -> Announcement | None:
    """Read a name of vLLM, SGLang or torch's profiler; None where it announces no step."""
    match = _VLLM.match(name) or _VLLM_OLD.match(name)
    if match is not None:
        return _from_counts(int(match.group(1)), int(match.group(2)))
    match = _SGLANG.match(name)
    if match is not None:
        mode, batch = match.group(1).upper(), match.group(2)
        return Announcement(_SGLANG_KINDS.get(mode, "mixed"), int(batch) if batch else None)
    if _PROFILER.match(name):
        return Announcement("step", None)
    return None


def _from_counts(context: int, generation: int) -> Announcement:
    if context and generation:
        return Announcement("mixed", context + generation)
    if context:
        return Announcement("prefill", context)
    return Announcement("decode", generation) if generation else Announcement("empty", 0)


def announcements(names: Sequence[str], step_regex: str | None) -> dict[int, Announcement]:
    """Index of a name → its announcement; with `step_regex` only names that it finds (groups `batch`, `kind` are read).

    Engine names win over ProfilerStep#, whose steps count as decode: nothing says otherwise.
    Raises `UsageError` for a pattern that is none.
    """
    if step_regex is not None:
        return _by_regex(names, step_regex)
    found = {i: a for i, a in ((i, announced(name)) for i, name in enumerate(names)) if a is not None}
    engine = {i: a for i, a in found.items() if a.kind != "step"}
    return engine or {i: Announcement("decode", a.batch) for i, a in found.items()}


def _by_regex(names: Sequence[str], step_regex: str) -> dict[int, Announcement]:
    try:
        pattern = re.compile(step_regex)
    except re.error as error:
        raise UsageError(
            f"--step-regex {step_regex!r}: {error}. Write a Python pattern, e.g. 'ProfilerStep#'."
        ) from error
    found: dict[int, Announcement] = {}
    for index, name in enumerate(names):
        match = pattern.search(name)
        if match is None:
            continue
        known = announced(name) or Announcement("decode", None)
        groups = match.groupdict()
        batch = int(groups["batch"]) if (groups.get("batch") or "").isdigit() else known.batch
        kind = _KINDS.get(groups.get("kind") or "", known.kind if known.kind != "step" else "decode")
        found[index] = Announcement(kind, batch)
    return found
