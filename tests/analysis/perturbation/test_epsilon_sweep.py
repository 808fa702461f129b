# SPDX-License-Identifier: Apache-2.0
"""s beside factors over ε: lines cross where the crossings say; and images side by side."""

from __future__ import annotations

import numpy as np
import pytest

import unbraid as ub
from unbraid.analysis.perturbation.epsilon_sweep import EPSILONS, epsilon_sweep
from unbraid.analysis.perturbation.visibility import side_by_side
from unbraid.core.errors import InputError

SPRITES = {"image_size": 16, "x": 5, "y": 4, "scale": 2}


@pytest.mark.parametrize("clip", [True, False])
def test_lines_cross_where_the_crossings_are(clip: bool):
    data = ub.load("sprites", **SPRITES)
    at = epsilon_sweep(data, [0.1], clip=clip).crossings
    assert at.local.shape == (3,)
    for quantity, places in (("local", at.local), ("overall", at.overall)):
        for name, place in zip(("scale", "x", "y"), places, strict=True):
            sweep = epsilon_sweep(data, [0.98 * place, min(1.0, 1.02 * place)], clip=clip)
            column = "expansiveness" if quantity == "local" else "explained_variance"
            factor = getattr(sweep.factors, column)[sweep.factors.factors.index(name)]
            own = getattr(sweep, column)
            assert own[0] < factor < own[1], (quantity, name)


def test_a_change_that_is_not_clipped_grows_with_epsilon():
    sweep = epsilon_sweep(ub.load("sprites", **SPRITES), clip=False)
    assert sweep.epsilons == EPSILONS
    assert sweep.change / sweep.change[0] == pytest.approx(np.array(EPSILONS) / EPSILONS[0], 1e-5)
    squared = (np.array(EPSILONS) / EPSILONS[0]) ** 2
    assert sweep.explained_variance / sweep.explained_variance[0] == pytest.approx(squared, 1e-5)
    lines = sweep.lines("overall")
    assert set(lines["group"]) == {"s", "scale", "x", "y"}
    assert len(lines) == 4 * len(EPSILONS)


def test_bad_input_is_refused(tmp_path):
    data = ub.load("sprites", **SPRITES)
    with pytest.raises(InputError, match=r"epsilons must be numbers above 0 .*; got 0\.0, 2\.0\."):
        epsilon_sweep(data, [0.0, 0.1, 2.0])
    with pytest.raises(InputError, match=r"epsilons must be numbers .*; got none\."):
        epsilon_sweep(data, [])
    np.save(tmp_path / "own.npy", data.images(np.arange(8)))
    with pytest.raises(InputError, match="data must have factors that s can be compared with"):
        epsilon_sweep(ub.load(tmp_path / "own.npy"))


def test_psnr_of_a_pattern_is_that_of_its_amplitude():
    data = ub.load("with_s", of="sprites", of_options=SPRITES, epsilon=0.1, clip=False)
    found = side_by_side(data, np.arange(0, len(data), 7))
    assert found.psnr == pytest.approx(20.0, abs=1e-4)
    assert {*np.unique(found.pattern)} == {0, 255}
    clipped = ub.load("with_s", of="sprites", of_options=SPRITES, epsilon=0.1)
    found = side_by_side(clipped, np.arange(0, len(data), 7))
    # Of black and white pixels clipping keeps every other value: half of the squared change.
    assert found.psnr.mean() == pytest.approx(23.0, abs=0.5)
    places = np.arange(0, len(data), 7) // clipped.steps
    assert np.array_equal(found.original, clipped.base.images(places))


def test_noise_is_seen_too(tmp_path):
    made = ub.perturb("sprites", noise="uniform", epsilon=0.3, out=tmp_path / "n",
                      data_options=SPRITES)  # fmt: skip
    found = side_by_side(made.data, [0, 5, 9])
    assert len(found.psnr) == 3
    assert (found.psnr > -20 * np.log10(0.3)).all()
    assert np.array_equal(found.changed, made.data.images([0, 5, 9]))
