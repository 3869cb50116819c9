"""campaign.toml as typed structs; what is wrong in it is said with key path, line and what to write instead."""

from campaign.config.reading import duration_s, load, parse, phase_entry
from campaign.config.tables import Config, PhaseEntry, PlannerTable

__all__ = ["Config", "PhaseEntry", "PlannerTable", "duration_s", "load", "parse", "phase_entry"]
