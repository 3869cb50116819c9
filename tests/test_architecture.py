"""ARCHITECTURE.md's table of layers against the imports; status imports nothing heavy."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEAVY = ("torch", "pandas", "httpx", "jinja2", "markdown_it", "matplotlib", "numpy", "campaign.config")


def layers() -> dict[str, int]:
    """Module or folder of the package → its layer, from the table."""
    found: dict[str, int] = {}
    for line in (ROOT / "ARCHITECTURE.md").read_text().splitlines():
        row = re.match(r"\| (\d) \| (.+?) \|", line)
        if row:
            for name in re.findall(r"`([\w<>/.]+?)/?`", row[2]):
                found[name.replace("/<kind>.py", "").removesuffix(".py")] = int(row[1])
    return found


def room(path: Path) -> str:
    """The name under which the table lists a module."""
    return path.relative_to(ROOT / "campaign").parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Rooms of this package that a module imports (at any depth of the code)."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "campaign":
            parts = node.module.split(".")
            names |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        if isinstance(node, ast.Import):
            names |= {a.name.split(".")[1] for a in node.names if a.name.startswith("campaign.")}
    return names - {"__version__"}


def modules() -> list[Path]:
    return sorted(path for path in (ROOT / "campaign").rglob("*.py") if path.parent.name != "__pycache__")


def test_layers__every_module_has_a_row() -> None:
    known = set(layers()) | {"__init__"}
    assert {room(path) for path in modules()} - known == set()


def test_layers__every_row_has_a_module() -> None:
    assert set(layers()) - {room(path) for path in modules()} == set()


def test_imports__point_down() -> None:
    layer = layers() | {"__init__": 0}
    wrong = []
    for path in modules():
        mine = room(path)
        wrong += [
            f"{path.relative_to(ROOT)} (layer {layer[mine]}) imports {other} (layer {layer[other]})"
            for other in imported(path)
            if other in layer and other != mine and layer[other] > layer[mine]
        ]
    assert wrong == []


def test_imports__nobody_imports_the_scripts() -> None:
    assert [str(path) for path in modules() if "measure" in imported(path) and room(path) != "measure"] == []


def test_imports__torch_only_in_the_scripts() -> None:
    wrong = []
    for path in modules():
        heads = [n for n in ast.parse(path.read_text()).body if isinstance(n, (ast.Import, ast.ImportFrom))]
        names = {a.name.split(".")[0] for n in heads if isinstance(n, ast.Import) for a in n.names}
        names |= {(n.module or "").split(".")[0] for n in heads if isinstance(n, ast.ImportFrom)}
        if "torch" in names and room(path) != "measure":
            wrong.append(str(path))
    assert wrong == []


def test_print__only_in_the_command_line() -> None:
    wrong = []
    for path in modules():
        if room(path) in ("cli", "measure"):
            continue
        calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
        wrong += [f"{path}:{n.lineno}" for n in calls if isinstance(n.func, ast.Name) and n.func.id == "print"]
    assert wrong == []


def test_status__imports_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys; from click.testing import CliRunner; from campaign.cli import group; "
        f"r = CliRunner().invoke(group, ['--dir', {str(tmp_path)!r}, 'status', '--json'], standalone_mode=False); "
        f"assert r.exception is None, r.exception; print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert shown.stdout.strip() == "[]"
