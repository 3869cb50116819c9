"""The small language of `holds_if`: parsed by Python's own parser, checked node by node, never executed."""

from __future__ import annotations

import ast
import re

from campaign.analysis.readings import ALIASES, CATEGORIES, nearest
from campaign.errors import ConfigError

#: Function → what its one text argument names.
FUNCTIONS = {"share": "category", "busy_share": "category", "calls": "category", "value": "quantity"}

#: What the phases publish, for errors before anything is measured; others may exist, these are known.
PUBLISHED = {
    "macro": (
        "tpot_ms", "itl_ms", "ttft_ms", "e2el_ms", "output_tok_s", "goodput_req_s", "client_tokens", "server_tokens",
    ),
    "gemm": ("step_ms", "us", "floor_fraction"),
    "collectives": (
        "burst_ms", "burst_graph_ms", "burst_calls", "burst_us_per_call", "message_bytes", "alpha_us", "beta_gb_s",
    ),
    "profile": (
        "step_ms", "idle_ms", "busy_ms", "exposed_ms", "share", "busy_share", "calls", "us_per_call", "batch", "steps",
        "allreduce_wait_us", "allreduce_transfer_us", "rank_spread_ms", "unclassified_share", "unprofiled_tpot_ms",
    ),
    "model": ("allreduces_per_step", "message_bytes", "weight_bytes_per_step", "floor_ms"),
    "attention": ("us", "step_ms"),
    "environment": (),
}  # fmt: skip

_COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)
#: `profile.step_ms@b16` is one name here; Python would read a matrix product.
_BATCH = re.compile(r"(?<=[\w])@b(\d+)\b")
_MARK = "__at_b"
_MOST_CHARACTERS = 1000


def parse(expression: str) -> ast.expr:
    """The checked syntax tree of a claim's test; raises `ConfigError` naming what is wrong and what exists."""
    tree = _tree(expression)
    if not _is_truth(tree):
        _check_number(tree, expression)
        raise ConfigError(
            f"holds_if = {expression!r} is a number, not a claim. Compare it, e.g. `{expression.strip()} > 0.3`."
        )
    _check_truth(tree, expression)
    return tree


def check_syntax(expression: str) -> None:
    """Check a claim's test before anything is measured; raises `ConfigError` like `parse`."""
    parse(expression)


def _tree(expression: str) -> ast.expr:
    if len(expression) > _MOST_CHARACTERS:
        raise ConfigError(f"holds_if is longer than {_MOST_CHARACTERS} characters. Split the claim in two.")
    try:
        return ast.parse(_BATCH.sub(rf"{_MARK}\1", expression.strip()), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        where = f" at character {error.offset}" if isinstance(error, SyntaxError) and error.offset else ""
        raise ConfigError(
            f"holds_if = {expression!r} cannot be read{where}. "
            'Write e.g. `share("gemm") > share("allreduce")` or `burst_ms / step_ms < 0.2`.'
        ) from error


def _is_truth(node: ast.expr) -> bool:
    return isinstance(node, (ast.Compare, ast.BoolOp)) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    )


def _check_truth(node: ast.expr, expression: str) -> None:
    match node:
        case ast.BoolOp(values=values):
            for value in values:
                _check_truth(value, expression)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            _check_truth(operand, expression)
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            if not all(isinstance(op, _COMPARISONS) for op in ops):
                raise _not_understood("only <, <=, > and >= compare measured numbers", node, expression)
            for side in (left, *comparators):
                _check_number(side, expression)
        case _:
            raise _not_understood("`and`, `or` and `not` join comparisons", node, expression)


def _check_number(node: ast.expr, expression: str) -> None:
    match node:
        case ast.Constant(value=value) if isinstance(value, (int, float)) and not isinstance(value, bool):
            if abs(value) > 1e300:
                raise _not_understood("numbers are below 1e300", node, expression)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            _check_number(operand, expression)
        case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _ARITHMETIC):
            _check_number(left, expression)
            _check_number(right, expression)
        case ast.Call():
            _check_call(node, expression)
        case ast.Name() | ast.Attribute():
            check_name(dotted(node, expression), expression)
        case _:
            raise _not_understood("only numbers, names, + - * / and " + _functions() + " are known", node, expression)


def _check_call(node: ast.Call, expression: str) -> None:
    name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
    if name not in FUNCTIONS:
        raise ConfigError(f"holds_if = {expression!r}: there is no function {name!r}. Known: {_functions()}.")
    argument = text_argument(node)
    if argument is None:
        raise ConfigError(
            f"holds_if = {expression!r}: {name} takes one {FUNCTIONS[name]} in quotes, e.g. {_example(name)}."
        )
    category = argument.partition("@")[0]
    if FUNCTIONS[name] == "category" and category not in (*CATEGORIES, "idle"):
        raise ConfigError(
            f"holds_if = {expression!r}: there is no category {category!r}. "
            f"{_suggestion(category, (*CATEGORIES, 'idle'))}"
        )


def check_name(name: str, expression: str) -> None:
    """Raise `ConfigError` for a name that no phase publishes, with the nearest that exist."""
    plain = name.partition("@")[0]
    if plain in ALIASES:
        return
    head, *rest = plain.split(".")
    known = [*ALIASES, *(f"{phase}.{quantity}" for phase, names in PUBLISHED.items() for quantity in names)]
    if not rest or head not in PUBLISHED:
        raise ConfigError(f"holds_if = {expression!r}: there is no quantity {name!r}. {_suggestion(plain, known)}")
    if rest[0] not in PUBLISHED[head]:
        close = [f"{head}.{known}" for known in nearest(rest[0], PUBLISHED[head])]
        if close:
            raise ConfigError(
                f"holds_if = {expression!r}: there is no quantity {name!r}. The nearest: {', '.join(close)}."
            )


def dotted(node: ast.expr, expression: str) -> str:
    """`profile.step_ms@b16` out of the tree; raises `ConfigError` for anything else before a dot."""
    match node:
        case ast.Name(id=name):
            return name.replace(_MARK, "@b")
        case ast.Attribute(value=value, attr=attribute):
            return f"{dotted(value, expression)}.{attribute}".replace(_MARK, "@b")
        case _:
            raise _not_understood("a name is words with dots between", node, expression)


def text_argument(node: ast.Call) -> str | None:
    """The one quoted argument of a call, or None."""
    match node:
        case ast.Call(args=[ast.Constant(value=str(value))], keywords=[]):
            return value.replace(_MARK, "@b")
        case _:
            return None


def _functions() -> str:
    return ", ".join(f"{name}()" for name in FUNCTIONS)


def _example(function: str) -> str:
    return f'{function}("gemm")' if FUNCTIONS[function] == "category" else f'{function}("profile.step_ms")'


def _suggestion(name: str, known: tuple[str, ...] | list[str]) -> str:
    close = nearest(name, known)
    return f"The nearest: {', '.join(close)}." if close else f"Known: {', '.join(known)}."


def _not_understood(rule: str, node: ast.AST, expression: str) -> ConfigError:
    part = ast.unparse(node).replace(_MARK, "@b") if isinstance(node, ast.expr) else ""
    return ConfigError(f"holds_if = {expression!r}: `{part}` is not understood: {rule}.")
