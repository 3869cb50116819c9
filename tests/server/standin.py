"""A stand-in for vLLM's waits only: prints real log lines at a chosen pace, binds late, answers like a server.

`python standin.py LOG PORT NAME SECONDS STARTS [--hang-at WORD]`: LOG is replayed over SECONDS (up to its
`Application startup complete.`), a line is appended to STARTS at the beginning, and with `--hang-at` it falls
silent for ever after the first line that holds WORD.
"""

from __future__ import annotations

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def replay(log: Path, seconds: float, hang_at: str) -> None:
    text = log.read_bytes().decode("utf-8", "replace")
    lines = text[: text.index("Application startup complete.")].splitlines(keepends=True)
    lines.append("INFO:     Application startup complete.\n")
    for line in lines:
        sys.stdout.write(line)
        sys.stdout.flush()
        if hang_at and hang_at in line:
            time.sleep(86400)
        time.sleep(seconds / len(lines))


def serve(port: int, name: str) -> None:
    tokens = [0]

    class Handler(BaseHTTPRequestHandler):
        def answer(self, body: bytes) -> None:
            key = os.environ.get("STANDIN_KEY")
            is_known = not key or self.headers.get("Authorization") == f"Bearer {key}"
            self.send_response(200 if is_known else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            if self.path == "/metrics":
                self.answer(f'vllm:generation_tokens_total{{engine="0"}} {tokens[0]}.0\n'.encode())
            else:
                self.answer(json.dumps({"data": [{"id": name}]}).encode())

        def do_POST(self) -> None:
            tokens[0] += 1
            self.answer(b'{"choices": [{"text": "x"}]}')

        def log_message(self, format: str, *args: object) -> None:
            pass

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    log_path, port_text, name_text, seconds_text, starts = sys.argv[1:6]
    with Path(starts).open("a") as out:
        out.write(f"{os.getpid()}\n")
    replay(Path(log_path), float(seconds_text), sys.argv[7] if len(sys.argv) > 7 else "")
    serve(int(port_text), name_text)
