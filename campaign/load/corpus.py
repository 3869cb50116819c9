"""Real text for prompts of exact length: Python's own reference, tokenised by the server."""

from __future__ import annotations

import httpx

from campaign.load.endpoint import Endpoint

PIECE_CHARACTERS = 1000
PIECES = 100


def read_text_ids(endpoint: Endpoint, model: str) -> list[int] | None:
    """Token ids of English prose by the server's /tokenize (vLLM's); null where it has none.

    The prose is the language reference that comes with Python (`pydoc_data.topics`), the same on every machine
    with the same Python.
    """
    from pydoc_data.topics import topics

    text = "\n".join(topics[name] for name in sorted(topics))
    ids: list[int] = []
    verify = endpoint.is_verified if endpoint.is_tls else False
    with httpx.Client(timeout=30.0, verify=verify, headers=dict(endpoint.headers)) as client:
        for start in range(0, min(len(text), PIECE_CHARACTERS * PIECES), PIECE_CHARACTERS):
            piece = text[start : start + PIECE_CHARACTERS]
            body = {"model": model, "prompt": piece, "add_special_tokens": False}
            try:
                answer = client.post(endpoint.url + "/tokenize", json=body)
                ids += answer.json()["tokens"] if answer.status_code == 200 else []
            except (httpx.HTTPError, ValueError, KeyError, TypeError):
                return None
            if not ids:
                return None
    return ids
