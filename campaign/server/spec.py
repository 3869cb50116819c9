"""What a server shall be: a description from which it can be started, compared and found again."""

from __future__ import annotations

from typing import Literal

import msgspec

from campaign import schema

ServerKind = Literal["managed", "attached", "command"]


class ServerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A server as a phase needs it. `{served_name}`, `{port}` and `{profile_dir}` in words are filled in at launch."""

    engine: str = "vllm"
    """The engine; decides how its log is read."""
    kind: ServerKind = "managed"
    """managed: started by us; attached: somebody else's, never stopped; command: a person's own launcher."""
    argv: tuple[str, ...] = ()
    """Words of the command that starts it, without the profiler's (managed and command)."""
    profiler_argv: tuple[str, ...] = ()
    """Words added where `profile_dir` is set."""
    stop_command: tuple[str, ...] = ()
    """Words of the command that stops a launcher's server (command)."""
    env: dict[str, str] = {}
    """Environment on top of this process's own."""
    cwd: str = "."
    """Folder it is started in."""
    host: str = "127.0.0.1"
    """Address it listens on."""
    port: int = 8000
    """Port it listens on."""
    url: str = ""
    """Base URL without /v1; empty = http://host:port."""
    model: str = ""
    """Model folder or hub id."""
    served_name: str = ""
    """Name that requests give; a managed server's gets a unique ending at launch. Empty = the first it lists."""
    tensor_parallel: int = 1
    """Ranks that share a layer."""
    pipeline_parallel: int = 1
    """Stages of layers."""
    profile_dir: str | None = None
    """Folder of the profiler's traces; None = started without a profiler."""
    api_key_env: str = ""
    """Name of the environment variable that holds the API key; empty = none."""
    ready_timeout_s: float = 3600.0
    """Deadline of the whole load, counted from the server's start."""
    stall_limits_s: dict[str, float] = {}
    """Longest silence in a load phase (no line, no CPU, no disk), where it differs from the engine's default."""
    probe_timeout_s: float = 180.0
    """How long the first completion may take."""

    @property
    def base_url(self) -> str:
        """URL without a trailing slash or /v1."""
        return (self.url or f"http://{self.host}:{self.port}").rstrip("/").removesuffix("/v1")

    @property
    def world_size(self) -> int:
        """Ranks that write a trace each."""
        return self.tensor_parallel * self.pipeline_parallel

    @property
    def spec_hash(self) -> str:
        """Hash of what makes two servers interchangeable but for the profiler: words, environment, ranks."""
        place = self.base_url if self.kind == "attached" else ""
        return schema.content_hash(
            [self.engine, self.kind, self.argv, self.env, self.model, self.world_size, self.cwd, place]
        )
