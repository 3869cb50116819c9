"""Ask for a summary or for a choice of follow-ups; keep what was asked and answered; take only what is verified."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from campaign.analysis.synthesis import Synthesis
from campaign.narrator.endpoint import Endpoint, ask
from campaign.narrator.verification import verify


class Narration(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked, what came back, and what became of it; kept whole."""

    outcome: str
    """taken, refused or silent (the endpoint gave nothing)."""
    text: str
    """The verified text; empty unless taken."""
    reasons: tuple[str, ...]
    """Why it was not taken."""
    prompt: str
    """What was asked."""
    reply: str | None
    """What came back, as it came."""
    model: str
    """Served model name."""
    seed: int
    """Sampling seed."""
    tries: int
    """Tries it took."""


def narrate(synthesis: Synthesis, endpoint: Endpoint) -> Narration:
    """A summary in prose if every claim of it is a finding; else the template's text stands. Never raises."""
    prompt = summary_prompt(synthesis)
    reply = ask(endpoint, prompt)
    kept = {"prompt": prompt, "reply": reply.text, "model": endpoint.model, "seed": endpoint.seed}
    if reply.text is None:
        return Narration(outcome="silent", text="", reasons=(reply.problem,), tries=reply.tries, **kept)  # type: ignore[arg-type]
    text = " ".join(reply.text.split())
    verdict = verify(text, synthesis)
    return Narration(
        outcome="taken" if verdict.is_true else "refused",
        text=text if verdict.is_true else "",
        reasons=verdict.reasons,
        tries=reply.tries,
        **kept,  # type: ignore[arg-type]
    )


def summary_prompt(synthesis: Synthesis) -> str:
    """Findings only: no names, no files, no logs."""
    findings = "\n".join(f"- {sentence}" for sentence in synthesis.sentences)
    numbers = "\n".join(
        f"- {share.category}: {share.share * 100:.1f} % of the step, {share.exposed_ms:.3g} ms"
        for share in synthesis.shares
    )
    return (
        "Write an executive summary of at most five plain sentences for an engineer. Use only the findings below, "
        "with their numbers, units and words. Add no adjective, no cause and no number of your own. "
        "No markdown.\n\n"
        f"Findings:\n{findings}\n\nParts of the decode step:\n{numbers}\n"
    )


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the planner's menu."""

    id: str
    """Id of the phase."""
    reason: str
    """Why a rule asks for it."""


def choose(menu: Sequence[Option], endpoint: Endpoint, *, most: int) -> tuple[tuple[str, ...], Narration]:
    """Ids out of the menu in the order preferred, `most` at most; the menu's own order where the reply is no choice."""
    prompt = (
        f"Choose at most {most} of these measurements, the most telling first. "
        'Reply with a JSON list of ids only, e.g. ["a"].\n'
        + "\n".join(f"- {option.id}: {option.reason}" for option in menu)
    )
    reply = ask(endpoint, prompt)
    known = [option.id for option in menu]
    ids, reason = _ids(reply.text, known) if reply.text is not None else (None, reply.problem)
    narration = Narration(
        outcome="silent" if reply.text is None else "refused" if ids is None else "taken",
        text="",
        reasons=(reason,) if reason else (),
        prompt=prompt,
        reply=reply.text,
        model=endpoint.model,
        seed=endpoint.seed,
        tries=reply.tries,
    )
    return tuple((ids or known)[:most]), narration


def _ids(text: str, known: Sequence[str]) -> tuple[list[str] | None, str]:
    try:
        chosen = json.loads(text)
    except (ValueError, RecursionError):
        return None, "no JSON list of ids"
    if not isinstance(chosen, list) or not chosen or not all(isinstance(name, str) for name in chosen):
        return None, "no JSON list of ids"
    unknown = [name for name in chosen if name not in known]
    if unknown:
        return None, f"not on the menu: {unknown[0]!r}"
    return list(dict.fromkeys(chosen)), ""
