"""status: one screen of where a campaign is."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from campaign.cli.hints import typed
from campaign.runner.survey import Survey, survey

_MARKS = {
    "done": "●", "running": "◐", "pending": "○", "interrupted": "◔", "stale": "◌", "failed": "✗", "skipped": "–",
    "blocked": "–",
}  # fmt: skip


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option("--watch", is_flag=True, help="Again every two seconds, until interrupted.")
@click.pass_obj
def status(obj: dict[str, Any], as_json: bool, watch: bool) -> int:
    """Where the campaign is: phases, server, document, what needs a person."""
    folder: Path = obj["dir"]
    while True:
        seen = survey(folder)
        if watch and not as_json:
            click.clear()
        click.echo(json.dumps(seen.as_json(), indent=2, ensure_ascii=False) if as_json else screen(seen))
        if not watch:
            return 0
        time.sleep(2)


def screen(seen: Survey) -> str:
    """The survey as text of at most 80 columns."""
    lines = [f"{seen.title}"[:80], ""]
    lines += [_phase_line(phase) for phase in seen.phases] or [typed("no phase yet: python -m campaign resume")]
    server = seen.server
    if server["state"]:
        share = f" {server['progress'] * 100:.0f} %" if server["progress"] is not None else ""
        where = f" {server['load_phase']}{share}" if server["state"] in ("starting", "loading") else ""
        lines += ["", f"server    {server['state']}{where}, pid {server['pid']}, {server['url']}"[:80]]
    lines += ["", _document_line(seen)]
    if seen.runner:
        lines.append(f"runner    {seen.runner}"[:80])
    for text in seen.needs_person:
        lines += ["", *_wrapped(f"! {typed(text)}")]
    return "\n".join(lines)


def _phase_line(phase: dict[str, Any]) -> str:
    points = f"{phase['points_done']}/{phase['points_total']}" if phase["points_total"] else ""
    took = f"{phase['duration_s']:.0f} s" if phase["duration_s"] else ""
    line = f"{_MARKS[phase['status']]} {phase['id']:<14} {phase['status']:<12}{points:>7} {took:>7}"
    eta = f"  about {phase['eta_s']:.0f} s left" if phase["eta_s"] else ""
    reason = phase["reason"] if phase["status"] not in ("done",) else ""
    return f"{line}{eta}  {reason}".rstrip()[:80]


def _document_line(seen: Survey) -> str:
    document = seen.document
    if not document["sections"]:
        return f"document  {document['path']}: not written yet"
    states = [section["state"] for section in document["sections"]]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    changed = ", changed since by a person" if document["changed_since"] else ""
    return f"document  {document['path']}: {counts}{changed}"


def _wrapped(text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text, 80, subsequent_indent="  ")
