"""A runner to be killed: `python -m tests.server.runner FOLDER [DIE]` makes the server of FOLDER/spec.json ready.

DIE is `after-intent` (killed once the intent is saved, before anything runs), `before-pid` (killed when the
process exists and its pid was not yet saved), or `profiling` (killed in the middle of a profile).
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import msgspec

from campaign.server import ServerRecord, ServerSpec, capture_profile, ensure_ready
from tests.server.records import read_record, write_record


def main(folder: Path, die: str) -> None:
    spec = msgspec.json.decode((folder / "spec.json").read_bytes(), type=ServerSpec)
    path = folder / "server.json"

    def save(record: ServerRecord) -> None:
        if die == "before-pid" and record.pid is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        write_record(path, record)
        if die == "after-intent":
            os.kill(os.getpid(), signal.SIGKILL)

    record = ensure_ready(read_record(path), spec, log_path=folder / "server.log", save=save, back_off_s=())
    if die == "profiling":
        capture_profile(record, spec, lambda: os.kill(os.getpid(), signal.SIGKILL))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "")
