"""The campaign's quantities by name, with the short names that people type in hypotheses."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from campaign.analysis.interval import Interval, span
from campaign.schema import Quantity

#: Short name → dotted name. `tests/analysis` keeps this table and the guide equal.
ALIASES = {
    "step_ms": "profile.step_ms",
    "idle_ms": "profile.idle_ms",
    "batch": "profile.batch",
    "burst_ms": "collectives.burst_ms",
    "burst_graph_ms": "collectives.burst_graph_ms",
    "burst_calls": "collectives.burst_calls",
    "gemm_ms": "gemm.step_ms",
    "tpot_ms": "macro.tpot_ms.c1",
    "itl_ms": "macro.itl_ms.c1",
    "ttft_ms": "macro.ttft_ms.c1",
    "output_tok_s": "macro.output_tok_s.c1",
    "rank_spread_ms": "profile.rank_spread_ms",
    "unclassified_share": "profile.unclassified_share",
}

#: Every category that a trace can be split into (the trace analysis' names).
CATEGORIES = (
    "allreduce", "comm_other", "gemm", "moe_gemm", "moe_router", "attention", "rms_norm", "rope", "silu_mul",
    "kv_cache", "quantize", "sampling", "copy", "compiled", "other",
)  # fmt: skip
#: Categories whose kernels may belong to any other one.
UNKNOWN = ("other", "compiled")

#: Note of a macro cell that could not hold its concurrency.
CAPACITY_LIMITED = "capacity-limited"


class Readings:
    """Lookup of quantities; a null value counts as not measured."""

    def __init__(self, quantities: Iterable[Quantity]) -> None:
        self._by_name: dict[str, Quantity] = {}
        for quantity in quantities:
            known = self._by_name.get(quantity.name)
            if known is None or known.value is None:
                self._by_name[quantity.name] = quantity

    def __iter__(self) -> Iterator[Quantity]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def names(self) -> tuple[str, ...]:
        """Dotted names of everything published, measured or not."""
        return tuple(self._by_name)

    def find(self, name: str) -> Quantity | None:
        """The quantity of that dotted or short name, if it has a finite value."""
        quantity = self._by_name.get(ALIASES.get(name, name))
        if quantity is None or quantity.value is None or not math.isfinite(quantity.value):
            return None
        return quantity

    def value(self, name: str) -> float | None:
        """Its value, or None."""
        quantity = self.find(name)
        return None if quantity is None else quantity.value

    def interval(self, name: str) -> Interval | None:
        """Its value with what noise leaves open, or None."""
        quantity = self.find(name)
        if quantity is None or quantity.value is None:
            return None
        return span(quantity.value, quantity.low, quantity.high)

    def keys(self, prefix: str) -> dict[str, float]:
        """key → value of every measured `<prefix>.<key>` without a batch suffix, in the order of publication."""
        head = prefix + "."
        found = {}
        for name in self._by_name:
            key = name.removeprefix(head)
            if name.startswith(head) and "@" not in key and (value := self.value(name)) is not None:
                found[key] = value
        return found

    def only_batch(self, batch: int) -> Readings:
        """What was published for that batch (`@b<batch>`), under the plain names."""
        suffix = f"@b{batch}"
        return Readings(
            msgspec.structs.replace(q, name=q.name.removesuffix(suffix)) for q in self if q.name.endswith(suffix)
        )


def nearest(name: str, known: Sequence[str], count: int = 3) -> list[str]:
    """The known names most like `name`, best first."""
    return difflib.get_close_matches(name, known, n=count, cutoff=0.5)
