"""The todo list edited by a person: phases added, left out, forgotten."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from typing import Any

from campaign import lock
from campaign.config import phase_entry
from campaign.errors import UsageError
from campaign.launch import local
from campaign.runner.opening import OpenCampaign
from campaign.state import CampaignState, PhaseState, add, change, phase, reset, skip

#: A value that needs no quotes on the command line.
_PLAIN_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/ -]*")


def parse_assignments(words: Sequence[str]) -> dict[str, Any]:
    """`key=value` words as a table; values are TOML, a plain word is a string. Raises `UsageError`."""
    table: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        key = key.strip()
        if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key):
            raise UsageError(f"{word!r} is no parameter. Write key=value, e.g. batch=[1,8].")
        if key in table:
            raise UsageError(f"{key} stands twice. Give it once.")
        table[key] = _value(key, value.strip())
    return table


def _value(key: str, text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError as error:
        if _PLAIN_WORD.fullmatch(text):
            return text
        raise UsageError(f"{key}={text}: no TOML value ({error}). Quote it for the shell: '{key}=[1, 8]'.") from error


def add_phase(campaign: OpenCampaign, kind_name: str, words: Sequence[str]) -> PhaseState:
    """Put a further phase on the todo list, before the synthesis; returns its entry.

    Raises `UsageError` for an unknown kind, parameter or value, or an id that is taken.
    """
    kind = campaign.kinds.get(kind_name)
    if kind is None:
        raise UsageError(f"no kind of phase {kind_name!r}. Kinds: {', '.join(campaign.kinds)}.")
    table = parse_assignments(words)

    def work(state: CampaignState) -> CampaignState:
        taken = {entry.id for entry in state.phases}
        if "id" in table and table["id"] in taken:
            raise UsageError(f"phase {table['id']!r} is on the todo list already. Give another id=…")
        made = phase_entry(kind, {"id": _free_id(kind_name, taken), **table})
        entry = PhaseState(
            id=made.id, kind=made.kind, title=made.title, parameters=made.parameters, reason="added by a person",
            origin="added",
        )  # fmt: skip
        chosen.append(entry.id)
        synthesis = next((each.name for each in campaign.kinds.values() if each.synthesize), "")
        return campaign.reconciled(add(state, [entry], before_kind=synthesis))

    chosen: list[str] = []
    state = _edit(campaign, "added", work)
    return phase(state, chosen[0])


def _free_id(kind_name: str, taken: set[str]) -> str:
    if kind_name not in taken:
        return kind_name
    return next(name for number in range(2, len(taken) + 3) if (name := f"{kind_name}-{number}") not in taken)


def skip_phase(campaign: OpenCampaign, phase_id: str) -> PhaseState:
    """Leave a phase out until it is reset. Raises `UsageError` with the ids that exist."""
    return phase(_edit(campaign, "skipped", lambda state: skip(_ended(campaign, state, phase_id), phase_id)), phase_id)


def reset_phase(campaign: OpenCampaign, phase_id: str) -> PhaseState:
    """Forget a phase's attempts, so that it is measured again. Raises `UsageError` with the ids that exist."""
    work = lambda state: campaign.reconciled(reset(_ended(campaign, state, phase_id), phase_id))  # noqa: E731
    return phase(_edit(campaign, "reset", work), phase_id)


def _ended(campaign: OpenCampaign, state: CampaignState, phase_id: str) -> CampaignState:
    """The state after a measurement that a dead runner left at work was ended."""
    entry = phase(state, phase_id)
    if entry.status != "running":
        return state
    attempt = local.find_again(
        campaign.store.attempt_folder(phase_id, entry.last_attempt), entry.process, campaign.store.folder
    )
    if attempt is not None:
        attempt.end()
    return change(state, phase_id, process=None)


def _edit(campaign: OpenCampaign, what: str, work: Callable[[CampaignState], CampaignState]) -> CampaignState:
    """Load, change and save the state under the lock."""
    store = campaign.store
    with lock.hold(store.state_folder):
        state = work(campaign.reconciled(store.load_state() or store.new_state()))
        store.save_state(state, what)
    return state
