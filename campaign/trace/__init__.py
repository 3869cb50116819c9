"""Profiler traces to the breakdown of a decode step."""

from __future__ import annotations

from campaign.trace.analyze import analyze
from campaign.trace.result import TraceAnalysis

__all__ = ["TraceAnalysis", "analyze"]
