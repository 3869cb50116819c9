"""The todo list while a runner works on it."""

from __future__ import annotations

from campaign.state import CampaignState
from campaign.store import Store


class Ledger:
    """The state of a running campaign, saved at each change."""

    def __init__(self, store: Store) -> None:
        self.state: CampaignState = store.new_state()
        """As last saved."""
        self._store = store

    def save(self, state: CampaignState, what: str, phase_id: str = "", detail: str = "") -> None:
        """Save the state whole, with a line of what happened. Raises `StorageError` that names the disk."""
        self.state = state
        self._store.save_state(state, what, phase=phase_id, detail=detail)
