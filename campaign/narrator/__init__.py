"""Prose by a language model, off by default: nothing it says stands unless every claim is one of the findings."""

from campaign.narrator.endpoint import Endpoint
from campaign.narrator.narration import Narration, choose, narrate
from campaign.narrator.verification import Verification, verify

__all__ = ["Endpoint", "Narration", "Verification", "choose", "narrate", "verify"]
