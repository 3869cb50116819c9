"""The sandbox that templates run in: what they may call, and how values become text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from jinja2 import FileSystemLoader, StrictUndefined, nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import TemplateRuntimeError
from jinja2.sandbox import SandboxedEnvironment
from jinja2.utils import missing
from markupsafe import Markup

from campaign.render import escape, numbers, tables

#: Jinja2's own filters that cannot turn a value into markdown.
KEPT_FILTERS = (
    *("abs", "batch", "capitalize", "count", "d", "default", "dictsort", "first", "float", "groupby", "int", "items"),
    *("last", "length", "list", "lower", "map", "max", "min", "reject", "rejectattr", "replace", "reverse", "round"),
    *("select", "selectattr", "slice", "sort", "sum", "title", "trim", "truncate", "unique", "upper"),
)


class Text(str):
    """A string that came from a value; whatever joins it to markdown takes it as text."""

    __slots__ = ()

    def __html__(self) -> str:
        return escape.text(self)


class Literal(str):
    """A string that a template says itself; blanks at its edges are meant, as in `{{ "" if loop.last else ", " }}`."""

    __slots__ = ()


class Record(dict[str, object]):
    """The fields of a struct; a field is found before a method of that name."""


def as_variable(value: object) -> object:
    """`value` as templates see it: structs and mappings as records, strings as text, markdown as it is."""
    if isinstance(value, msgspec.Struct):
        return Record((name, as_variable(getattr(value, name))) for name in value.__struct_fields__)
    if isinstance(value, Mapping):
        return Record((str(key), as_variable(item)) for key, item in value.items())
    if isinstance(value, Markup) or value is None or isinstance(value, int | float):
        return value
    if isinstance(value, str):
        return Text(value)
    if isinstance(value, Iterable):
        return [as_variable(item) for item in value]
    return Text(str(value))


def as_markdown(value: object) -> str:
    """What `{{ value }}` prints."""
    if isinstance(value, Markup):
        return value
    if value is None:
        return Markup(numbers.DASH)
    if isinstance(value, int | float):
        return numbers.num(value)
    return Markup(_spaced(value)) if isinstance(value, Literal) else escape.text(str(value))


class MissingName(StrictUndefined):
    """A name that a template uses and nothing defines."""

    @property
    def _undefined_message(self) -> str:
        name, owner = self._undefined_name, self._undefined_obj
        if self._undefined_hint:
            return self._undefined_hint
        if owner is missing:
            return f"there is no variable {name!r}"
        if isinstance(owner, Mapping):
            return f"there is no {name!r} here; there are: {', '.join(sorted(map(str, owner))) or 'none'}"
        return f"{type(owner).__name__} has no {name!r}"


class _Generator(CodeGenerator):
    def visit_Const(self, node: nodes.Const, frame: Frame) -> None:
        """Strings that the template says are known as such when they are printed."""
        if isinstance(node.value, str):
            self.write(f"environment.literal({node.value!r})")
        else:
            super().visit_Const(node, frame)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        """`a ~ b` through this environment, so that text joined to markdown is escaped as markdown."""
        self.write("environment.joined((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")


def _spaced(part: object) -> str:
    """A part as markdown that keeps its blanks: they stand between words here, not at a value's edges."""
    if isinstance(part, Markup) or not isinstance(part, str):
        return str(as_markdown(part))
    body = part.strip(" ")
    lead = part[: len(part) - len(part.lstrip(" "))]
    return lead + str(escape.text(body)) + part[len(lead) + len(body) :] if body else str(part)


class MarkdownEnvironment(SandboxedEnvironment):
    """Jinja2 whose output is markdown: values are text unless a filter or the template itself made them markdown."""

    code_generator_class = _Generator
    literal = Literal
    intercepted_binops = frozenset(["+", "%"])

    def __init__(self, folders: Sequence[str]) -> None:
        super().__init__(
            loader=FileSystemLoader(folders, encoding="utf-8-sig"),
            autoescape=True,
            finalize=as_markdown,
            undefined=MissingName,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        kept = {name: self.filters[name] for name in KEPT_FILTERS}
        self.filters = {**kept, **_filters(), "join": self._join}
        self.globals |= {function.__name__: function for function in FUNCTIONS}

    def joined(self, parts: Sequence[object]) -> str:
        """`a ~ b`: markdown where a part is markdown, else text."""
        if any(isinstance(part, Markup) for part in parts):
            return Markup("".join(_spaced(part) for part in parts))
        plain = (str(as_markdown(part)) if not isinstance(part, str) else str(part) for part in parts)
        return Text("".join(plain))

    def _join(self, values: Iterable[object], separator: str = "", attribute: str | None = None) -> str:
        items = [self.getattr(value, attribute) if attribute else value for value in values]
        between = [part for item in items for part in (separator, item)][1:]
        return self.joined(between)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """`+` on text like `~`; `%` only on numbers."""
        if isinstance(left, str) or isinstance(right, str):
            if operator == "%":
                raise TemplateRuntimeError("`%` does not format text here; use `~` and filters such as num")
            return self.joined((left, right))
        return super().call_binop(context, operator, left, right)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """A field of a record before any method of a dict."""
        if isinstance(obj, Record) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """No `str.format` in templates."""
        return None

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """What a template may reach; formatting and joining by methods would pass values by."""
        if isinstance(obj, str) and attr in ("format", "format_map", "join"):
            return False
        return super().is_safe_attribute(obj, attr, value)


def dash(value: object) -> object:
    """A dash where the value is missing or empty, else the value."""
    return Markup(numbers.DASH) if value is None or value == "" else value


def string(value: object) -> Text:
    """Anything as text."""
    return Text(str(value))


#: Filters on numbers and lists, and those on text; templates/README.md prints the first line of each docstring.
NUMBER_FILTERS: tuple[Callable[..., Any], ...] = (
    *(numbers.num, numbers.fixed, numbers.percent, numbers.signed, numbers.column, numbers.shares, dash, string),
)
TEXT_FILTERS: tuple[Callable[..., Markup], ...] = (
    *(escape.text, escape.cell, escape.code, escape.kernel, escape.sentence, escape.html, escape.block),
)
FUNCTIONS: tuple[Callable[..., Any], ...] = (tables.table, numbers.column, numbers.shares)


def _filters() -> dict[str, Callable[..., Any]]:
    def over_text(function: Callable[..., Markup]) -> Callable[..., Markup]:
        def apply(value: object, *args: object) -> Markup:
            if value is None:
                return Markup(numbers.DASH)
            return value if isinstance(value, Markup) else function(str(value), *args)

        return apply

    plain = {function.__name__: function for function in NUMBER_FILTERS}
    return plain | {function.__name__: over_text(function) for function in TEXT_FILTERS}
