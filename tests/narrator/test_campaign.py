"""The narrator in a campaign: a true text stands in the document and is marked, a bad endpoint changes nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.examples.test_kimi import DOCUMENT, campaign, copy_of_example
from tests.narrator.scripted import serving


def resumed(folder: Path, url: str) -> tuple[subprocess.CompletedProcess[str], str]:
    copy = copy_of_example(folder)
    with (copy / "campaign.toml").open("a") as config:
        config.write(f'\n[narrator]\nurl = "{url}"\nmodel = "scripted"\n')
    done = campaign(copy, "resume")
    return done, (copy / DOCUMENT).read_text()


def test_campaign__a_true_text_is_taken_marked_and_asked_for_once(tmp_path: Path) -> None:
    sentence = "All-reduce takes 51.5 % of the decode step."
    with serving(sentence, sentence) as server:
        done, text = resumed(tmp_path, server.url)
        assert done.returncode == 0, done.stderr
        assert "narrator: taken" in done.stderr
        assert sentence in text
        assert "Narrated by a language model" in text
        again = campaign(tmp_path / "copy", "resume")
        assert "narrator:" not in again.stderr
        assert (tmp_path / "copy" / DOCUMENT).read_text() == text


def test_campaign__a_wrong_number_is_refused_and_the_template_stands(tmp_path: Path) -> None:
    with serving("All-reduce takes 61.5 % of the decode step.") as server:
        done, text = resumed(tmp_path, server.url)
    assert done.returncode == 0, done.stderr
    assert "narrator: refused" in done.stderr
    assert "61.5 %" not in text
    assert "Narrated by a language model" not in text


def test_campaign__a_dead_endpoint_stops_nothing(tmp_path: Path) -> None:
    done, text = resumed(tmp_path, "http://127.0.0.1:9")
    assert done.returncode == 0, done.stderr
    assert "narrator: silent" in done.stderr
    assert "Narrated by a language model" not in text
