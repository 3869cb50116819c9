"""What NCCL says of its choices: a short run of its own with the tuning log on, read line by line."""

from __future__ import annotations

import re
from pathlib import Path

from campaign.phases.collectives_data import NcclChoice

#: Turn the log on, one file a process, so that nothing else is mixed into it.
VARIABLES = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "TUNING"}
#: Numbers that older versions print for names (nccl.h's order).
ALGORITHMS = ("Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT")
PROTOCOLS = ("LL", "LL128", "Simple")
_CHOICE = re.compile(r"(\w+): (\d+) Bytes -> Algo (\w+) proto (\w+)")


def variables(folder: Path) -> dict[str, str]:
    """Environment of a run that writes its log to `folder`."""
    return VARIABLES | {"NCCL_DEBUG_FILE": str(folder / "nccl.%h.%p.log")}


def read_choices(folder: Path) -> tuple[NcclChoice, ...]:
    """The choices in the logs of `folder`, by operation and size, each once."""
    found: dict[tuple[str, int], NcclChoice] = {}
    for log in sorted(folder.glob("nccl.*.log")):
        for match in _CHOICE.finditer(log.read_text(errors="replace")):
            choice = _choice(*match.groups())
            found.setdefault((choice.operation, choice.size_bytes), choice)
    return tuple(found[key] for key in sorted(found))


def _choice(operation: str, size: str, algorithm: str, protocol: str) -> NcclChoice:
    return NcclChoice(
        operation=operation,
        size_bytes=int(size),
        algorithm=_name(algorithm, ALGORITHMS),
        protocol=_name(protocol, PROTOCOLS),
    )


def _name(written: str, names: tuple[str, ...]) -> str:
    if written.isdigit() and int(written) < len(names):
        return names[int(written)]
    return written
