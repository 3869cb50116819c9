"""Names of annotations, of every engine and version."""

from __future__ import annotations

import pytest

from campaign.trace.annotations import Announcement, announced, announcements

NAMES = {
    "execute_context_0(0)_generation_16(16)": Announcement("decode", 16),
    "execute_context_1(128)_generation_0(0)": Announcement("prefill", 1),
    "execute_context_2(96_32)_generation_3(3)": Announcement("mixed", 5),
    "execute_context_0(0)_generation_0(0)": Announcement("empty", 0),
    "execute_17_context_0(sq0sk0sqsq0sqsk0)_generation_4(sq4sk900sqsq4sqsk900)": Announcement("decode", 4),
    "execute_new_0_cached_8": Announcement("decode", 8),
    "execute_new_2_cached_8": Announcement("mixed", 10),
    "step[DECODE bs=32]": Announcement("decode", 32),
    "step[EXTEND bs=2 toks=14721]": Announcement("prefill", 2),
    "step[VERIFY bs=4]": Announcement("decode", 4),
    "step[TARGET_VERIFY bs=4]": Announcement("decode", 4),
    "step[IDLE]": Announcement("empty", None),
    "ProfilerStep#12": Announcement("step", None),
}


@pytest.mark.parametrize("name", NAMES)
def test_announced__reads_what_engines_write(name: str) -> None:
    assert announced(name) == NAMES[name]


@pytest.mark.parametrize("name", ["nccl:_all_gather_base", "gpu_model_runner: forward", "aten::mm", ""])
def test_announced__other_names_are_no_steps(name: str) -> None:
    assert announced(name) is None


def test_announcements__engine_names_win_over_profiler_steps() -> None:
    names = ("ProfilerStep#1", "execute_context_0(0)_generation_2(2)")
    assert announcements(names, None) == {1: Announcement("decode", 2)}
    assert announcements(names[:1], None) == {0: Announcement("decode", None)}


def test_announcements__groups_of_the_regex_are_read() -> None:
    names = ("my step b=7 decode", "my step b=1 prefill", "other")
    found = announcements(names, r"my step b=(?P<batch>\d+) (?P<kind>\w+)")
    assert found == {0: Announcement("decode", 7), 1: Announcement("prefill", 1)}
