"""From a model's config.json to its layers, shard shapes, bytes and floors: pure arithmetic."""
