# SPDX-License-Identifier: Apache-2.0
"""What a metric says of itself, and the member axis that every description brings."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch

from unbraid import metrics
from unbraid.core.errors import InputError
from unbraid.core.registry import Citation
from unbraid.metrics import Members, describe

FACTORS = np.random.default_rng(0).integers([3, 4], size=(60, 2))
CODES = np.stack(
    [FACTORS * 1.0, FACTORS[:, ::-1] + 0.3 * np.random.default_rng(1).normal(size=(60, 2))]
)
CITATION = Citation("A", 2024, "B")


def test_members_are_scored_as_each_alone() -> None:
    together = metrics.mig(CODES, FACTORS)
    assert isinstance(together, Members)
    assert len(together) == 2
    assert together.score.tolist() == [metrics.mig(codes, FACTORS).score for codes in CODES]
    assert together.mutual_information.shape == (2, 2, 2)
    assert [one.score for one in together] == together.score.tolist()
    assert together[1:].score.tolist() == together.score.tolist()[1:]


def test_split_names_take_the_axis_on_both_parts_and_names_work_too(refused) -> None:
    together = metrics.sap(
        codes=CODES[:, :40],
        factors=FACTORS[:40],
        test_codes=CODES[:, 40:],
        test_factors=FACTORS[40:],
    )
    alone = [
        metrics.sap(codes[:40], FACTORS[:40], codes[40:], FACTORS[40:]).score for codes in CODES
    ]
    assert together.score.tolist() == alone
    part = (CODES[:, :40], FACTORS[:40])
    assert refused(metrics.sap, *part, CODES[0, 40:], FACTORS[40:]) == [
        ("test_codes", "must have a leading member axis like the other codes", "shape (20, 2)")
    ]
    assert refused(metrics.sap, *part, CODES[:1, 40:], FACTORS[40:]) == [
        ("codes and test_codes", "must hold the same members, at least one", "2, 1")
    ]


def test_tensors_with_gradients_have_members_too() -> None:
    tensor = torch.tensor(CODES, requires_grad=True)
    assert (
        metrics.mig(tensor, torch.from_numpy(FACTORS)).score.tolist()
        == metrics.mig(CODES, FACTORS).score.tolist()
    )


def test_the_member_that_is_wrong_is_named(refused) -> None:
    broken = CODES.copy()
    broken[1, 3, 0] = np.nan
    ((name, _, shown),) = refused(metrics.mig, broken, FACTORS)
    assert (name, shown) == ("member 1: codes", "nan at row 3, latent 0")


def test_an_unknown_word_names_its_member_too() -> None:
    with pytest.raises(InputError, match=r"^member 0: backend 'trees' is unknown"):
        metrics.dci(CODES, FACTORS, CODES, FACTORS, backend="trees")  # pyright: ignore


def test_no_members_are_refused(refused) -> None:
    assert refused(metrics.mig, CODES[:0], FACTORS) == [
        ("codes", "must hold the same members, at least one", "0")
    ]


def test_results_of_members_can_be_pickled_and_have_no_other_attributes() -> None:
    together = metrics.mig(CODES, FACTORS)
    assert pickle.loads(pickle.dumps(together)).score.tolist() == together.score.tolist()
    with pytest.raises(AttributeError, match="'MIG' object has no attribute 'sorce'"):
        _ = together.sorce


@dataclass(frozen=True)
class Score:
    """A score."""

    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    higher_is_better: ClassVar[bool] = True
    score: float


def test_words_that_are_unknown_are_refused(refused) -> None:
    given = {"label": "a", "needs": "split", "citation": CITATION, "result": Score}
    assert refused(describe, **given | {"needs": "splits"}) == [("needs", "is unknown", "splits")]
    assert refused(describe, **given, family="fair") == [("family", "is unknown", "fair")]


def test_a_result_without_a_range_is_refused(refused) -> None:
    @dataclass(frozen=True)
    class Bare:
        score: float

    assert refused(describe, label="a", needs="codes", citation=CITATION, result=Bare) == [
        ("result Bare", "must have the class variable range", "none")
    ]


def test_evidence_of_different_lengths_is_kept_apart() -> None:
    codes = np.stack([FACTORS * 1.0, np.column_stack([FACTORS[:, 0], np.zeros(60)])])
    together = metrics.total_correlation(codes)
    assert together.score.shape == (2,)
    assert [list(latents) for latents in together.constant_latents] == [[], [1]]


@pytest.mark.parametrize(
    "ragged", [[[1.0, 2.0], [3.0]], [torch.ones(2, requires_grad=True), torch.ones(2)]]
)
def test_ragged_lists_are_refused(ragged, refused) -> None:
    ((name, rule, shown),) = refused(metrics.mig, ragged, FACTORS[:2])
    assert (name, rule) == ("arrays", "must be regular")
    assert shown.startswith("a list: ")


def test_a_result_keeps_the_name_of_the_standard_error_free(refused) -> None:
    @dataclass(frozen=True)
    class Taken:
        range: ClassVar[tuple[float, float]] = (0.0, 1.0)
        higher_is_better: ClassVar[bool] = True
        score: float
        standard_error: float

    (found,) = refused(describe, label="A", needs="codes", citation=CITATION, result=Taken)
    rule = "must have no field standard_error: tables keep that of the score under this name"
    assert found == ("result Taken", rule, "one")
