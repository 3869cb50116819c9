"""The tiny model's folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from campaign.errors import UsageError
from campaign.server.tiny import ARCHITECTURES, make_tiny_model


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_tiny__every_id_of_the_model_has_a_token(architecture: str, tmp_path: Path) -> None:
    folder = make_tiny_model(tmp_path / "m", architecture)
    config = json.loads((folder / "config.json").read_bytes())
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert tokenizer.get_vocab_size() == config["vocab_size"]
    assert all(tokenizer.id_to_token(i) is not None for i in range(config["vocab_size"]))
    text = "Any text, even Ünïcode — 漢字 🙂\n"
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_tiny__made_again_is_untouched(tmp_path: Path) -> None:
    folder = make_tiny_model(tmp_path / "m")
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    make_tiny_model(folder)
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_tiny__unknown_architecture(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="deepseek, llama"):
        make_tiny_model(tmp_path / "m", "gpt5")
