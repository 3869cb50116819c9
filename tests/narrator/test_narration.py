"""The narrator against a scripted endpoint: taken, refused, silent; never an exception."""

from __future__ import annotations

import socket
import time

import pytest

from campaign.narrator import Endpoint, Narration, choose, narrate
from campaign.narrator.narration import Option
from tests.narrator import texts
from tests.narrator.scripted import serving
from tests.narrator.test_verification import FALSE, _synthesis

SEEN = _synthesis("allreduce_bound")
MENU = (Option(id="collectives-sweep", reason="all-reduce"), Option(id="profile-b16", reason="batch 16"))


def _endpoint(url: str, **more: float | str) -> Endpoint:
    fields: dict[str, float | str] = {"timeout_s": 5.0, "pause_s": 0.01, **more}
    return Endpoint(url=url, model="narrator", **fields)  # type: ignore[arg-type]


def test_narrate__sixty_texts_over_the_wire() -> None:
    told = (*texts.TRUE, *FALSE)
    with serving(*told) as server:
        outcomes = [narrate(SEEN, _endpoint(server.url)).outcome for _ in told]
    assert outcomes == ["taken"] * len(texts.TRUE) + ["refused"] * len(FALSE)


def test_narrate__prompt_model_seed_and_reply_are_kept() -> None:
    with serving("GEMM bounds decode.") as server:
        narration = narrate(SEEN, _endpoint(server.url, seed=7))
        request = server.requests[0]
    assert request["path"] == "/v1/chat/completions"
    assert (request["seed"], request["temperature"], request["model"]) == (7, 0, "narrator")
    assert request["messages"] == [{"role": "user", "content": narration.prompt}]
    assert (narration.outcome, narration.text, narration.reply) == ("refused", "", "GEMM bounds decode.")
    assert (narration.model, narration.seed) == ("narrator", 7)
    assert narration.reasons
    assert all(sentence in narration.prompt for sentence in SEEN.sentences)


def test_narrate__model_without_a_chat_template_completes() -> None:
    with serving("!no template") as server:
        server.plain = texts.TRUE[0]
        narration = narrate(SEEN, _endpoint(server.url, tries=1))
        asked = [request["path"] for request in server.requests]
    assert narration.outcome == "taken"
    assert asked == ["/v1/chat/completions", "/v1/completions"]


def test_narrate__key_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NARRATOR_KEY", "a-key")
    with serving(texts.TRUE[0]) as server:
        narration = narrate(SEEN, _endpoint(server.url, api_key_env="NARRATOR_KEY"))
        assert server.keys == ["Bearer a-key"]
    assert "a-key" not in repr(narration)


@pytest.mark.parametrize("act", ["!500", "!html", "!null"])
def test_narrate__retries_then_takes(act: str) -> None:
    with serving(act, act, texts.TRUE[0]) as server:
        narration = narrate(SEEN, _endpoint(server.url))
    assert (narration.outcome, narration.tries) == ("taken", 3)


@pytest.mark.parametrize("act", ["!500", "!html", "!null", "!hang", "!drip", "!babble"])
def test_narrate__bad_endpoint_is_silent_in_time(act: str) -> None:
    begin = time.monotonic()
    with serving(act) as server:
        narration = narrate(SEEN, _endpoint(server.url, timeout_s=0.5, tries=2))
        assert len(server.requests) == 2
    assert (narration.outcome, narration.text, narration.reply) == ("silent", "", None)
    assert narration.reasons[0]
    assert time.monotonic() - begin < 10


@pytest.mark.parametrize("url", ["http://127.0.0.1:{port}", "http://", "no url", "http://127.0.0.1:99999999"])
def test_narrate__no_endpoint_is_silent(url: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        narration = narrate(SEEN, _endpoint(url.format(port=free.getsockname()[1]), tries=2))
    assert narration.outcome == "silent"


def _choose(reply: str, most: int = 1) -> tuple[tuple[str, ...], Narration]:
    with serving(reply) as server:
        return choose(MENU, _endpoint(server.url, tries=1), most=most)


@pytest.mark.parametrize(
    ("reply", "ids", "outcome"),
    [
        ('["profile-b16"]', ("profile-b16",), "taken"),
        ('["profile-b16", "profile-b16", "collectives-sweep"]', ("profile-b16", "collectives-sweep"), "taken"),
        ('["rm -rf"]', ("collectives-sweep", "profile-b16"), "refused"),
        ("profile-b16, I think", ("collectives-sweep", "profile-b16"), "refused"),
        ("[]", ("collectives-sweep", "profile-b16"), "refused"),
        ("[1]", ("collectives-sweep", "profile-b16"), "refused"),
        ("!500", ("collectives-sweep", "profile-b16"), "silent"),
    ],
)
def test_choose__only_from_the_menu(reply: str, ids: tuple[str, ...], outcome: str) -> None:
    chosen, narration = _choose(reply, most=2)
    assert (chosen, narration.outcome) == (ids, outcome)


def test_choose__at_most_what_the_budget_has() -> None:
    assert _choose('["profile-b16", "collectives-sweep"]')[0] == ("profile-b16",)
