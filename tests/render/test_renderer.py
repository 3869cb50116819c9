"""Templates: what they see, what their errors say, that values stay text."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from campaign.errors import TemplateError
from campaign.render import Renderer, shipped_templates


class Row(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    items: float | None = None
    values: tuple[float, ...] = ()


class View(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    rows: tuple[Row, ...] = ()


VIEW = View(title="a|b *c*", rows=(Row(name="x|y", items=1.23456), Row(name="<br>", values=(1.0, 3.0))))


def render(folder: Path, source: str, **variables: object) -> str:
    (folder / "t.md.j2").write_text(source, encoding="utf-8", newline="")
    return Renderer([folder]).render("t.md.j2", variables)


def test_render__values_are_text_however_they_are_joined(tmp_path: Path) -> None:
    evil = "*a*|<b>\n# {{ x }}"
    shown = "\\*a\\*\\|&lt;b> # {{ x }}".replace(" # ", " \\# ")
    for source in (
        "{{ x }}",
        "{{ x|text }}",
        "{{ x|cell }}",
        "{{ x ~ '' }}",
        "{{ '' ~ x }}",
        "{{ x + '' }}",
        "{{ [x]|join }}",
        "{{ x|upper|lower }}",
        "{{ x.strip() }}",
        "{{ x|trim }}",
        "{% macro m(v) %}{{ v }}{% endmacro %}{{ m(x) }}",
        "{% set y %}{{ x }}{% endset %}{{ y }}",
        "{% set y = x %}{{ y|default('z') }}",
        "{{ (x|code)[:0] ~ x.strip() }}",
        "{{ (x|code)[:0] + x.strip() }}",
        "{{ [(x|code)[:0], x.strip()]|join }}",
        "{{ {'k': x}.k }}",
        "{{ x if true else '' }}",
    ):
        assert render(tmp_path, source, x=evil) == shown, source


def test_render__blanks_that_a_template_says_are_printed(tmp_path: Path) -> None:
    loop = "{% for x in xs %}{{ x }}{{ '' if loop.last else ', ' }}{% endfor %}"
    assert render(tmp_path, loop, xs=["a", "b"]) == "a, b"
    assert render(tmp_path, "a{{ ' or ' if yes }}b", yes=True) == "a or b"
    assert render(tmp_path, "{% set between = ', ' %}a{{ between }}b") == "a, b"
    assert render(tmp_path, "{{ x }}", x="    no code block") == "no code block"


def test_render__a_reason_ends_with_one_full_stop(tmp_path: Path) -> None:
    for reason in ("TP 1 has none", "TP 1 has none."):
        assert render(tmp_path, "Not measured: {{ x|sentence }}", x=reason) == "Not measured: TP 1 has none."


def test_render__kernels_keep_what_tells_them_apart(tmp_path: Path) -> None:
    flash = "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<int> > >(int, float*)"
    for name, shown in (
        (flash, "cutlass::device_kernel&lt;flash::enable_sm90_or_later&lt;flash::FlashAttnFwdSm90&lt;int> > >"),
        ("void at::native::(anonymous namespace)::fill<int>(int*)", "at::native::fill&lt;int>"),
        ("aten::mm", "aten::mm"),
        ("k" * 200, "k" * 89 + "…"),
        ("(x)", "(x)"),
    ):
        assert render(tmp_path, "{{ x|kernel }}", x=name) == shown


def test_render__ways_around_the_escaping_are_closed(tmp_path: Path) -> None:
    for source in (
        "{{ x|safe }}",
        "{{ x.format(1) }}",
        "{{ '%s' % x }}",
        "{{ (1|num) % x }}",
        "{{ (1|num).join([x]) }}",
        "{{ x.__class__ }}",
        "{{ x.__html__() }}",
        "{{ ''.__class__.__mro__ }}",
    ):
        with pytest.raises(TemplateError, match=r"t\.md\.j2"):
            render(tmp_path, source, x="<!-- -->")


def test_render__fields_are_found_before_methods_of_that_name(tmp_path: Path) -> None:
    source = "{% for r in view.rows %}{{ r.items|num }};{{ r['values']|sum }};{% endfor %}"
    assert render(tmp_path, source, view=VIEW) == "1.23;0;–;4.00;"


def test_render__tables_from_fields(tmp_path: Path) -> None:
    source = "{{ table(['name', 'ms'], view.rows|map(attribute='name')|zip(column([1.0, None]))) }}"
    with pytest.raises(TemplateError, match="zip"):
        render(tmp_path, source, view=VIEW)
    source = (
        "{% set ns = namespace(rows=[]) %}{% for r in view.rows %}"
        "{% set ns.rows = ns.rows + [[r.name, r.items]] %}{% endfor %}{{ table(['name', 'ms'], ns.rows) }}"
    )
    assert render(tmp_path, source, view=VIEW) == (
        "| name  |   ms |\n|-------|-----:|\n| x\\|y  | 1.23 |\n| &lt;br> |    – |\n"
    ).replace("| name  |   ms |\n|-------|-----:|\n| x\\|y  |", "| name    |   ms |\n|---------|-----:|\n| x\\|y    |")


def test_render__raw_numbers_missing_values_and_bools(tmp_path: Path) -> None:
    assert render(tmp_path, "{{ a }} {{ b }} {{ c }} {{ d }}", a=0.1 + 0.2, b=None, c=True, d=12345) == (
        "0.300 – yes 12,345"
    )


def test_render__missing_variable_names_line_and_what_exists(tmp_path: Path) -> None:
    with pytest.raises(TemplateError) as caught:
        render(tmp_path, "a\n\n{{ vieww.title }}\n", view=VIEW, other=1)
    message = str(caught.value)
    assert "t.md.j2, line 3" in message
    assert "'vieww' (did you mean 'view'?); there are: other, view" in message


def test_render__missing_field_names_the_fields_that_exist(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match=r"line 2: there is no 'nam' here; there are: items, name, values"):
        render(tmp_path, "{% for r in view.rows %}\n{{ r.nam }}\n{% endfor %}", view=VIEW)


def test_render__missing_name_in_an_included_macro_names_that_file(tmp_path: Path) -> None:
    (tmp_path / "_m.md.j2").write_text("{% macro f(x) %}\n\n{{ x.nope }}\n{% endmacro %}", encoding="utf-8")
    with pytest.raises(TemplateError, match=r"_m\.md\.j2, line 3: there is no 'nope'"):
        render(tmp_path, '{% import "_m.md.j2" as m %}\n{{ m.f(view) }}', view=VIEW)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("a\n{% if %}", "line 2"),
        ("a\n{% for x in y %}", "line 2"),
        ("a\n\n{{ view.title|nosuch }}", "line 3.*nosuch"),
        ("a\n{{ view.title|num }}", "line 2.*not a number"),
        ("a\n{{ 1 / 0 }}", "line 2.*division"),
        ("a\n{{ table(['a'], [[1, 2]]) }}", "line 2.*row 1 has 2 cells"),
        ("{% include 'none.md.j2' %}", "no such template"),
    ],
)
def test_render__errors_name_template_and_line(tmp_path: Path, source: str, message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        render(tmp_path, source, view=VIEW)


def test_render__first_folder_wins_and_line_ends_are_lf(tmp_path: Path) -> None:
    mine, shipped = tmp_path / "mine", tmp_path / "shipped"
    for folder, text in ((mine, "\ufeffmine\r\n{{ x }}\r\n"), (shipped, "shipped\n")):
        folder.mkdir()
        (folder / "a.md.j2").write_text(text, encoding="utf-8", newline="")
        (folder / f"{folder.name}.md.j2").write_text(text, encoding="utf-8", newline="")
    renderer = Renderer([mine, shipped])
    assert renderer.render("a.md.j2", {"x": 1}) == "mine\n1\n"
    assert renderer.render("shipped.md.j2", {}) == "shipped\n"
    assert renderer.names() == ("a.md.j2", "mine.md.j2", "shipped.md.j2")
    with pytest.raises(TemplateError, match=r"Did you mean shipped\.md\.j2"):
        renderer.render("shiped.md.j2", {})


def test_render__same_bytes_in_any_locale_and_hash_seed(tmp_path: Path) -> None:
    (tmp_path / "t.md.j2").write_text(
        "{{ table(['a', 'b'], rows) }}{{ 1234567.5|num }} "
        "{% for k, v in d|dictsort %}{{ k }}{{ v }}{% endfor %} {{ 'ä'|upper }}",
        encoding="utf-8",
    )
    program = (
        "import sys; from pathlib import Path; from campaign.render import Renderer\n"
        "variables = {'rows': [['\\u00e4', 1.5], ['\\u6f22\\u5b57', None]], 'd': {'b': 1, 'a': 2}}\n"
        "sys.stdout.buffer.write(Renderer([Path(sys.argv[1])]).render('t.md.j2', variables).encode())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program, str(tmp_path)],
            env={**os.environ, "LC_ALL": locale, "PYTHONHASHSEED": seed, "PYTHONUTF8": "0"},
            capture_output=True,
            check=True,
        ).stdout
        for locale, seed in (("C", "1"), ("de_DE.UTF-8", "2"), ("tr_TR.UTF-8", "3"))
    }
    assert len(outputs) == 1
    assert "| ä    | 1.50 |\n| 漢字 |    – |\n1,234,568 a2b1 Ä" in outputs.pop().decode()


def test_shipped_templates__compile() -> None:
    renderer = Renderer([shipped_templates()])
    assert {"_macros.md.j2", "header.md.j2"} <= set(renderer.names())
    variables = {"campaign": {"title": "T|x"}, "date": "2026", "model": "m", "hardware": "h", "engine": "e"}
    written = renderer.render("header.md.j2", variables)
    assert written.startswith("# T\\|x\n\n**Date:** 2026  \n")
