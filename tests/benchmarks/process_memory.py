"""Memory of a process and all below it."""

from __future__ import annotations

from pathlib import Path


def tree_mb(pid: int) -> float | None:
    """Proportional memory of the process and its descendants in MB (10⁶ × 1.048576); None where it has ended."""
    total, todo, is_alive = 0, [pid], False
    while todo:
        one = todo.pop()
        try:
            rollup = Path(f"/proc/{one}/smaps_rollup").read_text()
            total += next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
            is_alive = is_alive or one == pid
            for task in Path(f"/proc/{one}/task").iterdir():
                todo += [int(child) for child in (task / "children").read_text().split()]
        except (OSError, StopIteration, ValueError):
            continue
    return total / 1024 if is_alive else None
