"""The summary's sentences: five at most, each with its number."""

from __future__ import annotations

from collections.abc import Sequence

from campaign.analysis.bottleneck import Bottleneck
from campaign.analysis.hypotheses import Verdict
from campaign.analysis.laws import BROKEN, HOLDS, Law
from campaign.analysis.scene import Scene
from campaign.analysis.whatif import Change
from campaign.analysis.wording import amount, amounts, capital, listing, percent, times, times_range

CPU_NOTE = "Measured on a CPU: says nothing of a GPU"


def sentences(
    scene: Scene,
    *,
    bottleneck: Bottleneck | None,
    laws: Sequence[Law],
    verdicts: Sequence[Verdict],
    changes: Sequence[Change],
    directions: Sequence[Change],
) -> tuple[str, ...]:
    """What bounds decode, by how much, what was believed before, what does not add up, what to do next."""
    made = [
        _bounds(scene, bottleneck),
        _free(scene, bottleneck, laws, changes),
        _beliefs(verdicts),
        _broken(laws),
        _next(directions),
    ]
    return tuple(sentence for sentence in made if sentence)


def _bounds(scene: Scene, found: Bottleneck | None) -> str:
    head = f"{CPU_NOTE}; " if scene.facts.is_cpu else ""
    if found is None or scene.step_ms is None:
        return capital(f"{head}no decode step was profiled, so nothing is claimed on what bounds decode.")
    name, share = scene.word(found.category), percent(found.share.share)
    step, batch = amount(scene.step_ms, "ms"), scene.batch
    if not found.is_claimed:
        largest = f"{name} is the largest named part of the {step} step with {share}"
        either = ", however unclassified time is counted" if found.is_largest_either_way else ""
        return capital(f"{head}no claim on what bounds decode at batch {batch}: {found.reason}; {largest}{either}.")
    rest = f"; next is {scene.word(found.second.category)} with {percent(found.second.share)}" if found.second else ""
    verb = "bound" if found.category in ("copy", "compiled") else "bounds"
    return capital(
        f"{head}{name} {verb} decode at batch {batch}: {amount(found.share.exposed_ms, 'ms')} of the "
        f"{step} step ({share}){rest}."
    )


def _free(scene: Scene, found: Bottleneck | None, laws: Sequence[Law], changes: Sequence[Change]) -> str:
    change = next((c for c in changes if found is not None and c.id == f"free.{found.category}"), None)
    if found is None or change is None:
        return ""
    situ = next((law for law in laws if law.id == "allreduce_in_situ" and law.ratio is not None), None)
    head = ""
    if found.category == "allreduce" and situ is not None:
        head = f"In a step it costs {times(situ.ratio)} its isolated burst of {amount(situ.expected, 'ms')}; "
    what = (
        f"without {scene.word(found.category)}"
        if found.category == "idle"
        else f"with {scene.word(found.category)} free"
    )
    text = f"{head}{what} a step would be {amounts(change.step_ms_low, change.step_ms_high, 'ms')} "
    return capital(f"{text}({times_range(change.gain_low, change.gain_high)}), an upper bound.")


def _beliefs(verdicts: Sequence[Verdict]) -> str:
    if not verdicts:
        return ""
    named = next((v for v in verdicts if v.verdict == "refuted"), verdicts[0])
    text = f"The belief “{named.claim}” is {named.verdict}"
    if named.margin is not None and named.margin_unit:
        text += f" by at least {margin_words(named)}"
    elif named.reason:
        text += f" ({named.reason})"
    if named.is_after_data:
        text += ", but it was written down after its data"
    others = [v for v in verdicts if v is not named]
    if len(others) == 1:
        text += f"; the other one, “{others[0].claim}”, is {others[0].verdict}"
    elif others:
        counts = [(sum(v.verdict == kind for v in others), kind) for kind in ("held", "refuted", "open")]
        text += f"; of the {len(others)} others " + listing([f"{count} {kind}" for count, kind in counts if count])
    return text + "."


def margin_words(verdict: Verdict) -> str:
    """The least margin with its unit; shares in points of the step."""
    if verdict.margin is None:
        return "–"
    if verdict.margin_unit == "share":
        return f"{verdict.margin * 100:.1f} points of the step"
    ratio = " (a ratio)" if verdict.margin_unit == "1" else ""
    return amount(verdict.margin, verdict.margin_unit) + ratio


def _broken(laws: Sequence[Law]) -> str:
    tested = [law for law in laws if law.status in (HOLDS, BROKEN)]
    broken = [law for law in tested if law.status == BROKEN]
    if not tested:
        return ""
    if not broken:
        many = "Both" if len(tested) == 2 else f"All {len(tested)}"
        return f"{many} laws that tie the phases together hold." if len(tested) > 1 else ""
    first = [f"{law.law} ({law.note or amount(law.difference, law.unit)})" for law in broken[:2]]
    more = f" and {len(broken) - 2} more" if len(broken) > 2 else ""
    do = "does" if len(broken) == 1 else "do"
    return f"{len(broken)} of {len(tested)} laws {do} not hold: {'; '.join(first)}{more}."


def _next(directions: Sequence[Change]) -> str:
    if not directions:
        return ""
    first = directions[0]
    assumed = ", resting on an assumed number" if first.is_assumed else ""
    step = amounts(first.step_ms_low, first.step_ms_high, "ms")
    return f"Next: {first.change}, {times_range(first.gain_low, first.gain_high)} (a step of {step}{assumed})."
