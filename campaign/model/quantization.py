"""Weight formats of a checkpoint: bytes a weight, and which modules are left out."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec


class WeightFormat(msgspec.Struct, frozen=True, kw_only=True):
    """How one weight matrix is stored."""

    name: str
    """bf16, fp16, fp32, fp8, int8, int4, nvfp4, mxfp4."""
    bytes_per_weight: float
    """Bytes of one weight, its share of the scales and zero points of groups and blocks included."""
    group: int | None = None
    """Weights along K that share a scale; None = a scale a channel, a tensor or a block."""
    bytes_per_row: float = 0.0
    """Bytes of the scale of a whole output channel, where there is one; not in `bytes_per_weight`."""

    @property
    def label(self) -> str:
        """Name with its group, e.g. `int4 g32`."""
        return self.name if self.group is None else f"{self.name} g{self.group}"

    def bytes_per_weight_of(self, k: int) -> float:
        """Bytes of one weight of a matrix with `k` input features, all its scales included."""
        return self.bytes_per_weight + self.bytes_per_row / k


PLAIN = {
    "bf16": WeightFormat(name="bf16", bytes_per_weight=2.0),
    "fp16": WeightFormat(name="fp16", bytes_per_weight=2.0),
    "fp32": WeightFormat(name="fp32", bytes_per_weight=4.0),
}
FP8 = WeightFormat(name="fp8", bytes_per_weight=1.0)
FP8_CHANNEL = WeightFormat(name="fp8", bytes_per_weight=1.0, bytes_per_row=4.0)
NVFP4 = WeightFormat(name="nvfp4", bytes_per_weight=0.5 + 1 / 16, group=16)
MXFP4 = WeightFormat(name="mxfp4", bytes_per_weight=0.5 + 1 / 32, group=32)


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A format and the modules it is for."""

    targets: tuple[str, ...]
    """`Linear`, `experts`, module names, globs, or regular expressions after `re:`."""
    format: WeightFormat
    """The format of the modules that match."""


class Quantization(msgspec.Struct, frozen=True, kw_only=True):
    """Rules from a quantization_config; without rules nothing is quantized."""

    method: str = ""
    """quant_method of the checkpoint; empty = none."""
    rules: tuple[Rule, ...] = ()
    """The first rule that matches a module decides."""
    ignored: tuple[str, ...] = ()
    """Modules left in the model's own format."""
    is_substring: bool = False
    """Whether an ignored name counts wherever it occurs in a module's name (AWQ's way)."""

    def format_of(self, module: str, plain: WeightFormat) -> WeightFormat:
        """The format of the weights of `module` (its name in the checkpoint)."""
        names = (module, f"language_model.{module}")
        if any(self._is_ignored(pattern, name) for pattern in self.ignored for name in names):
            return plain
        for rule in self.rules:
            if any(_is_target(target, name) for target in rule.targets for name in names):
                return rule.format
        return plain

    def _is_ignored(self, pattern: str, name: str) -> bool:
        return matches(pattern, name) or (self.is_substring and pattern in name)


def matches(pattern: str, name: str) -> bool:
    """Whether a module name is meant by a pattern: regular expression, glob, or the name of it or of a parent."""
    if pattern.startswith("re:"):
        return re.match(pattern[3:], name) is not None
    if "*" in pattern:
        return fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name, pattern + ".*")
    return f".{name}.".find(f".{pattern.strip('.')}.") >= 0


def _is_target(target: str, name: str) -> bool:
    if target == "Linear":
        return True
    if target == "experts":
        return ".experts." in name
    return matches(target, name)


def read_quantization(config: Mapping[str, Any] | None) -> tuple[Quantization, tuple[str, ...]]:
    """Rules of a quantization_config, and what could not be told about it."""
    if not config:
        return Quantization(), ()
    method = str(config.get("quant_method") or config.get("quant_algo") or "").lower()
    reader = _READERS.get(method)
    if reader is None:
        return Quantization(method=method), (f"quantization method {method!r}: weights counted as not quantized",)
    rules, ignored, unknown = reader(config)
    quantization = Quantization(method=method, rules=rules, ignored=ignored, is_substring=method.startswith("awq"))
    return quantization, unknown


Reading = tuple[tuple[Rule, ...], tuple[str, ...], tuple[str, ...]]


