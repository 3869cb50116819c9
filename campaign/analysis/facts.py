"""What the analysis may know beside the quantities: the target, and its model's arithmetic."""

from __future__ import annotations

import msgspec


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The model's arithmetic, as far as what-if needs it."""

    layers: int
    """Layers of the model."""
    experts: int = 0
    """Routed experts a layer; 0 = a dense model."""
    experts_per_token: int = 0
    """Routed experts that a token uses."""
    weight_bytes: dict[int, float] = {}
    """Tokens in a step → weight bytes that a rank reads, uniform routing."""
    expert_weight_bytes: dict[int, float] = {}
    """Of them those of routed experts."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The target."""

    is_cpu: bool = False
    """Measured on a CPU: says nothing of a GPU."""
    tensor_parallel: int = 1
    """Ranks that share each layer."""
    expert_parallel: int = 1
    """Ranks that share the routed experts; 1 = experts are cut like dense layers."""
    model: ModelFacts | None = None
    """The model's arithmetic, where its config could be read."""
