"""Memory of a process and all below it."""

from __future__ import annotations

from pathlib import Path


def tree_mb(pid: int) -> float | None:
    """MiB: the larger of the process's own peak so far and the proportional memory of it and its descendants now.

    None where it has ended. (getrusage's peak would count the parent's memory at the fork.)
    """
    total, todo = 0, [pid]
    own = _kilobytes(Path(f"/proc/{pid}/status"), "VmHWM:")
    if own is None:
        return None
    while todo:
        one = todo.pop()
        total += _kilobytes(Path(f"/proc/{one}/smaps_rollup"), "Pss:") or 0
        try:
            for task in Path(f"/proc/{one}/task").iterdir():
                todo += [int(child) for child in (task / "children").read_text().split()]
        except (OSError, ValueError):
            continue
    return max(total, own) / 1024


def _kilobytes(path: Path, key: str) -> int | None:
    try:
        return next(int(line.split()[1]) for line in path.read_text().splitlines() if line.startswith(key))
    except (OSError, StopIteration, ValueError):
        return None
