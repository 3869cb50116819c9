"""Every format, in the order in which a file is offered to them."""

from __future__ import annotations

from campaign.importers import facts, gemm_csv, nccl_json, nccl_text, torch_profiler
from campaign.importers.imported import Importer

IMPORTERS: tuple[Importer, ...] = (
    facts.IMPORTER,
    torch_profiler.IMPORTER,
    nccl_text.IMPORTER,
    nccl_json.IMPORTER,
    gemm_csv.IMPORTER,
)
