"""Starting a server so that it outlives the runner, and can be found whatever kills the runner meanwhile."""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from campaign import schema
from campaign.errors import ServerError
from campaign.server import memory, port, probe, process
from campaign.server.record import ServerRecord, replace
from campaign.server.spec import ServerSpec

#: Writes who it is to a file and becomes the server: the pid is on disk before the server exists, even if the
#: runner dies in between. Words: the file, then the server's command.
_WRAPPER = (
    'read -r stat < /proc/$$/stat && printf "%s\\n%s\\n" "$CAMPAIGN_SERVER_TOKEN" "$stat" > "$0.new" '
    '&& mv "$0.new" "$0" && exec "$@"'
)

#: Younger intents than this are waited for: a process may be about to appear.
_FORK_S = 3.0

#: Servers of which this process is the parent: they are to be reaped, and have an exit code.
_children: dict[int, subprocess.Popen[bytes]] = {}


def launch(spec: ServerSpec, log_path: Path, save: Callable[[ServerRecord], None]) -> ServerRecord:
    """Start a server detached (own session, output to `log_path`, no input) and return what is known of it.

    `save` is called with the intent before anything runs, and with the pid after. An attached server is only
    looked up. Raises `ServerError` where the port is taken (by whom) or the command cannot be started.
    """
    if spec.kind == "attached":
        return _attach(spec, save)
    if spec.kind == "managed":
        check_port(spec)
    record = _intent(spec, log_path)
    save(record)
    record = _spawn(spec, record)
    save(record)
    return record


def check_port(spec: ServerSpec) -> None:
    """Raise `ServerError`, naming who listens there, unless the port is free."""
    if port.is_free(spec.host, spec.port):
        return
    other = ServerRecord(state="loading", url=spec.base_url, api_key_env=spec.api_key_env)
    models = probe.served_models(other)
    serving = f", serving {', '.join(models)}" if models else ""
    raise ServerError(
        f"Port {spec.port} of {spec.host} is taken by {port.holder(spec.port)}{serving}. Stop it, give server.url "
        "another port, or measure that server with server.manage = false.",
        cause="Address already in use",
        is_transient=not models,
    )


def words(spec: ServerSpec, served_name: str) -> list[str]:
    """The command with its placeholders filled in."""
    return _filled((*spec.argv, *(spec.profiler_argv if spec.profile_dir else ())), spec, served_name)


def _filled(given: tuple[str, ...], spec: ServerSpec, served_name: str) -> list[str]:
    values = {
        "{port}": str(spec.port),
        "{host}": spec.host,
        "{model}": spec.model,
        "{served_name}": served_name,
        "{profile_dir}": spec.profile_dir or "",
    }
    return [_fill(word, values) for word in given]


def exit_code(record: ServerRecord) -> int | None:
    """The server's exit code, where this process is its parent and it has ended."""
    child = _children.get(record.pid or -1)
    return child.poll() if child else None


def pid_path(record: ServerRecord) -> Path:
    """The file in which a starting server notes who it is."""
    return Path(f"{record.log_path}.pid")


def recover(record: ServerRecord) -> ServerRecord:
    """Fill in the pid of a record whose runner died before saving it; unchanged where nothing was started."""
    if record.pid is not None or not record.token or record.boot_id != process.boot_id():
        return record
    found = _noted(record) or process.find_by_token(record.token)
    while found is None and 0 <= time.time() - record.started_at < _FORK_S:  # it may be between fork and exec
        time.sleep(0.1)
        found = _noted(record) or process.find_by_token(record.token)
    return _with_process(record, found) if found else record


def _noted(record: ServerRecord) -> process.ProcessFacts | None:
    try:
        token, stat = pid_path(record).read_text().splitlines()[:2]
        return process.parse_stat(stat) if token == record.token else None
    except (OSError, ValueError, IndexError):
        return None


def _fill(word: str, values: dict[str, str]) -> str:
    for placeholder, value in values.items():
        word = word.replace(placeholder, value)
    return word


def _intent(spec: ServerSpec, log_path: Path) -> ServerRecord:
    token = uuid.uuid4().hex[:12]
    served_name = f"{spec.served_name or 'campaign'}-{token}" if spec.kind == "managed" else spec.served_name
    return ServerRecord(
        state="starting",
        kind=spec.kind,
        url=spec.base_url,
        host=spec.host,
        port=spec.port,
        token=token,
        boot_id=process.boot_id(),
        spec_hash=spec.spec_hash,
        argv_hash=schema.content_hash(words(spec, served_name)),
        model=spec.model,
        served_name=served_name,
        stop_command=tuple(_filled(spec.stop_command, spec, served_name)),
        world_size=spec.world_size,
        log_path=str(log_path.resolve()),
        log_offset=log_path.stat().st_size if log_path.exists() else 0,
        started_at=time.time(),
        load_phase="starting",
        has_profiler=spec.profile_dir is not None,
        profile_dir=spec.profile_dir or "",
        api_key_env=spec.api_key_env,
        gpu_baseline_bytes=memory.gpu_used_bytes(),
        oom_kills=memory.oom_kills(),
    )


def _spawn(spec: ServerSpec, record: ServerRecord) -> ServerRecord:
    command = words(spec, record.served_name)
    if not command:
        raise ServerError("No command to start the server with: write server.command, or server.manage = false.")
    log_path = Path(record.log_path)
    note = pid_path(record)
    try:
        log_path.parent.mkdir(parents=True, exist_ok=True)
        for folder in (spec.cwd, spec.profile_dir):
            if folder:
                Path(folder).mkdir(parents=True, exist_ok=True)
        note.unlink(missing_ok=True)
        with log_path.open("ab") as log:
            child = subprocess.Popen(
                ["/bin/sh", "-c", _WRAPPER, str(note), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=spec.cwd,
                env=os.environ | spec.env | {process.TOKEN_VARIABLE: record.token},
                start_new_session=True,
            )
    except OSError as error:
        raise ServerError(f"{command[0]} cannot be started: {error}. See server.command and {log_path}.") from error
    _children[child.pid] = child
    found = process.facts(child.pid)
    if found is None:  # cannot be: we are its parent and have not reaped it
        raise ServerError(f"{command[0]} vanished as it was started. See {log_path}.")
    return _with_process(record, found)


def _with_process(record: ServerRecord, found: process.ProcessFacts) -> ServerRecord:
    return replace(record, state="loading", pid=found.pid, start_ticks=found.start_ticks, session=found.pid)


def _attach(spec: ServerSpec, save: Callable[[ServerRecord], None]) -> ServerRecord:
    record = ServerRecord(
        state="loading",
        kind="attached",
        url=spec.base_url,
        host=spec.host,
        port=spec.port,
        spec_hash=spec.spec_hash,
        model=spec.model,
        served_name=spec.served_name,
        world_size=spec.world_size,
        started_at=time.time(),
        profile_dir=spec.profile_dir or "",
        api_key_env=spec.api_key_env,
    )
    save(record)
    return record
