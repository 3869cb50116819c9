"""compare: two campaigns or two revisions side by side."""

from __future__ import annotations

from typing import Any

import click

from campaign import schema
from campaign.errors import EXIT_USAGE
from campaign.phases.catalog import KINDS
from campaign.runner.comparing import Comparison, read_side
from campaign.runner.comparing import compare as compare_sides


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option("--anyway", is_flag=True, help="Compare numbers even where they differ in kind.")
@click.pass_obj
def compare(obj: dict[str, Any], before: str, after: str, as_json: bool, anyway: bool) -> int:
    """What changed from A to B, each a campaign folder, FOLDER@REVISION, or a revision of this campaign (1, 2, -1)."""
    sides = [read_side(text, obj["dir"], KINDS) for text in (before, after)]
    found = compare_sides(sides[0], sides[1], is_forced=anyway)
    click.echo(schema.encode_pretty(found).decode().rstrip() if as_json else text_of(found))
    return EXIT_USAGE if found.in_kind and not found.compared else 0


def text_of(found: Comparison) -> str:
    """The comparison as plain text: how they were made, what is not comparable, then the numbers."""
    lines = [f"A  {found.before}", f"B  {found.after}", *found.notes, ""]
    lines.append("Made differently:" if found.config else "Made alike, as far as is known.")
    lines += [f"  {one.name}: {_short(one.before)} → {_short(one.after)}" for one in found.config]
    for kept in found.in_kind:
        shown = ", ".join(kept.names[:4]) + (f" and {len(kept.names) - 4} more" if len(kept.names) > 4 else "")
        lines += ["", f"Not compared, they differ in kind ({kept.why}): {shown}."]
    if found.in_kind:
        lines.append("Compare them nevertheless with --anyway.")
    lines += ["", f"{found.compared} numbers compared, {found.within_noise} within noise."]
    if found.moves:
        width = max(len(move.name) for move in found.moves)
        lines.append("Beyond noise:")
        lines += [_line(move, width) for move in found.moves]
    return "\n".join(lines)


def _line(move: Any, width: int) -> str:
    change = f"{move.change:+.1%}" if move.change is not None else "only in B" if move.before is None else "only in A"
    values = f"{_number(move.before)} → {_number(move.after)} {move.unit if move.unit != '1' else ''}".rstrip()
    noise = "" if move.is_noise_known or move.change is None else "  (no interval: above 5 %)"
    return f"  {move.name:<{width}}  {values}  {change}{noise}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _short(value: str) -> str:
    return value if len(value) <= 60 else value[:57] + "…"
