"""templates/README.md is what the views' docstrings say; `make golden` writes it anew."""

import importlib
import os
import pkgutil
import re
from pathlib import Path

import msgspec

import campaign.phases
from campaign.phases.kind import PhaseKind
from campaign.render import describe_templates, shipped_templates

README = shipped_templates() / "README.md"


def views() -> dict[str, type[msgspec.Struct]]:
    """Template → the struct whose fields it gets, of every kind of phase there is."""
    found: dict[str, type[msgspec.Struct]] = {}
    for info in pkgutil.iter_modules(campaign.phases.__path__):
        if info.name in ("catalog", "kind"):
            continue
        module = importlib.import_module(f"campaign.phases.{info.name}")
        kind = getattr(module, "KIND", None)
        if isinstance(kind, PhaseKind):
            further = [template for _, template in (*kind.sections_before, *kind.sections_after)]
            found |= dict.fromkeys([kind.template, *further], _view_of(kind, vars(module)))
    return found


def _view_of(kind: PhaseKind, names: dict[str, object]) -> type[msgspec.Struct]:
    """The struct of a phase module that is its template's: the one whose name ends in View and that no other holds."""
    structs = [v for v in names.values() if isinstance(v, type) and issubclass(v, msgspec.Struct)]
    mine = [struct for struct in structs if struct.__name__.endswith("View")]
    held = {name for struct in mine for name in map(str, struct.__annotations__.values())}
    outer = [struct for struct in mine if not any(re.search(rf"\b{struct.__name__}\b", text) for text in held)]
    assert len(outer) == 1, f"{kind.name}: which of {outer} is the view of {kind.template}?"
    return outer[0]


def test_golden__templates_readme_tells_every_variable() -> None:
    written = describe_templates(views())
    if os.environ.get("CAMPAIGN_GOLDEN") == "update":
        README.write_text(written, encoding="utf-8")
    assert README.read_text(encoding="utf-8") == written, "run `make golden`"


def test_golden__every_template_of_a_phase_exists() -> None:
    there = {path.name for path in Path(shipped_templates()).glob("*.j2")}
    assert set(views()) <= there
