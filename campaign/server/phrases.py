"""What vLLM's log lines mean: load phases, bars, causes of death (read in 0.16, 0.24 and 0.32)."""

from __future__ import annotations

import re

import msgspec

#: Load phases in order; `ready` is not a line of the log but an answered request.
LOAD_PHASES = ("starting", "configuring", "engine", "weights", "compile", "kv_cache", "graphs", "api", "answering")

#: First words of a load phase, checked in this order. A phase never goes back.
PHASE_LINES: tuple[tuple[str, str], ...] = (
    ("non-default args:", "configuring"),
    ("Initializing a V1 LLM engine", "engine"),
    ("Starting to load model", "weights"),
    ("Loading safetensors checkpoint shards", "weights"),
    ("Loading weights took", "weights"),
    ("Model loading took", "compile"),
    ("Warming up model for the compilation", "compile"),
    ("torch.compile take", "compile"),
    ("torch.compile took", "compile"),
    ("Available KV cache memory", "kv_cache"),
    ("KV cache size:", "kv_cache"),
    ("Capturing CUDA graphs", "graphs"),
    ("Graph capturing finished", "graphs"),
    ("init engine (profile, create kv cache, warmup model) took", "api"),
    ("Starting vLLM", "api"),
    ("Application startup complete", "answering"),
)

#: Longest silence (no line, no CPU, no disk) of a load phase before it counts as hung, seconds.
STALL_LIMITS_S: dict[str, float] = {
    "starting": 300.0,
    "configuring": 300.0,
    "engine": 300.0,
    "weights": 900.0,
    "compile": 900.0,
    "kv_cache": 300.0,
    "graphs": 600.0,
    "api": 300.0,
    "answering": 300.0,
}

#: A tqdm bar: what it counts, how far, of how many.
BAR = re.compile(r"^(?:\([^)]*\)\s*)?(?P<what>[A-Z][^:|]*?):\s+(?P<percent>\d+)%.*?(?P<done>\d+)/(?P<total>\d+)")

#: `(EngineCore pid=12) ERROR 11-29 15:22:05 [core.py:133] text`; each part may be missing.
LINE = re.compile(
    r"^(?:\((?P<who>[^()]*?)(?:\s+pid=(?P<pid>\d+))?\)\s?)?"
    r"(?:(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)\b:?\s+"
    r"(?:(?P<time>\d\d-\d\d \d\d:\d\d:\d\d)\s+)?(?:\[(?P<where>[^\]]*)\]\s?)?)?(?P<text>.*)$"
)

#: The first line of what an exception says.
EXCEPTION = re.compile(
    r"^(?P<type>(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Failure|Overflow))(?:: (?P<text>.*))?$"
)

#: An exception that only reports another one; the cause stands elsewhere.
REPORTS_ANOTHER = (
    "Engine core initialization failed",
    "WorkerProc initialization failed",
    "WorkerProc failed to start",
    "EngineCore encountered an issue",
    "EngineDeadError",
    "EngineCore died",
    "cancelled",
    "died unexpectedly",
    "Connection closed by peer",
    "Connection reset by peer",
)

#: Lines after which the engine does not live on.
FATAL_LINES = (
    "Engine core initialization failed.",
    "WorkerProc failed to start.",
    "EngineCore failed to start.",
    "EngineCore encountered a fatal error.",
    "died unexpectedly",
    "Engine core proc",
)


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """A known way to die."""

    pattern: str
    """Regular expression found in the root cause or in a line of the log."""
    advice: str
    """What to try, an imperative sentence."""
    is_transient: bool = False
    """Whether a later attempt, after cleaning up, can go well without a change."""


CAUSES: tuple[Cause, ...] = (
    Cause(
        pattern=r"less than desired GPU memory utilization",
        advice="Free the GPU (see nvidia-smi for processes left over), or lower --gpu-memory-utilization.",
        is_transient=True,
    ),
    Cause(
        pattern=r"[Aa]ddress already in use",
        advice="Stop what holds the port, or give server.url another port.",
        is_transient=True,
    ),
    Cause(
        pattern=r"DistStoreError|DistNetworkError|NCCL error|ncclSystemError|ncclRemoteError|ncclInternalError",
        advice="Check NCCL (NCCL_DEBUG=INFO in server.env, the network interface, /dev/shm) and run again.",
        is_transient=True,
    ),
    Cause(
        pattern=r"No available memory for the cache blocks",
        advice="Raise --gpu-memory-utilization, or lower --max-num-seqs or --max-num-batched-tokens in server.args.",
    ),
    Cause(
        pattern=r"larger than the (?:available KV cache memory|maximum number of tokens)",
        advice="Lower --max-model-len in server.args, or raise --gpu-memory-utilization.",
    ),
    Cause(
        pattern=r"OutOfMemoryError|CUDA out of memory|can't allocate memory|Cannot allocate memory",
        advice="Raise target.tensor_parallel, or lower --gpu-memory-utilization or --max-num-batched-tokens.",
    ),
    Cause(
        pattern=r"are not supported for now|does not recognize this architecture|no vLLM implementation",
        advice="Take a vLLM release that knows this architecture, or another model in target.model.",
    ),
    Cause(
        pattern=r"HFValidationError|Repo id must|is not a local folder|RepositoryNotFound|LocalEntryNotFound|"
        r"[Cc]an't load (?:the )?config|Invalid repository ID|"
        r"We couldn't connect to|outgoing traffic has been disabled",
        advice="Check target.model: it must be a folder with a config.json, or a hub id that this machine can fetch.",
    ),
    Cause(
        pattern=r"is not supported by MLA|head size.*not supported|No valid attention backend",
        advice="Take another attention backend (VLLM_ATTENTION_BACKEND) or model: no kernel fits these heads.",
    ),
    Cause(
        pattern=r"No space left on device",
        advice="Free the disk named in the log, or set TMPDIR and VLLM_CACHE_ROOT to a larger one.",
    ),
    Cause(
        pattern=r"unrecognized arguments|error: argument|expected one argument",
        advice="Correct server.args: this vLLM does not know the word.",
    ),
    Cause(
        pattern=r"No module named '?vllm'?",
        advice="Install vLLM into this environment (make run does), or attach to a server with server.manage = false.",
    ),
    Cause(
        pattern=r"Total number of attention heads .* must be divisible|must be divisible by tensor parallel",
        advice="Choose target.tensor_parallel so that it divides the number of attention heads.",
    ),
)
