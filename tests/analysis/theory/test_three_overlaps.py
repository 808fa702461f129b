# SPDX-License-Identifier: Apache-2.0
"""Too little overlap, the right one and too much, on a cross."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from unbraid.analysis.theory.three_overlaps import CELLS, REACH, three_overlaps
from unbraid.core.errors import InputError
from unbraid.report.gallery.statements import STATEMENTS


@pytest.mark.slow
def test_overlap_rises_with_beta_and_only_the_middle_is_right():
    found = three_overlaps()
    little, right, much = found.models
    assert little.overlap < 0.01 < right.overlap < 0.2 < much.overlap
    assert little.covered < 0.3
    assert right.covered > little.covered + 0.25
    assert little.error < right.error < 0.2
    assert much.error > 0.4
    statement = next(one for one in STATEMENTS if one.key == "three_overlaps")
    assert statement.verdict(found).holds
    assert [panel.heading for panel in statement.panels(found)][1] == "β = 0.001: too little"


def test_densities_are_densities():
    found = three_overlaps(steps=30)  # of posteriors of any width
    cell = (2 * REACH / (CELLS - 1)) ** 2
    assert found.prior.sum() * cell == pytest.approx(1.0, abs=0.03)
    assert found.models[1].density.sum() * cell == pytest.approx(1.0, abs=0.03)
    middle = CELLS // 2
    arm, gap = found.prior[middle, -10], found.prior[-10, -10]
    assert arm > 1e6 * gap
    assert np.array_equal(found.prior, found.prior.T)


def test_threads_are_given_back():
    before = torch.get_num_threads()
    with pytest.raises(InputError, match="seed must be"):
        three_overlaps(seed=-1)
    three_overlaps(steps=1)
    assert torch.get_num_threads() == before