def _names(*lists: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(name for names in lists for name in (names or ()))


def integer_format(bits: int, group: int | None, *, has_zeros: bool = False) -> WeightFormat:
    """Weights of `bits` bits with one 16-bit scale a group or channel (and a zero point of `bits` bits)."""
    size = group if group and group > 0 else None
    scale_bytes = 2 + (bits / 8 if has_zeros else 0)
    if size is None:
        return WeightFormat(name=f"int{bits}", bytes_per_weight=bits / 8, bytes_per_row=scale_bytes)
    return WeightFormat(name=f"int{bits}", bytes_per_weight=bits / 8 + scale_bytes / size, group=size)


def _read_compressed(config: Mapping[str, Any]) -> Reading:
    rules: list[Rule] = []
    unknown: list[str] = []
    for name, group in (config.get("config_groups") or {}).items():
        weights = group.get("weights") or {}
        bits, kind, size = weights.get("num_bits"), weights.get("type"), weights.get("group_size")
        if bits == 4 and kind == "float":
            form = MXFP4 if size == 32 else NVFP4
        elif bits == 8 and kind == "float":
            form = FP8_CHANNEL if weights.get("strategy") == "channel" else _fp8(weights.get("block_structure"))
        elif kind == "int" and bits in (4, 8):
            form = integer_format(bits, size, has_zeros=not weights.get("symmetric", True))
        else:
            unknown.append(f"quantization group {name!r}: {bits}-bit {kind} weights counted as not quantized")
            continue
        rules.append(Rule(targets=tuple(group.get("targets") or ("Linear",)), format=form))
    return tuple(rules), _names(config.get("ignore"), ("lm_head",) if _only_linears(rules) else ()), tuple(unknown)


def _only_linears(rules: Sequence[Rule]) -> bool:
    return not any("lm_head" in target for rule in rules for target in rule.targets)


def _fp8(block: Sequence[int] | None) -> WeightFormat:
    if not block:
        return FP8
    return WeightFormat(name="fp8", bytes_per_weight=1.0 + 4 / (block[0] * block[1]))


def _read_fp8(config: Mapping[str, Any]) -> Reading:
    rule = Rule(targets=("Linear",), format=_fp8(config.get("weight_block_size")))
    ignored = _names(config.get("modules_to_not_convert"), config.get("ignored_layers"), ("lm_head",))
    return (rule,), ignored, ()


def _read_integer(config: Mapping[str, Any]) -> Reading:
    bits = int(config.get("bits") or config.get("w_bit") or 4)
    group = config.get("group_size") or config.get("q_group_size")
    has_zeros = bool(config.get("zero_point", not config.get("sym", True)))
    unknown = ("quantization `dynamic`: per-module rules are not read",) if config.get("dynamic") else ()
    form = integer_format(bits, None if group is None else int(group), has_zeros=has_zeros)
    ignored = _names(config.get("modules_to_not_convert"), ("lm_head",) if not config.get("lm_head") else ())
    return (Rule(targets=("Linear",), format=form),), ignored, unknown


def _read_mxfp4(config: Mapping[str, Any]) -> Reading:
    # vLLM keeps every linear but the experts in the model's own format under this method.
    return (Rule(targets=("experts",), format=MXFP4),), _names(config.get("modules_to_not_convert")), ()


def _read_modelopt(config: Mapping[str, Any]) -> Reading:
    inner = config.get("quantization") or config
    algorithm = str(inner.get("quant_algo") or "").upper()
    form = NVFP4 if "FP4" in algorithm else FP8
    unknown = () if algorithm in ("NVFP4", "FP8") else (f"modelopt algorithm {algorithm!r}: counted as {form.name}",)
    ignored = _names(inner.get("exclude_modules"), inner.get("ignore"), ("lm_head",))
    return (Rule(targets=("Linear",), format=form),), ignored, unknown


_READERS = {
    "compressed-tensors": _read_compressed,
    "fp8": _read_fp8,
    "gptq": _read_integer,
    "gptq_marlin": _read_integer,
    "awq": _read_integer,
    "awq_marlin": _read_integer,
    "mxfp4": _read_mxfp4,
    "modelopt": _read_modelopt,
    "modelopt_fp4": _read_modelopt,
}
