"""A campaign as it is right now, from its state, its points and its server's log; takes no lock, changes nothing."""

from __future__ import annotations

import os
import time
import tomllib
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from campaign import schema
from campaign.errors import CampaignError
from campaign.launch.local import is_alive
from campaign.lock import is_alive as is_held_here
from campaign.lock import read_holder
from campaign.measurement import points_path
from campaign.state import CampaignState, PhaseState
from campaign.store import Store


@dataclass(kw_only=True)
class Survey:
    """What `status` shows."""

    title: str = "Profiling campaign"
    phases: list[dict[str, Any]] = field(default_factory=list)
    server: dict[str, Any] = field(default_factory=dict)
    document: dict[str, Any] = field(default_factory=dict)
    runner: str = ""
    needs_person: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """The form of `status --json`."""
        return {
            "schema": "campaign-status",
            "schema_version": 1,
            "title": self.title,
            "phases": self.phases,
            "server": self.server,
            "document": self.document,
            "runner": self.runner or None,
            "needs_person": self.needs_person,
        }


def survey(folder: Path) -> Survey:
    """Look at a campaign folder."""
    store = Store(folder)
    seen = Survey()
    document_path = "doc/report.md"
    try:
        table = tomllib.loads(store.config_path.read_text(encoding="utf-8"))
        seen.title = str(table.get("campaign", {}).get("title", seen.title))
        document_path = str(table.get("document", {}).get("path", document_path))
    except FileNotFoundError:
        seen.needs_person.append(f"{store.config_path}: no such file. Write one with: python -m campaign init")
    except (OSError, ValueError, AttributeError) as error:
        seen.needs_person.append(f"{store.config_path}: {error}")
    state = _state(store, seen)
    holder = read_holder(store.state_folder)
    has_runner = holder is not None and (is_held_here(holder) or holder.host != os.uname().nodename)
    seen.phases = [_phase(store, entry, has_runner=has_runner) for entry in state.phases] if state else []
    seen.server = _server(state)
    seen.document = _document(store, document_path, state, seen)
    if holder is not None and has_runner:
        seen.runner = f"at work: pid {holder.pid} on {holder.host} since {holder.started_at}"
    for phase in seen.phases:
        if phase["status"] == "failed":
            seen.needs_person.append(
                f"phase {phase['id']} failed: {phase['reason'].rstrip('.')}. Mend it, then: resume"
            )
    return seen


def _state(store: Store, seen: Survey) -> CampaignState | None:
    try:
        state = store.load_state()
    except CampaignError as error:
        seen.needs_person.append(str(error))
        return None
    seen.needs_person += store.recovered
    return state


def _phase(store: Store, entry: PhaseState, *, has_runner: bool) -> dict[str, Any]:
    done, status, reason = entry.points_done, entry.status, entry.reason
    eta_s = None
    if status == "running":
        result_path = store.attempt_folder(entry.id, entry.last_attempt) / "result.json"
        # Keys alone are counted: a points file of raw samples can be large, and this screen is to be quick.
        done = _count_lines(points_path(result_path))
        works = entry.process is not None and is_alive(entry.process)
        if not works and not has_runner:
            status, reason = "interrupted", "its runner ended: resume goes on"
        elif works and not has_runner:
            reason = "its runner ended, the measurement goes on: resume adopts it"
        elif 0 < done < entry.points_total and entry.started_at:
            spent_s = time.time() - datetime.fromisoformat(entry.started_at).timestamp()
            # A clock that was set back shows no time spent.
            eta_s = round(spent_s / done * (entry.points_total - done), 1) if spent_s > 0 else None
    return {
        "id": entry.id, "kind": entry.kind, "status": status, "attempts": _attempts(entry), "reason": reason,
        "points_done": min(done, entry.points_total), "points_total": entry.points_total,
        "started_at": entry.started_at or None, "duration_s": entry.duration_s or None, "eta_s": eta_s,
        "origin": entry.origin,
    }  # fmt: skip


def _attempts(entry: PhaseState) -> int:
    """Every attempt under the present inputs, interrupted ones among them."""
    return max(0, entry.last_attempt - entry.carry_from + 1)


def _count_lines(path: Path) -> int:
    try:
        return path.read_bytes().count(b"\n")
    except OSError:
        return 0


def _server(state: CampaignState | None) -> dict[str, Any]:
    record = (state.server if state else None) or {}
    return {
        "state": record.get("state"),
        "load_phase": record.get("load_phase") or None,
        "progress": record.get("progress"),
        "pid": record.get("pid"),
        "url": record.get("url"),
    }


def _document(store: Store, path: str, state: CampaignState | None, seen: Survey) -> dict[str, Any]:
    known = state.document if state else None
    sections = [{"id": name, "state": section.state} for name, section in known.sections.items()] if known else []
    try:
        data: bytes | None = (store.folder / path).read_bytes()
    except OSError:
        data = None
    for section in sections:
        if section["state"] == "removed":
            seen.needs_person.append(
                f"section {section['id']} was taken out of {path}; put it back with: "
                f"python -m campaign render --insert {section['id']}"
            )
        if section["state"] == "conflict":
            seen.needs_person.append(
                f"section {section['id']}: your words stand, the new text is in state/conflicts/{section['id']}.md; "
                f"take it with: python -m campaign render --force {section['id']}"
            )
    changed = bool(known and known.hash and (data is None or schema.content_hash(data) != known.hash))
    return {"path": path, "sections": sections, "changed_since": changed}
