"""One connection of the measured path: plain TCP with kernel receive stamps, or TLS with the reader's."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import ssl
import struct
import time
from types import TracebackType

from campaign.load.endpoint import Endpoint
from campaign.load.exchange import Exchange
from campaign.load.framing import EndFinder

#: Linux: have software receive stamps made (bit 3) and reported (bit 4), as three struct timespec.
SO_TIMESTAMPING = 37
STAMP_FLAGS = 1 << 3 | 1 << 4
STAMP = struct.Struct("qq").unpack_from
ANCILLARY_BYTES = socket.CMSG_SPACE(48)
READ_BYTES = 65536
RETRY_MAX_S = 1.0


class StampGuard:
    """Keeps the kernel's stamping switched on: it starts a little after the first socket asks for it."""

    def __enter__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        if ask_for_stamps(self._socket):
            time.sleep(0.02)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._socket.close()


def ask_for_stamps(sock: socket.socket) -> bool:
    """Have the kernel stamp what this socket receives; False where it cannot (not Linux, some sandboxes)."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, STAMP_FLAGS)
    except OSError:
        return False
    return True


class Connection:
    """A socket on its way from connecting over sending to reading; it carries one exchange at a time."""

    def __init__(self, endpoint: Endpoint, address: tuple[socket.AddressFamily, tuple[str | int, ...]]) -> None:
        self._endpoint = endpoint
        self._address = address
        self._out: memoryview = memoryview(b"")
        self.exchange: Exchange | None = None
        self.cancel_after_reads: int | None = None
        self.wire = b""
        self.is_reused = False
        self.last_ns = 0
        self.retry_ns: int | None = None
        self.born_ns = time.time_ns()
        self._retry_s = 0.05
        self._start()

    def _start(self) -> None:
        family, address = self._address
        self.is_open = False
        self.failure = ""
        raw = socket.socket(family, socket.SOCK_STREAM)
        raw.setblocking(False)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._endpoint.has_kernel_stamps and not self._endpoint.is_tls:
            ask_for_stamps(raw)
        code = raw.connect_ex(address)
        if code not in (0, errno.EINPROGRESS):
            self.failure = os.strerror(code)
        self.socket: socket.socket | ssl.SSLSocket = raw
        self._is_wrapped = False
        self.fd = raw.fileno()

    def assign(self, exchange: Exchange, wire: bytes, cancel_after_reads: int | None) -> None:
        """Give the connection its next request."""
        self.exchange = exchange
        self.wire = wire
        self._out = memoryview(wire)
        self.cancel_after_reads = cancel_after_reads
        self.is_end = EndFinder().is_end
        self.born_ns = time.time_ns()

    def progress(self) -> bool:
        """Go on connecting after the socket became ready; True once open; `failure` says why it cannot be."""
        if not self.failure and not self._is_wrapped:
            code = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                self.failure = os.strerror(code)
        if self.failure:
            return False
        if self._endpoint.is_tls:
            return self._shake_hands()
        self.is_open = True
        return True

    def _shake_hands(self) -> bool:
        try:
            if not self._is_wrapped:
                context = _tls_context(self._endpoint.is_verified)
                self.socket = context.wrap_socket(
                    self.socket, server_hostname=self._endpoint.host, do_handshake_on_connect=False
                )
                self._is_wrapped = True
            assert isinstance(self.socket, ssl.SSLSocket)
            self.socket.do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError as error:
            self.failure = str(error)
            return False
        self.is_open = True
        return True

    def finish_connecting(self, timeout_s: float) -> bool:
        """Wait until open (before a cell); False where the server refuses or does not answer in time."""
        poll, end = select.poll(), time.monotonic() + timeout_s
        poll.register(self.fd, select.POLLOUT)
        while time.monotonic() < end and not self.failure:
            if poll.poll(100) and self.progress():
                return True
            poll.modify(self.fd, select.POLLIN if self._is_wrapped else select.POLLOUT)
        return False

    def wait_before_retry(self, now_ns: int) -> None:
        """Close, and try again after a pause that doubles up to a second."""
        self.retry_ns = now_ns + round(self._retry_s * 1e9)
        self._retry_s = min(2 * self._retry_s, RETRY_MAX_S)

    def reconnect(self) -> None:
        """Start anew with a fresh socket."""
        self.close()
        self.retry_ns = None
        self._start()

    def flush(self) -> bool:
        """Send what is left of the request; True once all is with the kernel (a broken pipe shows at the read)."""
        try:
            while self._out:
                self._out = self._out[self.socket.send(self._out) :]
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return False
        except OSError:
            self._out = memoryview(b"")
        return True

    def receive(self) -> tuple[bytes, int]:
        """One read and its kernel stamp in ns (0 = none); raises OSError, BlockingIOError where nothing is there."""
        if isinstance(self.socket, ssl.SSLSocket):
            try:
                return self.socket.recv(READ_BYTES), 0
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise BlockingIOError from None
        data, ancillary, _, _ = self.socket.recvmsg(READ_BYTES, ANCILLARY_BYTES)
        if not ancillary:
            return data, 0
        seconds, nanoseconds = STAMP(ancillary[0][2])
        return data, seconds * 1_000_000_000 + nanoseconds

    def has_pending(self) -> bool:
        """Whether TLS holds decrypted bytes that epoll does not know of."""
        return isinstance(self.socket, ssl.SSLSocket) and self.socket.pending() > 0

    def close(self) -> None:
        """Hang up."""
        with contextlib.suppress(OSError):
            self.socket.close()


_CONTEXTS: dict[bool, ssl.SSLContext] = {}


def _tls_context(is_verified: bool) -> ssl.SSLContext:
    if is_verified not in _CONTEXTS:
        context = ssl.create_default_context()
        if not is_verified:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        _CONTEXTS[is_verified] = context
    return _CONTEXTS[is_verified]
