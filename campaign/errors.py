"""The tree of errors; each knows its exit code.

A message says what is wrong, where, and what to do next. Core code raises nothing else on purpose.
"""

from __future__ import annotations

EXIT_OK = 0
EXIT_CHECK = 1
EXIT_USAGE = 2
EXIT_PHASE = 3
EXIT_LOCKED = 4
EXIT_DOCUMENT = 5
EXIT_SERVER = 6
EXIT_INTERRUPTED = 130

#: Where several codes apply, the earliest here wins.
EXIT_PRECEDENCE = (EXIT_INTERRUPTED, EXIT_LOCKED, EXIT_USAGE, EXIT_SERVER, EXIT_PHASE, EXIT_DOCUMENT, EXIT_CHECK)


class CampaignError(Exception):
    """Any failure this package explains itself; `exit_code` is what the command returns."""

    exit_code = EXIT_PHASE


class UsageError(CampaignError):
    """A command was given something it cannot use."""

    exit_code = EXIT_USAGE


class ConfigError(UsageError):
    """campaign.toml (or a model's config.json) holds something wrong: key path, line, what to write instead."""


class StateError(UsageError):
    """The state cannot be used as it is: newer schema, unreadable beyond recovery, or a folder that cannot hold it."""


class StorageError(CampaignError):
    """A file could not be written or read; the old one survives."""


class PhaseError(CampaignError):
    """A measurement or its analysis failed."""


class TraceError(CampaignError):
    """No usable trace: nothing to analyse at the given paths."""

    exit_code = EXIT_USAGE


class LoadError(CampaignError):
    """The load generator could not run a cell at all."""


class LockedError(CampaignError):
    """Another runner works on this campaign folder."""

    exit_code = EXIT_LOCKED


class DocumentError(CampaignError):
    """The document's structure is unsound or a person must decide; nothing was written.

    `line` is the 1-based line of the first problem, where one is known.
    """

    exit_code = EXIT_DOCUMENT

    def __init__(self, message: str, *, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class TemplateError(CampaignError):
    """A template cannot be rendered: template, line, the missing name, the names that exist."""

    exit_code = EXIT_USAGE


class ServerError(CampaignError):
    """The server could not be started, died, hung, or is not the one expected."""

    exit_code = EXIT_SERVER

    def __init__(self, message: str, *, cause: str | None = None, is_transient: bool = False) -> None:
        super().__init__(message)
        self.cause = cause
        self.is_transient = is_transient


class InterruptedRun(CampaignError):
    """A person (or the system) asked to stop; the state is saved."""

    exit_code = EXIT_INTERRUPTED


def combined_exit_code(codes: list[int]) -> int:
    """The one code to return where several apply (precedence: 130, 4, 2, 6, 3, 5, 1; 0 when none)."""
    return next((code for code in EXIT_PRECEDENCE if code in codes), EXIT_OK)
