"""When bytes can have come, from the moments of polling alone."""

from __future__ import annotations

from campaign.load.wakes import Wakes

US = 1_000


def test_wakes__a_prompt_wake_means_that_it_has_just_come() -> None:
    wakes = Wakes(0)
    wakes.polled(1_000 * US, 31_000 * US)
    assert wakes.since_ns(30_960 * US) == 30_800 * US
    assert wakes.ready_ns == 31_000 * US


def test_wakes__a_late_wake_means_any_time_since_the_poll() -> None:
    """The first read's stamp is 5 ms old: this process was held up, and the rest may have come all the while."""
    wakes = Wakes(0)
    wakes.polled(1_000 * US, 31_000 * US)
    assert wakes.since_ns(26_000 * US) == 1_000 * US
    assert wakes.since_ns(30_990 * US) == 1_000 * US  # a later read of the same round knows no better
    unstamped = Wakes(0)
    unstamped.polled(1_000 * US, 31_000 * US)
    assert unstamped.since_ns(0) == 1_000 * US


def test_wakes__what_was_ready_at_once_came_since_the_last_round() -> None:
    wakes = Wakes(0)
    wakes.polled(1_000 * US, 31_000 * US)
    wakes.polled(33_000 * US, 33_005 * US)
    assert wakes.since_ns(32_000 * US) == wakes.ready_ns == 31_000 * US
