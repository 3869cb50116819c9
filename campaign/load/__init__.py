"""The load generator: arrivals, the wire client, the latency arithmetic."""
