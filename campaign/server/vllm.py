"""vLLM's ways of being started: words, environment, profiler settings."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from campaign.errors import ConfigError
from campaign.server.spec import ServerKind, ServerSpec

#: What is always set: plain log lines, no reports to the outside, time enough for long loads and profiles.
_ENVIRONMENT = {
    "NO_COLOR": "1",
    "VLLM_LOGGING_COLOR": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "PYTHONUNBUFFERED": "1",
    # The deadline is ours (`ready_timeout_s`); vLLM's own of 600 s bites with several API servers.
    "VLLM_ENGINE_READY_TIMEOUT_S": "86400",
    # A profile window that ends by max_iterations is exported inside execute_model: minutes, not seconds.
    "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": "7200",
}

#: Words that this module gives itself; a person's own would contradict what the record says.
_RESERVED = (
    "--port",
    "--host",
    "--served-model-name",
    "--profiler-config",
    "--tensor-parallel-size",
    "-tp",
    "--pipeline-parallel-size",
    "-pp",
)


def vllm_spec(
    model: str,
    *,
    port: int,
    campaign_dir: Path,
    tensor_parallel: int = 1,
    pipeline_parallel: int = 1,
    device: str = "cpu",
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    profile_dir: Path | None = None,
    served_name: str = "campaign",
    host: str = "127.0.0.1",
    ready_timeout_s: float = 3600.0,
) -> ServerSpec:
    """A vLLM that we start. `args` are the person's words for vLLM, `env` its environment on top of ours.

    Raises `ConfigError` where `args` holds a word that the spec sets itself. Eager mode is chosen on a CPU
    without a C++ compiler, which vLLM needs there to compile.
    """
    for word in args:
        if re.split(r"[=.]", word)[0].replace("_", "-") in _RESERVED:
            raise ConfigError(
                f"server.args: {word} is set by the campaign itself. Remove it; write port and host in server.url, "
                "parallelism in target.tensor_parallel, and server.profile_ready for the profiler."
            )
    folder = campaign_dir.resolve()
    local_model = _local_folder(model, folder)
    argv = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", local_model or model]
    argv += ["--host", host, "--port", "{port}", "--served-model-name", "{served_name}"]
    argv += ["--tensor-parallel-size", str(tensor_parallel)]
    if pipeline_parallel > 1:
        argv += ["--pipeline-parallel-size", str(pipeline_parallel)]
    if device == "cpu" and not _has_compiler() and "--enforce-eager" not in args:
        argv.append("--enforce-eager")
    argv += list(args)
    environment = dict(_ENVIRONMENT)
    environment["VLLM_CACHE_ROOT"] = str(folder / "state" / "vllm-cache")
    if local_model:
        environment["HF_HUB_OFFLINE"] = "1"
    if device == "cpu":
        environment |= _cpu_environment(tensor_parallel * pipeline_parallel)
    return ServerSpec(
        engine="vllm",
        argv=tuple(argv),
        profiler_argv=profiler_words(),
        env=environment | dict(env or {}),
        cwd=str(folder),
        host=host,
        port=port,
        model=model,
        served_name=served_name,
        tensor_parallel=tensor_parallel,
        pipeline_parallel=pipeline_parallel,
        profile_dir=str(profile_dir.resolve()) if profile_dir else None,
        ready_timeout_s=ready_timeout_s,
    )


def profiler_words() -> tuple[str, ...]:
    """Words that configure the torch profiler; Python stacks off, as they are 97 % of a trace and half of a step."""
    settings = {
        "profiler": "torch",
        "torch_profiler_dir": "{profile_dir}",
        "torch_profiler_with_stack": False,
        "torch_profiler_use_gzip": True,
    }
    return ("--profiler-config", msgspec.json.encode(settings).decode())


def attached_spec(url: str, *, served_name: str = "", api_key_env: str = "", world_size: int = 1) -> ServerSpec:
    """A server that somebody else runs at `url`; never stopped or signalled by us."""
    host, port = split_url(url)
    return ServerSpec(
        kind="attached",
        url=url.rstrip("/").removesuffix("/v1"),
        host=host,
        port=port,
        served_name=served_name,
        tensor_parallel=world_size,
        api_key_env=api_key_env,
        ready_timeout_s=60.0,
    )


def split_url(url: str) -> tuple[str, int]:
    """Host and port of a base URL; raises `ConfigError` where it is none."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise ConfigError(f"server.url: {url!r}: {error}. Write it like http://127.0.0.1:8000.") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"server.url: {url!r} is no URL. Write it like http://127.0.0.1:8000.")
    return parts.hostname, port


def command_spec(
    command: Sequence[str],
    *,
    stop_command: Sequence[str],
    url: str,
    campaign_dir: Path,
    env: Mapping[str, str] | None = None,
    model: str = "",
    served_name: str = "",
    tensor_parallel: int = 1,
    profile_dir: Path | None = None,
    ready_timeout_s: float = 3600.0,
) -> ServerSpec:
    """A server behind a person's own launcher (Slurm, docker, ssh), with the command that stops it."""
    host, port = split_url(url)
    kind: ServerKind = "command"
    return ServerSpec(
        kind=kind,
        argv=tuple(command),
        stop_command=tuple(stop_command),
        url=url.rstrip("/").removesuffix("/v1"),
        host=host,
        port=port,
        env=dict(env or {}),
        cwd=str(campaign_dir.resolve()),
        model=model,
        served_name=served_name,
        tensor_parallel=tensor_parallel,
        profile_dir=str(profile_dir) if profile_dir else None,
        ready_timeout_s=ready_timeout_s,
    )


def _local_folder(model: str, campaign_dir: Path) -> str:
    path = campaign_dir / model
    return str(path) if path.is_dir() else ""


def _has_compiler() -> bool:
    return any(shutil.which(name) for name in (os.environ.get("CXX", "g++"), "g++", "clang++"))


def _cpu_environment(world_size: int) -> dict[str, str]:
    """Space for the KV cache, and the cores of each rank: as even a share as there are."""
    cores = sorted(os.sched_getaffinity(0))
    share = max(1, len(cores) // world_size)
    shares = [cores[rank * share : (rank + 1) * share] or [cores[rank % len(cores)]] for rank in range(world_size)]
    return {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "|".join(",".join(map(str, one)) for one in shares),
    }
