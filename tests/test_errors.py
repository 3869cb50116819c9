"""Exit codes and their precedence."""

from __future__ import annotations

import itertools

from campaign.errors import CampaignError, combined_exit_code


def test_exit_code__precedence_whatever_the_order() -> None:
    order = [130, 4, 2, 6, 3, 5, 1]
    for codes in itertools.chain(itertools.permutations(order, 2), itertools.permutations(order, 3)):
        assert combined_exit_code(list(codes)) == min(codes, key=order.index)
    assert combined_exit_code([]) == 0


def test_exit_code__every_error_has_a_documented_one() -> None:
    def below(kind: type[CampaignError]) -> set[type[CampaignError]]:
        return {kind}.union(*(below(child) for child in kind.__subclasses__()))

    assert {kind.exit_code for kind in below(CampaignError)} <= {1, 2, 3, 4, 5, 6, 130}
