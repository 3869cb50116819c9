"""`export` on a document in a folder."""

from pathlib import Path

import pytest

from campaign.cli.export import page_of
from campaign.errors import StorageError


def test_page_of__takes_images_below_the_documents_folder_only(tmp_path: Path) -> None:
    (tmp_path / "doc" / "figures").mkdir(parents=True)
    (tmp_path / "doc" / "figures" / "a b.svg").write_bytes(b"<svg/>")
    (tmp_path / "secret.svg").write_bytes(b"<svg>secret</svg>")
    document = tmp_path / "doc" / "report.md"
    document.write_text("# T\n\n![a](<figures/a b.svg>) ![s](../secret.svg) ![n](none.svg)\n", encoding="utf-8")
    page = page_of(document)
    assert page.count("data:image/svg+xml;base64,PHN2Zy8+") == 1
    assert page.count("is not included") == 2


def test_page_of__no_document_yet_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="python -m campaign render"):
        page_of(tmp_path / "report.md")
