"""The narrator against a real vLLM with random weights: babble, which must be refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from campaign.narrator import Endpoint, narrate
from campaign.server import ensure_ready, make_tiny_model, stop, vllm_spec
from tests.narrator.test_verification import _synthesis
from tests.server.conftest import free_port

pytestmark = [pytest.mark.vllm]
#: The prompt is some thousand tokens of the tiny model's tokenizer.
ARGS = ("--load-format", "dummy", "--dtype", "bfloat16", "--max-model-len", "2048", "--max-num-seqs", "2")


def test_narrate__babble_of_random_weights_is_refused(tmp_path: Path) -> None:
    make_tiny_model(tmp_path / "models" / "tiny", "deepseek")
    spec = vllm_spec("models/tiny", port=free_port(), campaign_dir=tmp_path, args=(*ARGS, "--enforce-eager"))
    record = ensure_ready(None, spec, log_path=tmp_path / "server.log", save=lambda _record: None)
    try:
        endpoint = Endpoint(
            url=record.url, model=record.served_name or record.model, timeout_s=120.0, max_tokens=48, tries=1
        )
        narration = narrate(_synthesis("allreduce_bound"), endpoint)
    finally:
        stop(record)
    assert narration.outcome == "refused", narration
    assert narration.reply
    assert narration.text == ""
    assert narration.reasons
