"""Narrated prose in the document: marked, and only as long as it is true of the present numbers."""

from __future__ import annotations

import msgspec

from campaign.phases import synthesis
from campaign.phases.kind import Context, Material, Target
from tests.analysis.cases import CASES
from tests.analysis.test_cases import _document
from tests.narrator import texts

CONTEXT = Context(target=Target(model="m", config_path="", tensor_parallel=8, device="cuda"))


def _summary(case: str, narrated: str) -> str:
    made = CASES[case]()
    material = Material(
        quantities=tuple(made.quantities), findings=(), beliefs=made.beliefs, rows=(), narrated=narrated
    )
    assert synthesis.KIND.synthesize is not None
    view = synthesis.KIND.synthesize(material, CONTEXT).view
    assert isinstance(view, synthesis.View)
    return _document(view).split("\n|", 1)[0]


def test_summary__narrated_prose_is_marked() -> None:
    text = _summary("allreduce_bound", texts.TRUE[0])
    assert texts.TRUE[0] in text
    assert "*Narrated by a language model" in text


def test_summary__false_or_outdated_prose_falls_away() -> None:
    for case, narrated in (("allreduce_bound", texts.WRONG_NUMBER[0]), ("host_bound", texts.TRUE[0])):
        text = _summary(case, narrated)
        assert narrated not in text
        assert "Narrated" not in text
        assert text == _summary(case, "")


def test_material__narrated_is_empty_by_default() -> None:
    fields = {field.name: field.default for field in msgspec.structs.fields(Material)}
    assert fields["narrated"] == ""
