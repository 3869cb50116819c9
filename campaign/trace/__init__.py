"""Profiler traces to the breakdown of a decode step."""

from __future__ import annotations

from campaign.trace.analyze import analyze
from campaign.trace.diff import TraceDiff, diff
from campaign.trace.expectations import CallCount, Misclassified, call_count, misclassified
from campaign.trace.result import Breakdown, TraceAnalysis

__all__ = [
    "Breakdown",
    "CallCount",
    "Misclassified",
    "TraceAnalysis",
    "TraceDiff",
    "analyze",
    "call_count",
    "diff",
    "misclassified",
]
