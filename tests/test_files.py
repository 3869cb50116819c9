"""Writes are whole or not at all; appends survive a torn tail."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from campaign import files
from campaign.errors import StorageError


def test_write_atomic__keeps_mode_and_link(tmp_path: Path) -> None:
    target = tmp_path / "real.md"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link = tmp_path / "link.md"
    link.symlink_to(target)
    files.write_atomic(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert files.remove_temporaries(tmp_path) == 0


def test_write_atomic__new_file_obeys_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        files.write_atomic(tmp_path / "a", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_write_atomic__a_folder_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(StorageError, match="a: cannot be written"):
        files.write_atomic(tmp_path / "a", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_append_line__ends_a_torn_line_first(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"whole\nto")
    assert files.read_whole_lines(log) == [b"whole"]
    files.append_line(log, b"next")
    assert files.read_whole_lines(log) == [b"whole", b"to", b"next"]


def test_read_whole_lines__no_file_has_none(tmp_path: Path) -> None:
    assert files.read_whole_lines(tmp_path / "none") == []


def test_remove__says_whether_there_was_one_and_names_what_cannot_go(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert (files.remove(tmp_path / "a"), files.remove(tmp_path / "a")) == (True, False)
    (tmp_path / f"{files.TEMPORARY_PREFIX}folder").mkdir()
    with pytest.raises(StorageError, match=r"folder: cannot be removed: .* \(disk of "):
        files.remove_temporaries(tmp_path)


def test_open_log__a_file_in_the_way_of_its_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder").touch()
    with pytest.raises(StorageError, match=r"log: cannot be appended to: .* \(disk of "):
        files.open_log(tmp_path / "folder" / "log")
    with files.open_log(tmp_path / "made" / "log") as log:
        log.write(b"a")
    assert (tmp_path / "made" / "log").read_bytes() == b"a"
