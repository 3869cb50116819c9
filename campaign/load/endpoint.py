"""Where requests go: address, path and headers of an OpenAI-compatible server."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from campaign.errors import UsageError

Api = Literal["completions", "chat"]

PATHS: Mapping[Api, str] = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One address with everything of a request but its body."""

    host: str
    """Name or address to connect to."""
    port: int
    """TCP port."""
    is_tls: bool = False
    """https: the reader stamps arrivals, the kernel sees only ciphertext."""
    path: str = PATHS["completions"]
    """Absolute path of the endpoint."""
    prefix: str = ""
    """Path of the base URL, for the control plane."""
    headers: tuple[tuple[str, str], ...] = ()
    """Further headers, e.g. the authorization."""
    has_kernel_stamps: bool = True
    """Whether to ask the kernel for receive stamps (plain TCP on Linux); False = the reader stamps."""
    is_verified: bool = True
    """Whether the certificate of a TLS server is checked."""

    @property
    def url(self) -> str:
        """Base URL of the server, without a trailing slash."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.is_tls else 'http'}://{host}:{self.port}{self.prefix}"

    @property
    def head(self) -> bytes:
        """Request line and headers up to the value of content-length."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        lines = [f"POST {self.path} HTTP/1.1", f"host: {host}:{self.port}", "content-type: application/json"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        return "\r\n".join([*lines, "content-length: "]).encode()

    def wire_bytes(self, body: bytes) -> bytes:
        """The whole HTTP/1.1 request that carries `body`."""
        return self.head + str(len(body)).encode() + b"\r\n\r\n" + body

    def addresses(self) -> list[tuple[socket.AddressFamily, tuple[str | int, ...]]]:
        """Addresses of the host, in the resolver's order; raises `UsageError` where the name has none."""
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise UsageError(f"{self.url}: the host name cannot be resolved ({error}). Check the URL.") from error
        return [(family, tuple(a for a in address if not isinstance(a, bytes))) for family, _, _, _, address in found]


def endpoint_of(
    url: str,
    *,
    api: Api = "completions",
    api_key_env: str = "",
    is_verified: bool = True,
    has_kernel_stamps: bool = True,
) -> Endpoint:
    """The endpoint behind a base URL (with or without /v1); raises `UsageError` for what is no http(s) URL.

    `api_key_env` names the environment variable that holds the key; the key itself is never printed.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{url!r} is no URL of a server. Write it like http://127.0.0.1:8000.")
    headers: tuple[tuple[str, str], ...] = ()
    if api_key_env:
        key = os.environ.get(api_key_env)
        if not key:
            raise UsageError(f"The environment variable {api_key_env} holds no API key. Set it, or leave it out.")
        headers = (("authorization", f"Bearer {key}"),)
    is_tls = parts.scheme == "https"
    prefix = parts.path.rstrip("/").removesuffix("/v1")
    return Endpoint(
        host=parts.hostname,
        port=parts.port or (443 if is_tls else 80),
        is_tls=is_tls,
        path=prefix + PATHS[api],
        prefix=prefix,
        headers=headers,
        is_verified=is_verified,
        has_kernel_stamps=has_kernel_stamps,
    )
