"""Quantities to verdicts, laws, bottlenecks and what-ifs: pure functions."""
