"""The words that the verifier understands; a text with any other word is refused."""

from __future__ import annotations

#: Phrase → subject. Longer phrases are looked for first.
SUBJECTS = {
    "all-reduce": "allreduce", "allreduce": "allreduce", "all-reduces": "allreduce", "all reduce": "allreduce",
    "expert gemm": "moe_gemm", "expert gemms": "moe_gemm", "moe gemm": "moe_gemm", "moe gemms": "moe_gemm",
    "gemm": "gemm", "gemms": "gemm", "dense gemm": "gemm", "dense gemms": "gemm", "attention": "attention",
    "rms norm": "rms_norm", "rmsnorm": "rms_norm", "rope": "rope", "silu": "silu_mul", "sampling": "sampling",
    "copies": "copy", "kv cache writes": "kv_cache", "expert routing": "moe_router",
    "idle time": "idle", "idle": "idle", "unclassified kernels": "unclassified", "unclassified time": "unclassified",
    "unclassified": "unclassified",
    "decode step": "step", "step": "step", "burst": "burst", "isolated burst": "burst",
    "time per output token": "tpot", "tpot": "tpot", "time to first token": "ttft", "ttft": "ttft",
    "output throughput": "throughput", "throughput": "throughput",
    "communicator": "direction.communicator", "communicators": "direction.communicator",
    "speculative decoding": "direction.speculation", "faster link": "direction.link",
    "laws": "laws",
}  # fmt: skip

#: Phrase → comparison of what stands before it with what stands after.
COMPARISONS = {
    "more than": ">", "larger than": ">", "greater than": ">", "higher than": ">", "longer than": ">", "above": ">",
    "over": ">", "exceeds": ">", "exceed": ">", "ahead of": ">", "slower than": ">", "bigger than": ">",
    "less than": "<", "smaller than": "<", "lower than": "<", "shorter than": "<", "below": "<", "under": "<",
    "faster than": "<", "exceeded by": "<", "behind": "<", "fewer than": "<",
    "at least": ">=", "no less than": ">=", "at most": "<=", "up to": "<=", "no more than": "<=",
}  # fmt: skip

#: What happened since the last revision.
CHANGES = {
    "rose by": 1, "rose": 1, "grew by": 1, "grew": 1, "increased by": 1, "increased": 1, "went up by": 1,
    "fell by": -1, "fell": -1, "dropped by": -1, "dropped": -1, "decreased by": -1, "decreased": -1,
    "went down by": -1,
}  # fmt: skip

BOUNDS = ("bounds", "bound", "limits", "dominates", "is the bottleneck", "bottleneck")
LARGEST = ("largest", "the largest", "biggest")
SECOND = ("next is", "second is", "second largest", "followed by")
NEXT = ("next", "try", "measure", "first")
NO_CLAIM = ("no claim", "nothing is claimed")
VERDICTS = {
    "held": "held", "holds": "held", "confirmed": "held", "refuted": "refuted", "open": "open", "undecided": "open",
}  # fmt: skip
BELIEFS = ("belief", "hypothesis")
FASTER = ("faster", "speed-up", "gain", "quicker")
SLOWER = ("slower", "slow-down")
NOT_HELD = ("do not hold", "does not hold", "broken")
HELD = ("hold", "holds")
#: A part in words says too little to be checked without a comparison.
PARTS = {"half": 50.0, "a third": 100 / 3, "a quarter": 25.0}

#: Unit as written → (unit of the book, factor into it).
UNITS = {
    "%": ("%", 1.0), "percent": ("%", 1.0), "per cent": ("%", 1.0), "ms": ("ms", 1.0), "milliseconds": ("ms", 1.0),
    "µs": ("ms", 1e-3), "μs": ("ms", 1e-3), "us": ("ms", 1e-3), "microseconds": ("ms", 1e-3), "s": ("ms", 1e3),
    "seconds": ("ms", 1e3), "tok/s": ("tok/s", 1.0), "tokens/s": ("tok/s", 1.0), "tokens per second": ("tok/s", 1.0),
    "×": ("x", 1.0), "x": ("x", 1.0), "times": ("x", 1.0), "points": ("points", 1.0),
    "percentage points": ("points", 1.0),
}  # fmt: skip

_WORDS = (
    "a an the of in on at to for with by is are was be it its this that and or as per takes take took "
    "taking costs cost costing spends spent accounts accounting makes made up part share time times decode decoding "
    "measured profiled each every one all while whereas but then so where which what than "
    "from now isolated situ in-situ free alone out named kernels kernel bandwidth floor "
    "counted however either way stays remains has have had number numbers output token tokens stream streams batch "
    "small tie together phases phase calls call found there total result shows show these those both still "
    "also here direction claim claimed lasts lasting uses using needs needing"
)
#: Words that carry no claim.
FILLERS = frozenset(_WORDS.split())
