"""A streaming server of an exact pace, in a process of its own, that records when each event truly left.

What it does is written in the model's name of a request: `itl=10000;per=4;fault=reset;every=3` (times in µs).
One thread, epoll, an absolute schedule a stream (a late event does not move the later ones).
"""

from __future__ import annotations

import contextlib
import heapq
import json
import select
import socket
import ssl
import struct
import sys
import time
import zlib
from typing import Any

HEAD = (
    b"HTTP/1.1 200 OK\r\nserver: paced\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


class Behaviour:
    """What a model's name asks for."""

    def __init__(self, name: str) -> None:
        fields = dict(part.split("=", 1) for part in name.split(";") if "=" in part)
        self.itl_ns = int(fields.get("itl", "0")) * 1000
        self.ttft_ns = int(fields.get("ttft", "0")) * 1000
        self.per = int(fields.get("per", "1"))
        self.cut = int(fields.get("cut", "0"))
        """Cut the wire bytes after so many bytes of each event (−1: after every byte)."""
        self.usage = fields.get("usage", "asked")
        """asked, final or none."""
        self.fault = fields.get("fault", "")
        self.every = int(fields.get("every", "1"))
        self.crlf = "crlf" in fields
        self.stop = int(fields.get("stop", "0"))
        """End after so many tokens whatever was asked for."""
        self.slots = int(fields.get("slots", "0"))
        """Run no more streams than this at once; the others wait."""
        self.empty = "empty" in fields
        """Every event's text is empty, as for tokens that are half a character."""


class Stream:
    """One running answer."""

    def __init__(self, body: dict[str, Any], raw: bytes, is_chat: bool, number: int) -> None:
        self.do = Behaviour(body["model"])
        self.is_chat = is_chat
        self.asked = int(body.get("max_tokens", 16))
        self.n = self.do.stop or self.asked
        options = body.get("stream_options") or {}
        self.has_running = bool(options.get("continuous_usage_stats")) and self.do.usage == "asked"
        self.has_final = bool(options.get("include_usage")) and self.do.usage != "none"
        prompt = body.get("prompt", body.get("messages"))
        self.prompt = len(prompt) if isinstance(prompt, list) and not is_chat else len(str(prompt).split())
        self.is_faulty = bool(self.do.fault) and number % self.do.every == 0
        self.key = zlib.crc32(raw)
        self.sent = 0
        self.times: list[int] = []
        self.due = 0

    def usage(self) -> dict[str, int]:
        return {"prompt_tokens": self.prompt, "total_tokens": self.prompt + self.sent, "completion_tokens": self.sent}

    def event(self, text: str, finish: str | None, role: bool = False) -> bytes:
        """One event; formatted by hand, as json.dumps would take most of the pace's time at 256 streams."""
        end = "null" if finish is None else f'"{finish}"'
        said = f'"text": "{text}"'
        if self.is_chat:
            name = '"role": "assistant", ' if role else ""
            said = f'"delta": {{{name}"content": "{text}"}}'
        usage = ""
        if self.has_running:
            usage = (
                f', "usage": {{"prompt_tokens": {self.prompt}, "total_tokens": {self.prompt + self.sent}, '
                f'"completion_tokens": {self.sent}}}'
            )
        return self.pack(
            f'{{"id": "x", "object": "chunk", "model": "m", "choices": [{{"index": 0, {said}, '
            f'"finish_reason": {end}}}]{usage}}}'
        )

    def pack(self, data: str) -> bytes:
        end = "\r\n" if self.do.crlf else "\n"
        body = f"data: {data}{end}{end}".encode()
        return b"%x\r\n%s\r\n" % (len(body), body)

    def next_bytes(self) -> bytes:
        """The next event of tokens; after the last one also usage, [DONE] and the end of the body."""
        out = b""
        if self.is_chat and self.sent == 0:
            out += self.event("", None, role=True)
        k = min(self.do.per, self.n - self.sent)
        text = "" if self.do.empty else "".join(f" w{(self.sent + i) % 97}" for i in range(k))
        self.sent += k
        is_last = self.sent >= self.n
        out += self.event(text, ("length" if self.n == self.asked else "stop") if is_last else None)
        if is_last:
            if self.has_final:
                out += self.pack(json.dumps({"id": "x", "choices": [], "usage": self.usage()}))
            out += self.pack("[DONE]") + b"0\r\n\r\n"
        return out


class Server:
    """The loop."""

    def __init__(self, port: int, tls: tuple[str, str] | None) -> None:
        self.listener = socket.create_server(("127.0.0.1", port), backlog=1024)
        self.listener.setblocking(False)
        self.context: ssl.SSLContext | None = None
        if tls:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(*tls)
        self.epoll = select.epoll()
        self.epoll.register(self.listener.fileno(), select.EPOLLIN)
        self.sockets: dict[int, socket.socket] = {}
        self.buffers: dict[int, bytes] = {}
        self.streams: dict[int, Stream] = {}
        self.heap: list[tuple[int, int, Stream | None, int]] = []
        self.serial = 0
        self.waiting: list[tuple[int, Stream]] = []
        self.reset()

    def reset(self) -> None:
        self.sent: dict[int, list[int]] = {}
        self.bodies: list[str] = []
        self.requests = self.tokens = self.prompt_tokens = self.running_max = 0

    def serve(self) -> None:
        while True:
            now = time.time_ns()
            wait = max(0.0, (self.heap[0][0] - now) / 1e9) if self.heap else 1.0
            for fd, _ in self.epoll.poll(wait):
                if fd == self.listener.fileno():
                    self.accept()
                else:
                    self.read(fd)
            while self.heap and self.heap[0][0] <= time.time_ns():
                _, _, stream, fd = heapq.heappop(self.heap)
                if stream is not None and self.streams.get(fd) is stream:
                    self.step(fd, stream)

    def accept(self) -> None:
        connection, _ = self.listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.context:
            try:
                connection = self.context.wrap_socket(connection, server_side=True)
            except OSError:
                return
        connection.setblocking(False)
        self.sockets[connection.fileno()] = connection
        self.buffers[connection.fileno()] = b""
        self.epoll.register(connection.fileno(), select.EPOLLIN)

    def drop(self, fd: int, *, is_reset: bool = False) -> None:
        connection = self.sockets.pop(fd)
        self.buffers.pop(fd)
        self.streams.pop(fd, None)
        if is_reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    def read(self, fd: int) -> None:
        try:
            data = self.sockets[fd].recv(1 << 20)
        except (BlockingIOError, ssl.SSLWantReadError):
            return
        except OSError:
            data = b""
        if not data:
            self.drop(fd)
            return
        raw = self.buffers[fd] = self.buffers[fd] + data
        head, separator, body = raw.partition(b"\r\n\r\n")
        if not separator:
            return
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        if len(body) >= length:
            self.buffers[fd] = b""
            self.answer(fd, head.split(b" ")[1].decode(), body, head)

    def reply(self, fd: int, text: str, status: str = "200 OK") -> None:
        data = text.encode()
        head = f"HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {len(data)}\r\n\r\n"
        self.send(fd, head.encode() + data)

    def send(self, fd: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[self.sockets[fd].send(view) :]
            except (BlockingIOError, ssl.SSLWantWriteError):
                select.select([], [fd], [], 1.0)
            except OSError:
                return

    def answer(self, fd: int, path: str, body: bytes, head: bytes) -> None:
        if path == "/metrics":
            self.reply(fd, self.metrics())
        elif path == "/sent":
            self.reply(fd, json.dumps({"sent": self.sent, "bodies": self.bodies, "head": self.head}))
        elif path == "/reset":
            self.reset()
            self.reply(fd, "{}")
        elif path.endswith("completions"):
            self.head = head.decode("latin-1")
            self.start(fd, json.loads(body), body, path.endswith("chat/completions"))
        else:
            self.reply(fd, "{}", "404 Not Found" if path != "/health" else "200 OK")

    head = ""

    def metrics(self) -> str:
        rows = {
            "num_requests_running": len(self.streams),
            "num_requests_waiting": len(self.waiting),
            "generation_tokens_total": self.tokens,
            "prompt_tokens_total": self.prompt_tokens,
        }
        return "".join(f'vllm:{name}{{engine="0",model_name="m"}} {value}\n' for name, value in rows.items())

    def start(self, fd: int, body: dict[str, Any], raw: bytes, is_chat: bool) -> None:
        self.requests += 1
        stream = Stream(body, raw, is_chat, self.requests)
        self.bodies.append(raw.decode())
        self.prompt_tokens += stream.prompt
        if stream.is_faulty and stream.do.fault == "http500":
            self.reply(fd, '{"error": {"message": "boom"}}', "500 Internal Server Error")
            return
        if stream.do.slots and len(self.streams) >= stream.do.slots:
            self.waiting.append((fd, stream))
        else:
            self.begin(fd, stream)

    def begin(self, fd: int, stream: Stream) -> None:
        if stream.is_faulty and stream.do.fault == "slowhead":
            for part in (HEAD[:9], HEAD[9:40], HEAD[40:]):
                time.sleep(0.05)
                self.send(fd, part)
        else:
            self.send(fd, HEAD)
        self.streams[fd] = stream
        self.running_max = max(self.running_max, len(self.streams))
        self.sent[stream.key] = stream.times
        stream.due = time.time_ns() + stream.do.ttft_ns
        self.plan(fd, stream)

    def plan(self, fd: int, stream: Stream) -> None:
        self.serial += 1
        heapq.heappush(self.heap, (stream.due, self.serial, stream, fd))

    def step(self, fd: int, stream: Stream) -> None:
        if stream.is_faulty and stream.sent >= stream.n // 2 and self.fail(fd, stream):
            return
        before = stream.sent
        data = stream.next_bytes()
        self.tokens += stream.sent - before
        if stream.sent >= stream.n:
            self.streams.pop(fd)
        cut = stream.do.cut
        if cut < 0:
            for i in range(len(data)):
                self.send(fd, data[i : i + 1])
                if i % 16 == 0:
                    time.sleep(0.0002)
        elif cut and cut < len(data):
            self.send(fd, data[:cut])
            time.sleep(0.001)
            stream.times.append(time.time_ns())
            self.send(fd, data[cut:])
        else:
            stream.times.append(time.time_ns())
            self.send(fd, data)
        if stream.sent < stream.n:
            stream.due += stream.do.itl_ns
            self.plan(fd, stream)
        elif self.waiting:
            self.begin(*self.waiting.pop(0))

    def fail(self, fd: int, stream: Stream) -> bool:
        fault = stream.do.fault
        if fault == "reset":
            self.drop(fd, is_reset=True)
        elif fault == "close":
            self.drop(fd)
        elif fault == "inband":
            self.send(fd, stream.pack('{"error": {"message": "engine died", "code": 500}}'))
            self.send(fd, stream.pack("[DONE]") + b"0\r\n\r\n")
            self.streams.pop(fd)
        elif fault == "die":
            raise SystemExit(0)
        return fault in ("reset", "close", "inband", "stall")


def main() -> None:
    port, *tls = sys.argv[1:]
    with contextlib.suppress(KeyboardInterrupt):
        Server(int(port), (tls[0], tls[1]) if tls else None).serve()


if __name__ == "__main__":
    main()
