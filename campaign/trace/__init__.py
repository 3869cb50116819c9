"""Profiler traces to the breakdown of a decode step."""
