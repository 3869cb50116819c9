"""Numbers inside sentences: three significant digits, the unit always with them."""

from __future__ import annotations

import math

#: Unit of a quantity → as it is printed.
PRINTED_UNITS = {"us": "µs", "1": "", "share": "%", "B": "bytes"}

#: Category → what a sentence calls it.
CATEGORY_WORDS = {
    "allreduce": "all-reduce",
    "comm_other": "other communication",
    "gemm": "GEMM",
    "moe_gemm": "expert GEMM",
    "moe_router": "expert routing",
    "rms_norm": "RMS norm",
    "silu_mul": "SiLU",
    "kv_cache": "KV cache writes",
    "quantize": "quantization",
    "copy": "copies",
    "compiled": "compiled kernels",
    "other": "unclassified kernels",
    "idle": "idle time",
}


def digits(value: float | None, count: int = 3) -> str:
    """`count` significant digits, digits before the point never rounded away, thousands separated; – if missing."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    exponent = int(f"{value:.{count - 1}e}".split("e")[1])
    return f"{value:,.{max(0, count - 1 - exponent)}f}"


def whole(value: float | None) -> str:
    """A count: in full where it is a whole number, else three significant digits."""
    return f"{value:,.0f}" if value is not None and value == round(value) else digits(value)


def percent(share: float | None, places: int = 1) -> str:
    """A fraction as percent, `51.5 %`."""
    return "–" if share is None else f"{share * 100:.{places}f} %"


def percents(low: float, high: float) -> str:
    """Two fractions as `9.6 to 31.4 %`; one percentage where they print alike."""
    ends = f"{low * 100:.1f}", f"{high * 100:.1f}"
    return f"{ends[0]} %" if ends[0] == ends[1] else f"{ends[0]} to {ends[1]} %"


def amount(value: float | None, unit: str) -> str:
    """A number with its unit, `11.2 ms`; a share as percent."""
    if unit == "share":
        return percent(value)
    text, printed = whole(value) if unit in ("1", "B") else digits(value), PRINTED_UNITS.get(unit, unit)
    return f"{text} {printed}" if printed else text


def amounts(low: float | None, high: float | None, unit: str) -> str:
    """A range, `10.5 to 14.9 ms`; one amount where both ends print alike."""
    if unit == "share" and low is not None and high is not None:
        return percents(low, high)
    if digits(low) == digits(high):
        return amount(low, unit)
    return f"{digits(low)} to {amount(high, unit)}"


def times(factor: float | None) -> str:
    """A factor, `2.06×`."""
    return "–" if factor is None else f"{factor:.2f}×"


def times_range(low: float, high: float) -> str:
    """A range of factors, `1.46× to 2.06×`."""
    return times(low) if times(low) == times(high) else f"{times(low)} to {times(high)}"


def category(name: str) -> str:
    """The name of a category in a sentence."""
    return CATEGORY_WORDS.get(name, name.replace("_", " "))


def capital(sentence: str) -> str:
    """The sentence with its first letter raised."""
    return sentence[:1].upper() + sentence[1:]


def listing(parts: list[str]) -> str:
    """`a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""
