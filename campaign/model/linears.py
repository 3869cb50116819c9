"""The matrices of one rank: what each layer multiplies, how often a step, and how many bytes that reads."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from campaign.model.architecture import Model
from campaign.model.quantization import PLAIN, WeightFormat
from campaign.model.shapes import Category, Shape


class Linear(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of matrix product of a decode step, as one rank runs it."""

    name: str
    """Module within the layer, as vLLM names it, e.g. `self_attn.qkv_proj`."""
    kind: str
    """Short label, unique within a model, e.g. `qkv`, `o`, `moe_gate_up`; the `<layer kind>` of quantities."""
    category: Category
    """gemm, or moe_gemm for routed experts."""
    n: int
    """Output features on this rank."""
    k: int
    """Input features on this rank."""
    matrices: int = 1
    """Matrices in one call: heads of a batched product, experts held by this rank."""
    active: float | None = None
    """Experts a token goes through on this rank (mean); None = every matrix is used."""
    distinct: float | None = None
    """Distinct experts a call as routed in a measurement; None = the mean over uniform routing."""
    calls: int = 1
    """Calls a decode step."""
    dtype: str = "bf16"
    """Weight format."""
    group: int | None = None
    """Weights that share a scale, along K."""
    bytes_per_weight: float = 2.0
    """Bytes of one weight with its share of scales."""
    is_replicated: bool = False
    """Whether every rank holds all of it."""
    module: str = ""
    """Name in the checkpoint of the first such matrix; empty = made from others while weights are loaded."""

    @property
    def weight_bytes(self) -> float:
        """Bytes that this rank holds for one call."""
        return self.n * self.k * self.matrices * self.bytes_per_weight

    @property
    def label(self) -> str:
        """Weight format with its group, as a reader expects it."""
        return self.dtype if self.group is None else f"{self.dtype} g{self.group}"

    def matrices_read(self, tokens: int) -> float:
        """Matrices that one call reads: for experts the mean number of distinct ones.

        D = E(1 − (1 − k/E)^T) for T tokens and uniform routing; E, k of this rank.
        """
        if self.distinct is not None:
            return self.distinct
        if self.active is None:
            return float(self.matrices)
        return self.matrices * (1 - (1 - min(1.0, self.active / self.matrices)) ** tokens)

    def bytes_read(self, tokens: int) -> float:
        """Weight bytes that one call reads at `tokens` tokens."""
        return self.n * self.k * self.bytes_per_weight * self.matrices_read(tokens)

    def flops(self, tokens: int) -> float:
        """2·M·N·K of one call."""
        rows = tokens * (self.matrices if self.active is None else self.active)
        return 2.0 * rows * self.n * self.k

    def bytes_moved(self, tokens: int, activation_bytes: int = 2, output_bytes: int = 2) -> float:
        """M·K·a + weights read + M·N·o of one call."""
        rows = tokens * (self.matrices if self.active is None else self.active)
        return rows * self.k * activation_bytes + self.bytes_read(tokens) + rows * self.n * output_bytes


def linears_of(model: Model, shapes: Iterable[tuple[Shape, tuple[int, ...]]]) -> tuple[Linear, ...]:
    """Give each shape its weight format layer by layer; layers of one format become one `Linear`."""
    found: list[Linear] = []
    for shape, layers in shapes:
        formats: dict[WeightFormat, list[int]] = {}
        for layer in layers:
            formats.setdefault(_format_of(model, shape, layer), []).append(layer)
        for form, chosen in formats.items():
            suffix = "" if len(formats) == 1 else f"_{form.label.replace(' ', '_')}"
            found.append(_linear(shape, form, chosen, suffix))
    return tuple(found)


def _format_of(model: Model, shape: Shape, layer: int) -> WeightFormat:
    plain = PLAIN[shape.dtype or model.dtype]
    if shape.dtype is not None or not shape.modules:
        return plain
    # A fused matrix is quantized as its parts are; vLLM refuses a checkpoint where they differ.
    return model.quantization.format_of(shape.modules[0].format(i=layer), plain)


def _linear(shape: Shape, form: WeightFormat, layers: list[int], suffix: str) -> Linear:
    return Linear(
        name=shape.name,
        kind=shape.kind + suffix,
        category=shape.category,
        n=shape.n,
        k=shape.k,
        matrices=shape.matrices,
        active=shape.active,
        calls=len(layers),
        dtype=form.name,
        group=form.group,
        bytes_per_weight=form.bytes_per_weight_of(shape.k),
        is_replicated=shape.is_replicated,
        module=shape.modules[0].format(i=layers[0]) if shape.modules else "",
    )
