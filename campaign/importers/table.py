"""Every format, in the order in which a file is offered to them."""

from __future__ import annotations

from campaign.importers import aiperf, facts, gemm_csv, guidellm, nccl_json, nccl_text, torch_profiler, vllm_bench
from campaign.importers.imported import Importer

IMPORTERS: tuple[Importer, ...] = (
    facts.IMPORTER,
    torch_profiler.IMPORTER,
    vllm_bench.IMPORTER,
    guidellm.IMPORTER,
    aiperf.IMPORTER,
    nccl_text.IMPORTER,
    nccl_json.IMPORTER,
    gemm_csv.IMPORTER,
)
