"""One template and its variables into text, or an error that says what to correct."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

import jinja2

from campaign.errors import TemplateError
from campaign.render.environment import MarkdownEnvironment, as_variable


def shipped_templates() -> Path:
    """The folder of the templates that come with the package."""
    inside = Path(__file__).parents[1] / "templates"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "templates"


class Renderer:
    """Renders templates of `folders`; the first folder that has a template wins."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = tuple(folders)
        self._environment = MarkdownEnvironment([str(folder) for folder in folders])

    def names(self) -> tuple[str, ...]:
        """File names of all templates there are."""
        return tuple(sorted(name for name in self._environment.list_templates() if name.endswith(".j2")))

    def render(self, template: str, variables: Mapping[str, object]) -> str:
        """`template` (a file name) with `variables`, LF. Structs are given by their fields, strings stay text.

        Raises `TemplateError` with the template, the line, the missing name and the names that exist.
        """
        try:
            loaded = self._environment.get_template(template)
            rendered = loaded.render({name: as_variable(value) for name, value in variables.items()})
        except jinja2.TemplateNotFound as error:
            raise self._not_found(str(error.name)) from error
        except jinja2.TemplateSyntaxError as error:
            name = error.filename or error.name or template
            raise TemplateError(f"{name}, line {error.lineno}: {error.message}. Correct the template.") from error
        except jinja2.UndefinedError as error:
            place = self._place(template, error.__traceback__)
            raise TemplateError(f"{place}: {self._with_names(str(error.message), variables)}.") from error
        except (jinja2.TemplateError, ArithmeticError, TypeError, ValueError, LookupError, AttributeError) as error:
            place = self._place(template, error.__traceback__)
            raise TemplateError(f"{place}: {error}. Correct the template.") from error
        return str(rendered).replace("\r\n", "\n").replace("\r", "\n")

    def _not_found(self, name: str) -> TemplateError:
        near = difflib.get_close_matches(name, self.names(), n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        places = ", ".join(map(str, self.folders))
        return TemplateError(f"{name}: no such template in {places}.{hint} There are: {', '.join(self.names())}.")

    def _with_names(self, message: str, variables: Mapping[str, object]) -> str:
        if not message.startswith("there is no variable"):
            return message
        missing = message.split("'")[1]
        near = difflib.get_close_matches(missing, list(variables), n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        return f"{message}{hint}; there are: {', '.join(sorted(variables)) or 'none'}"

    def _place(self, template: str, traceback: TracebackType | None) -> str:
        """Template and line where it went wrong: the innermost frame that stands in a template."""
        place = template
        while traceback is not None:
            file = traceback.tb_frame.f_code.co_filename
            if file.endswith(".j2"):
                place = f"{file}, line {traceback.tb_lineno}"
            traceback = traceback.tb_next
        return place
