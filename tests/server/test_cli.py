"""`server start|stop|status|logs` as they are typed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from campaign import schema
from campaign.cli.server import server
from campaign.errors import UsageError
from campaign.server import ServerRecord, stop
from campaign.store import Store

from .test_wait import standin_spec

Typed = Callable[..., Result]


@pytest.fixture()
def typed(tmp_path: Path) -> Iterator[Typed]:
    spec = standin_spec(tmp_path, 0.5)

    def run(*words: str) -> Result:
        return CliRunner().invoke(
            server, list(words), obj={"dir": tmp_path, "server_spec": lambda: spec}, catch_exceptions=True
        )

    yield run
    state = Store(tmp_path).load_state()
    if state is not None and state.server and state.server["state"] != "stopped":
        stop(msgspec.convert(state.server, ServerRecord))


def test_cli__start_status_logs_stop(typed: Typed, tmp_path: Path) -> None:
    assert "No server was started" in typed("status").output
    started = typed("start")
    assert "is ready as campaign-" in started.output
    assert "answering" in started.output
    assert "ready (pid" in typed("status").output
    assert "is ready as campaign-" in typed("start").output  # adopted
    assert len((tmp_path / "starts").read_text().split()) == 1
    assert "Application startup complete." in typed("logs", "-n", "3").output
    assert "is free" in typed("stop").output
    assert "No server of this campaign runs" in typed("stop").output
    assert "gone" in typed("status").output


def test_cli__start_without_waiting(typed: Typed) -> None:
    assert "is loading as campaign-" in typed("start", "--no-wait").output
    assert "loading" in typed("status").output


def test_cli__an_attached_server_is_not_stopped(typed: Typed, tmp_path: Path) -> None:
    store = Store(tmp_path)
    record = ServerRecord(state="ready", kind="attached", url="http://127.0.0.1:9")
    store.save_state(msgspec.structs.replace(store.new_state(), server=schema.builtins(record)), "server")
    result = typed("stop")
    assert isinstance(result.exception, UsageError)
    assert "never stops an attached server" in str(result.exception)
