"""An OpenAI-compatible endpoint that follows a script: a real socket, and every way to misbehave."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class ScriptedServer(ThreadingHTTPServer):
    """Answers each request with the next act of the script; the last one is repeated."""

    daemon_threads = True

    def __init__(self, acts: Sequence[str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.acts = list(acts)
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.plain = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def next_act(self) -> str:
        return self.acts[min(len(self.requests), len(self.acts)) - 1]


class _Handler(BaseHTTPRequestHandler):
    server: ScriptedServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append({"path": self.path, **json.loads(body)})
        self.server.keys.append(self.headers.get("Authorization", ""))
        act = self.server.next_act()
        if act == "!500":
            self._answer(500, b"out of memory")
        elif act == "!html":
            self._answer(200, b"<html>a proxy</html>")
        elif act == "!null":
            self._answer(200, b'{"choices": [{"message": {"content": null}}]}')
        elif act == "!no template" and self.path.endswith("/chat/completions"):
            self._answer(400, b"no chat template")
        elif act == "!no template":
            self._answer(200, json.dumps({"choices": [{"text": self.server.plain}]}).encode())
        elif act == "!hang":
            time.sleep(30)
        elif act == "!drip":
            self._drip(0.05, b"x")
        elif act == "!babble":
            self._drip(0.0, b"x" * 65536)
        else:
            self._answer(200, json.dumps({"choices": [{"message": {"content": act}}]}).encode())

    def _answer(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _drip(self, pause_s: float, piece: bytes) -> None:
        self.send_response(200)
        self.end_headers()
        try:
            while True:
                self.wfile.write(piece)
                time.sleep(pause_s)
        except OSError:
            return

    def log_message(self, *_: object) -> None:
        return


@contextmanager
def serving(*acts: str) -> Iterator[ScriptedServer]:
    """A server on a free port of this machine for the length of the block."""
    server = ScriptedServer(acts)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
