"""Where numbers come from, in a section and found again."""

import msgspec

from campaign.document import find, revise
from campaign.render import Renderer, describe_templates, find_provenance, provenance_of, shipped_templates
from campaign.schema import Host, Result

RESULT = Result(
    kind="gemm",
    script_version=1,
    command=("python", "-m", "campaign.measure.gemm", "--config", "a b|<c>.json", "--out", "o.json"),
    started_at="2026-01-01T00:00:00+00:00",
    finished_at="2026-01-01T00:10:00+00:00",
    duration_s=431.25,
    attempt=2,
    host=Host(device="NVIDIA <H200>"),
    versions={"torch": "2.13", "campaign": "0.1.0"},
)
MACROS = '{% import "_macros.md.j2" as m %}'


def render(source: str, folder: object, **variables: object) -> str:
    from pathlib import Path

    assert isinstance(folder, Path)
    (folder / "t.md.j2").write_text(MACROS + source, encoding="utf-8")
    return Renderer([folder, shipped_templates()]).render("t.md.j2", variables)


def test_provenance__stands_in_one_collapsed_line_and_is_found_again(tmp_path: object) -> None:
    source = provenance_of(RESULT, path="state/results/gemm/2/result.json", file_hash="ab" * 32)
    other = provenance_of(RESULT, path="state/results/a&b/1/result.json", file_hash="cd" * 8)
    written = render("text\n\n{{ m.provenance([s, o]) }}", tmp_path, s=source, o=other)
    lines = [line for line in written.split("\n") if line.startswith("<details>")]
    assert len(lines) == 2
    assert lines[0].endswith("; with campaign 0.1.0, torch 2.13</details>")
    assert "attempt 2, 2026-01-01T00:10:00+00:00, NVIDIA &lt;H200&gt;" in lines[0]
    assert "431 s by <code>python -m campaign.measure.gemm --config &#x27;a b|&lt;c&gt;.json&#x27;" in lines[0]
    content = revise(b"", {"gemm": written, "macro": "x"}).content
    found = find_provenance(find(content)[0].text)
    assert [(f.path, f.hash) for f in found] == [
        ("state/results/gemm/2/result.json", "ab" * 32),
        ("state/results/a&b/1/result.json", "cd" * 8),
    ]
    assert find_provenance(find(content)[1].text) == ()


def test_caveats__are_quoted_where_numbers_stand(tmp_path: object) -> None:
    assert render("{{ m.caveats(notes) }}x", tmp_path, notes=["a CPU run", "> b|c"]) == (
        "> a CPU run\n>\n> &gt; b\\|c\n\nx"
    )
    assert render("{{ m.caveats(notes) }}x", tmp_path, notes=[]) == "x"


def test_figure__links_beside_the_document(tmp_path: object) -> None:
    written = render("{{ m.figure('step.svg', 'One [step]') }}", tmp_path)
    assert written == "![One \\[step\\]](figures/step.svg)\n\n*One \\[step\\]*\n\n"


class Inner(msgspec.Struct, frozen=True, kw_only=True):
    """A row."""

    ms: float | None
    """Milliseconds a step;
    missing where not measured."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What gemm.md.j2 gets.

    More that is not printed.
    """

    rows: tuple[Inner, ...] = ()
    """One a layer kind."""
    by_name: dict[str, Inner] = {}
    """By layer kind."""


class Plain(msgspec.Struct, frozen=True, kw_only=True):
    """No docstring below its field."""

    count: int = 0


def test_describe_templates__lists_every_field_with_its_docstring() -> None:
    assert describe_templates({"gemm.md.j2": View}, "# Templates\n") == (
        "# Templates\n\n## gemm.md.j2\n\nWhat gemm.md.j2 gets.\n\n- `rows` (list of Inner): One a layer kind.\n"
        "- `by_name` (Inner by str): By layer kind.\n\n## Records\n\nWhat the types above are made of.\n\n"
        "### Inner\n\nA row.\n\n- `ms` (float or nothing): Milliseconds a step; missing where not measured.\n"
    )


def test_describe_templates__field_whose_name_says_all_is_listed_with_its_type() -> None:
    assert "- `count` (int)\n" in describe_templates({"a.md.j2": Plain}, "")


def test_describe_templates__tells_every_filter_by_its_docstring() -> None:
    written = describe_templates({"gemm.md.j2": View})
    for line in (
        "# Templates\n",
        "- `num`: `value` with `digits` significant digits, digits before the point never rounded away",
        "- `code`: `value` as inline code, also inside a table; where backticks cannot hold it, as `<code>`.",
        "- `table(headers, rows, align)`: A table: text is escaped, numbers get three significant",
        "## gemm.md.j2",
    ):
        assert line in written
    assert ": \n" not in written
