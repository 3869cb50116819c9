"""Where a measurement runs."""
