"""templates/README.md: every variable that a template gets, from the docstrings of its struct."""

from __future__ import annotations

import ast
import inspect
import textwrap
import typing
from collections.abc import Callable, Iterator, Mapping

import msgspec

from campaign.render.environment import FUNCTIONS, KEPT_FILTERS, NUMBER_FILTERS, TEXT_FILTERS

INTRODUCTION = """\
# Templates

How findings are written up. Copy a file into your campaign's own `templates/` folder and change it there: a file
of yours wins over the shipped one of that name. `python -m campaign render --diff` shows what it makes of the
results you have; nothing is measured again.

The language is [Jinja2](https://jinja.palletsprojects.com/en/stable/templates/). What you write is markdown. What
a variable holds is text: `{{ name }}` shows its characters, whatever they are, and cannot break a table or end a
section. A missing number shows as a dash. A name that does not exist ends rendering with the template, the line
and the names there are.
"""


def describe_templates(views: Mapping[str, type[msgspec.Struct]], introduction: str | None = None) -> str:
    """templates/README.md: how templates work, filters, and the variables of each template.

    `views`: template's file name → the struct whose fields it gets. `introduction` replaces the general part.
    A field whose name says all needs no docstring.
    """
    general = f"{INTRODUCTION}\n{_describe_filters()}" if introduction is None else introduction
    parts = [general.strip() + "\n"] if general.strip() else []
    told: dict[str, str] = {}
    for template, view in sorted(views.items()):
        parts.append(f"## {template}\n\n{_summary(view)}\n\n{_fields(view)}")
    for nested in _nested(views.values()):
        name = nested.__name__ if nested.__name__ not in told else f"{nested.__name__} of {nested.__module__}"
        told[name] = f"### {name}\n\n{_summary(nested)}\n\n{_fields(nested)}"
    if told:
        parts.append("## Records\n\nWhat the types above are made of.\n")
        parts += [told[name] for name in sorted(told)]
    return "\n".join(parts)


def _describe_filters() -> str:
    """The filters and functions that templates may use, from their docstrings."""
    lines = ["## Filters\n"]
    lines += [f"- `{function.__name__}`: {_first_line(function)}" for function in (*NUMBER_FILTERS, *TEXT_FILTERS)]
    others = ", ".join(f"`{name}`" for name in sorted([*KEPT_FILTERS, "join"]))
    lines += [f"- and Jinja2's own {others}\n", "## Functions\n"]
    for function in FUNCTIONS:
        arguments = ", ".join(inspect.signature(function).parameters)
        lines.append(f"- `{function.__name__}({arguments})`: {_first_line(function)}")
    return "\n".join(lines)


def _first_line(function: Callable[..., object]) -> str:
    return (function.__doc__ or "").strip().split("\n")[0]


def _summary(struct: type[msgspec.Struct]) -> str:
    return " ".join((struct.__doc__ or "").strip().split("\n\n")[0].split())


def _fields(struct: type[msgspec.Struct]) -> str:
    docs = _docstrings(struct)
    hints = typing.get_type_hints(struct)
    named = ((name, f"`{name}` ({_type_name(hints[name])})") for name in struct.__struct_fields__)
    return "".join(f"- {entry}: {docs[name]}\n" if name in docs else f"- {entry}\n" for name, entry in named)


def _docstrings(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Field → the string literal below it, base structs included."""
    docs: dict[str, str] = {}
    for owner in reversed(struct.__mro__):
        if owner in (msgspec.Struct, object) or not issubclass(owner, msgspec.Struct):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
        assert isinstance(body, ast.ClassDef)
        for field, below in zip(body.body, body.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
                text = ast.literal_eval(below.value) if isinstance(below.value, ast.Constant) else ""
                docs[field.target.id] = " ".join(str(text).split())
    return docs


def _type_name(hint: object) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is None:
        return "nothing" if hint in (None, type(None)) else str(getattr(hint, "__name__", hint))
    if origin is typing.Literal:
        return " or ".join(map(str, arguments))
    names = [_type_name(argument) for argument in arguments if argument is not Ellipsis]
    if origin in (list, tuple):
        return f"list of {names[0]}" if len(set(names)) == 1 else f"list of {', '.join(names)}"
    if origin is dict:
        return f"{names[1]} by {names[0]}"
    return " or ".join(names)


def _nested(views: typing.Iterable[type[msgspec.Struct]]) -> Iterator[type[msgspec.Struct]]:
    """Structs that fields hold, however deep, each once."""
    seen: set[type] = set()
    waiting = list(views)
    while waiting:
        for hint in typing.get_type_hints(waiting.pop()).values():
            for struct in _structs(hint):
                if struct not in seen:
                    seen.add(struct)
                    waiting.append(struct)
                    yield struct


def _structs(hint: object) -> Iterator[type[msgspec.Struct]]:
    if isinstance(hint, type) and typing.get_origin(hint) is None and issubclass(hint, msgspec.Struct):
        yield hint
    for argument in typing.get_args(hint):
        yield from _structs(argument)
