# SPDX-License-Identifier: Apache-2.0
"""Bad arrays are refused with every problem at once; torch tensors and unseen values are
understood.
"""

from __future__ import annotations

import numpy as np
import pytest

from unbraid.core.errors import InputError
from unbraid.core.grid import FactorGrid
from unbraid.metrics._arrays import check_codes_factors, check_codes_grid, check_counts, check_split

CODES = np.zeros((4, 2))
FACTORS = np.array([[0, 1], [1, 1], [0, 1], [1, 1]])
REMEDY = "Number the values of each factor, as np.unique(column, return_inverse=True)[1] does."


@pytest.mark.parametrize(
    ("codes", "factors", "message"),
    [
        (
            CODES[0],
            FACTORS,
            "codes must have the shape (n, latents) with at least one latent; got shape (2,).",
        ),
        (
            CODES[:, :0],
            FACTORS,
            "codes must have the shape (n, latents) with at least one latent; got shape (4, 0).",
        ),
        (
            CODES[None],
            FACTORS,
            "codes must have the shape (n, latents) with at least one latent; got shape (1, 4, 2).",
        ),
        (CODES[:1], FACTORS[:1], "codes must have at least 2 rows; got shape (1, 2)."),
        (CODES.astype(str), FACTORS, "codes must be numbers; got dtype <U32."),
        (CODES + 1j, FACTORS, "codes must be numbers; got dtype complex128."),
        (
            CODES - np.inf,
            FACTORS,
            "codes must be finite and at most 1e+30 in size; got -inf at row 0, latent 0.",
        ),
        (
            CODES + 1e31,
            FACTORS,
            "codes must be finite and at most 1e+30 in size; got 1e+31 at row 0, latent 0.",
        ),
        (CODES, FACTORS * 1.0, f"factors must be whole numbers; got dtype float64. {REMEDY}"),
        (CODES, FACTORS.astype(str), f"factors must be whole numbers; got dtype <U21. {REMEDY}"),
        (
            CODES,
            FACTORS[:, 0],
            "factors must have the shape (n, factors) with at least one factor; got shape (4,).",
        ),
        (
            CODES,
            FACTORS[:3],
            (
                "codes and factors must have the same number of rows; got 4 and 3. Pass samples"
                " first: (n, ...)."
            ),
        ),
        (
            CODES,
            FACTORS[:, 1:],
            (
                "factors must take at least two values in some column; got one value in each of 1"
                " column."
            ),
        ),
    ],
)
def test_refusals(codes: np.ndarray, factors: np.ndarray, message: str) -> None:
    with pytest.raises(InputError) as caught:
        check_codes_factors(codes, factors)
    assert (
        str(caught.value).replace(" Leave out such rows, or models that diverged.", "") == message
    )


def test_all_problems_are_told_at_once(refused) -> None:
    assert refused(
        check_split, CODES * np.nan, FACTORS * 1.0, np.zeros((3, 5)), FACTORS[:, :1]
    ) == [
        ("codes", "must be finite and at most 1e+30 in size", "nan at row 0, latent 0"),
        ("factors", "must be whole numbers", "dtype float64"),
        ("test_codes and test_factors", "must have the same number of rows", "3 and 4"),
        ("codes and test_codes", "must have the same latents", "2 and 5"),
        ("factors and test_factors", "must have the same factors", "2 and 1"),
    ]


def test_an_empty_test_part_is_refused(refused) -> None:
    assert refused(check_split, CODES, FACTORS, CODES[:0], FACTORS[:0]) == [
        ("test_codes", "must have at least 1 row", "shape (0, 2)")
    ]


def test_values_are_numbered_by_the_training_part() -> None:
    train, test = check_split(
        CODES, np.array([[-3], [7], [7], [40]]), CODES, np.array([[7], [8], [-9], [99]])
    )
    assert train.levels.tolist() == [[0], [1], [1], [2]]
    assert train.sizes == test.sizes == (3,)
    assert test.levels.tolist() == [[1], [-1], [-1], [-1]]


def test_constant_factors_are_listed() -> None:
    assert check_codes_factors(CODES, FACTORS).constant_factors == (1,)


def test_a_grid_stands_for_its_factor_values() -> None:
    grid = FactorGrid(("a", "b", "c"), (2, 1, 3))
    rows = check_codes_grid(np.zeros((6, 2)), grid)
    same = check_codes_grid(np.zeros((6, 2)), grid.to_factors(np.arange(6)))
    assert np.array_equal(rows.levels, same.levels)
    assert rows.sizes == same.sizes == (2, 1, 3)
    assert rows.constant_factors == (1,)


def test_codes_must_cover_the_grid(refused) -> None:
    assert refused(check_codes_grid, CODES, FactorGrid(("a", "b"), (2, 3))) == [
        ("codes", "must have 6 rows, one for each point of the grid", "4")
    ]
    assert refused(check_codes_grid, CODES[:1], FactorGrid(("a", "b"), (1, 1))) == [
        (
            "factors",
            "must take at least two values in some column",
            "one value in each of 2 columns",
        )
    ]


def test_options_are_refused_together(refused) -> None:
    check_counts(bins=(np.int64(2), 2))
    assert refused(check_counts, bins=(1, 2), seed=(0.5, 0), batch=(True, 1)) == [
        ("bins", "must be a whole number of at least 2", "1"),
        ("seed", "must be a whole number of at least 0", "0.5"),
        ("batch", "must be a whole number of at least 1", "True"),
    ]


def test_torch_tensors_are_taken_as_they_are() -> None:
    torch = pytest.importorskip("torch")
    codes = torch.arange(8, dtype=torch.bfloat16).reshape(4, 2).requires_grad_()
    rows = check_codes_factors(codes, torch.from_numpy(FACTORS))
    assert rows.codes.dtype == np.float64
    assert rows.codes.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert np.array_equal(rows.factors, FACTORS)


def test_labels_that_do_not_fit_are_refused_rather_than_wrapped():
    factors = np.array([[2**63 - 1], [2**63]], dtype=np.uint64)
    with pytest.raises(InputError, match="factors must be whole numbers of at most 9223372036854"):
        check_codes_factors(np.zeros((2, 1)), factors)


def test_masked_values_are_refused():
    codes = np.ma.masked_greater(np.arange(6.0).reshape(3, 2), 4)
    with pytest.raises(InputError, match="arrays must not have masked values"):
        check_codes_factors(codes, [[0], [1], [0]])
