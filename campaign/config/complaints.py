"""What is wrong in campaign.toml: key path, line and what to write instead."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from campaign.errors import ConfigError


class Complaints:
    """Turns what is wrong into a `ConfigError` with the key's path and its line."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._lines = text.splitlines()

    def table(self, kind: type[Any], value: Any, place: tuple[Any, ...]) -> Any:
        """`value` as the struct `kind`."""
        if not isinstance(value, dict):
            raise self.value(place, f"{value!r} is no table", f"Write [{_dotted(place)}].")
        known = [field.encode_name for field in msgspec.structs.fields(kind)]
        for key in value:
            if key not in known:
                raise self.unknown(place, key, known)
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            text = str(error)
            match = re.search(r" - at `\$\.?(.*?)`$", text)
            inner = tuple(re.findall(r"[^.\[\]]+", match[1])) if match else ()
            what = text[: match.start()] if match else text
            raise self.value((*place, *inner), what, "Write a value that fits.") from error

    def array(self, data: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
        """The tables of an array of tables."""
        value = data.get(key, [])
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            raise self.value((key,), "must be an array of tables", f"Write [[{key}]].")
        return value

    def unknown(self, place: tuple[Any, ...], key: str, known: list[str]) -> ConfigError:
        """An unknown key and the nearest known ones."""
        return self.value((*place, key), "is no known key", nearest(key, known))

    def value(self, path: tuple[Any, ...], what: str, instead: str) -> ConfigError:
        """What is wrong at a key, and what to write instead."""
        line = self._line(path)
        where = f"{self._name}:{line}" if line else self._name
        return ConfigError(f"{where}: {_dotted(path)}: {what.removesuffix('.')}. {instead}".rstrip())

    def _line(self, path: tuple[Any, ...]) -> int | None:
        """The line of a key: its table's header first, then the key within; None where a scan does not find it."""
        if not self._lines or not path:
            return None
        number = path[1] if len(path) > 1 and isinstance(path[1], int) else None
        header = rf"\s*\[\[\s*{path[0]}\s*\]\]" if number is not None else rf"\s*\[\s*{path[0]}\s*\]"
        starts = [i for i, line in enumerate(self._lines) if re.match(header, line)]
        index = number or 0
        start = starts[index] if index < len(starts) else -1
        key = next((str(part) for part in reversed(path[1:]) if not str(part).isdigit()), str(path[0]))
        for i in range(start + 1, len(self._lines)):
            if start >= 0 and re.match(r"\s*\[", self._lines[i]):
                break
            if re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", self._lines[i]):
                return i + 1
        return start + 1 if start >= 0 else self._anywhere(str(path[0]))

    def _anywhere(self, key: str) -> int | None:
        pattern = re.compile(rf"\s*\[*\s*[\"']?{re.escape(key)}[\"']?\s*[\].=]")
        return next((i for i, line in enumerate(self._lines, 1) if pattern.match(line)), None)


def _dotted(path: tuple[Any, ...]) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) or str(part).isdigit() else f".{part}" if text else str(part)
    return text


def nearest(key: str, known: list[str]) -> str:
    """The known key that was perhaps meant; all of them where none is near."""
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    return f"Did you mean {close[0]}?" if close else f"Known: {', '.join(known)}."
