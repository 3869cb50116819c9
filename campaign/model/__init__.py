"""From a model's config.json to its layers, shard shapes, bytes and floors: pure arithmetic."""

from campaign.model.architecture import Experts, Grouped, Latent, Model
from campaign.model.devices import KNOWN, Device, Link, allreduce_floor_us, find_device
from campaign.model.linears import Linear
from campaign.model.reading import quantization_config_of, read_model
from campaign.model.sharding import Collective, Shards, linear_floor_us, shard

__all__ = [
    "KNOWN",
    "Collective",
    "Device",
    "Experts",
    "Grouped",
    "Latent",
    "Linear",
    "Link",
    "Model",
    "Shards",
    "allreduce_floor_us",
    "find_device",
    "linear_floor_us",
    "quantization_config_of",
    "read_model",
    "shard",
]
