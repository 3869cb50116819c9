"""Names of kernels and ops → categories, by the ordered table of `categories.toml`, which users extend."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from campaign.errors import ConfigError

CATEGORIES: Final = (
    "allreduce", "comm_other", "gemm", "moe_gemm", "moe_router", "attention", "rms_norm", "rope", "silu_mul",
    "kv_cache", "quantize", "sampling", "copy", "compiled", "other",
)  # fmt: skip
COMMUNICATION: Final = ("allreduce", "comm_other")
OTHER: Final = CATEGORIES.index("other")
COMPILED: Final = CATEGORIES.index("compiled")


@dataclass(frozen=True)
class Rule:
    """One line of the table."""

    category: int
    bare: re.Pattern[str] | None
    whole: re.Pattern[str] | None
    uncounted: re.Pattern[str] | None


@dataclass(frozen=True)
class Place:
    """A kernel that its neighbour identifies."""

    category: int
    pattern: re.Pattern[str]
    after: frozenset[int]


@dataclass(frozen=True)
class Composite:
    """General ops in a row that are one operation."""

    category: int
    pattern: re.Pattern[str]


@dataclass(frozen=True)
class Table:
    """The ordered rules."""

    extra: tuple[tuple[int, re.Pattern[str]], ...]
    rules: tuple[Rule, ...]
    wrappers: re.Pattern[str]
    places: tuple[Place, ...]
    composites: tuple[Composite, ...]
    host_ops: re.Pattern[str]

    def category(self, name: str) -> int:
        """Index into `CATEGORIES` of a kernel's or op's name."""
        for category, pattern in self.extra:
            if pattern.search(name):
                return category
        bare = bare_name(name)
        is_wrapper = self.wrappers.search(bare) is not None
        for rule in self.rules:
            if rule.bare is not None and rule.bare.search(bare):
                return rule.category
            if is_wrapper and rule.whole is not None and rule.whole.search(name):
                return rule.category
        return OTHER

    def is_counted(self, name: str) -> bool:
        """Whether a call of this name is a call of its category (a wait for a collective is none)."""
        return not any(rule.uncounted is not None and rule.uncounted.search(name) for rule in self.rules)


def table(extra: Sequence[tuple[str, str]] = ()) -> Table:
    """The shipped table with `extra` (category, pattern) pairs before it; raises `ConfigError` for a wrong pair."""
    return _with_extra(tuple((category, pattern) for category, pattern in extra))


@functools.cache
def _with_extra(extra: tuple[tuple[str, str], ...]) -> Table:
    shipped = tomllib.loads(Path(__file__).with_name("categories.toml").read_text("utf-8"))
    rules = tuple(
        Rule(
            CATEGORIES.index(rule["category"]),
            _joined(rule.get("bare", ())),
            _joined(rule.get("whole", ())),
            _joined(rule.get("uncounted", ())),
        )
        for rule in shipped["rule"]
    )
    places = tuple(
        Place(
            CATEGORIES.index(place["category"]),
            re.compile(place["pattern"]),
            frozenset(CATEGORIES.index(category) for category in place["after"]),
        )
        for place in shipped["placed"]
    )
    composites = tuple(
        Composite(CATEGORIES.index(one["category"]), re.compile(one["pattern"], re.VERBOSE))
        for one in shipped["composite"]
    )
    nothing = re.compile("$^")
    return Table(
        extra=tuple(_pair(category, pattern) for category, pattern in extra),
        rules=rules,
        wrappers=_joined(shipped["wrappers"]) or nothing,
        places=places,
        composites=composites,
        host_ops=_joined(shipped["host_ops"]) or nothing,
    )


def _joined(patterns: Sequence[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns)) if patterns else None


def _pair(category: str, pattern: str) -> tuple[int, re.Pattern[str]]:
    if category not in CATEGORIES:
        raise ConfigError(f"category {category!r} does not exist; write one of: {', '.join(CATEGORIES)}.")
    try:
        return CATEGORIES.index(category), re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"category {category!r}: pattern {pattern!r}: {error}. Write a Python pattern.") from error


@functools.lru_cache(maxsize=2048)
def bare_name(name: str) -> str:
    """The name without return type, template arguments and parameters: `void a::b<int>(int*)` → `a::b`."""
    text = name.replace("(anonymous namespace)", "anonymous")
    nesting: list[str] = []
    kept: list[str] = []
    for letter in text:
        if letter in "<(":
            if letter == "(" and not nesting and "".join(kept).strip() not in ("", "void"):
                break
            nesting.append(letter)
        elif letter in ">)":
            # A greater-than sign within parentheses closes nothing.
            if nesting and nesting[-1] == ("<" if letter == ">" else "("):
                nesting.pop()
        elif not nesting:
            kept.append(letter)
    bare = "".join(kept).strip()
    if bare.startswith(("Memcpy", "Memset", "##")):
        return bare
    return bare.rsplit(" ", 1)[-1] if " " in bare else bare
