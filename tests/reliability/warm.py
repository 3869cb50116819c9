"""A process that has everything imported and forks one runner for each line it reads.

A drill starts hundreds of runners; importing the package anew for each would take most of its time. What the
forked child does is what `python -m campaign resume` does. Run as `python -m tests.reliability.warm`.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from campaign.cli.terminal import TerminalReporter, stop_on_signals
from campaign.errors import CampaignError
from campaign.phases.kind import PhaseKind
from campaign.runner.loop import Runner
from campaign.runner.opening import OpenCampaign
from campaign.runner.reporting import StopRequest
from tests.reliability import forked
from tests.reliability.kinds import drill_kinds


def resume(folder: Path, until: str | None, kinds: tuple[PhaseKind, ...]) -> int:
    """What the command line does: signals, a reporter, a runner, and a CampaignError as one line."""
    stop = StopRequest()
    try:
        with stop_on_signals(stop), TerminalReporter() as reporter:
            return Runner(OpenCampaign(folder, kinds), reporter, stop).resume(until)
    except CampaignError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


def _run_child(order: dict[str, Any], kinds: tuple[PhaseKind, ...]) -> None:
    os.setpgid(0, 0)
    output = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if order["control"]:
        os.environ["FAULT_CONTROL"] = order["control"]
        ctypes.CDLL(None).fault_arm(order["control"].encode())
    code = 1
    try:
        code = resume(Path(order["folder"]), order["until"], kinds)
    except BaseException:  # noqa: BLE001 (a drill looks for the traceback)
        import traceback

        traceback.print_exc()
        code = 70
    finally:
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Serve orders until the input ends."""
    kinds = drill_kinds()
    forked.warm_up()
    print("warm", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _run_child(order, kinds)
        print(json.dumps({"pid": pid}), flush=True)
        _, status = os.waitpid(pid, 0)
        print(json.dumps({"code": os.waitstatus_to_exitcode(status)}), flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main()
