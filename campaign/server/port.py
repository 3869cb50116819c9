"""Ports of this machine: whether one is free, and who holds it if not."""

from __future__ import annotations

import errno
import socket

import psutil


def is_free(host: str, port: int) -> bool:
    """Whether nobody listens on the port: a connection is refused and a plain bind succeeds."""
    if accepts(host, port):
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.errno != errno.EADDRINUSE
    return True


def accepts(host: str, port: int, timeout_s: float = 2.0) -> bool:
    """Whether somebody accepts connections there."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s):
            return True
    except OSError:
        return False


def holder(port: int) -> str:
    """Who listens on the port, as `pid 12 (python -m …)`; `another process` where that cannot be seen."""
    try:
        connections = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return "another process"
    for one in connections:
        if one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port and one.pid:
            return f"pid {one.pid} ({_command(one.pid)})"
    return "another process"


def _command(pid: int) -> str:
    try:
        words = psutil.Process(pid).cmdline()
    except (psutil.Error, OSError):
        return "unknown command"
    return " ".join(words)[:120] or "unknown command"
