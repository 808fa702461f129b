# SPDX-License-Identifier: Apache-2.0
"""Rules on factors: what they weigh, what they refuse, and that drawing follows the weights."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unbraid.core.errors import InputError
from unbraid.data import load
from unbraid.data.where_rule import TOTAL, SamplingRule, count_images, cumulative_weights

SPRITES = load("sprites", x=4, y=3, scale=2, shape=3)
REMEDY = "Write a rule on the factors with == < and or, such as: shape != 2 or y < 1."
FACTORS = SPRITES.factors(np.arange(len(SPRITES)))
SHAPE, SCALE, X, Y = FACTORS.T


def weights(rule: str) -> np.ndarray:
    return SamplingRule(rule, SPRITES).weights(FACTORS)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("shape != 2 or x < 2", (SHAPE != 2) | (X < 2)),
        ("shape != 2 and x < 2 and not y == 1", (SHAPE != 2) & (X < 2) & (Y != 1)),
        ("shape == 1 or x >= 2 and y > 0", (SHAPE == 1) | (X >= 2) & (Y > 0)),
        ("(x == 1) != (y == 1)", (X == 1) != (Y == 1)),
        ("0 < x <= 2", (X > 0) & (X <= 2)),
        ("x in (0, 3) and y not in [1]", np.isin(X, (0, 3)) & (Y != 1)),
        ("1 + 9 * (scale == 1)", 1 + 9 * (SCALE == 1)),
        ("x + y % 2 - -1", X + Y % 2 + 1),
        ("x / (x + 1)", X / (X + 1)),
        ('"x" == 1', X == 1),
        ("abs(x - y) < 2", np.abs(X - Y) < 2),
        ("True", np.ones(len(SPRITES))),
        ("correlated(x, y, 0.2)", np.exp(-((X / 3 - Y / 2) ** 2) / 0.08)),
        (
            "confounded(x, 0.4)",
            np.exp(
                -((X / 3 - Y / 2) ** 2 + (X / 3 - SHAPE / 2) ** 2 + (X / 3 - SCALE) ** 2) / 0.32
            ),
        ),
        (
            "anticorrelated(x, y, 0.5) * (shape == 0)",
            np.exp(-((X / 3 - 1 + Y / 2) ** 2) / 0.5) * (SHAPE == 0),
        ),
    ],
)
def test_rules_weigh_what_they_say(rule, expected):
    assert np.allclose(weights(rule), np.asarray(expected, dtype=float), rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("colour == 1", "factor 'colour' is unknown. Known: scale, shape, x, y. The rule is "
            "'colour == 1'."),
        ("scal == 1", "factor 'scal' is unknown; did you mean 'scale'? Known: scale, shape, x, "
            "y. The rule is 'scal == 1'."),
        ("x <", "where must be an expression; got 'x <'. " + REMEDY),
        ("x - 2", "where must give finite weights of at least 0; got -2 at shape=0, scale=0, "
            "x=0, y=0. " + REMEDY),
        ("1 / x", "where must give finite weights of at least 0; got inf at shape=0, scale=0, "
            "x=0, y=0. " + REMEDY),
        ("x in y", "where needs a list of numbers behind `in`; got 'y'. For example x in (1, 2)."),
        ("x in ()", "where needs a list of numbers behind `in`; got '()'. For example x in (1, "
            "2)."),
        ("shape != 1 | x < 2", "where is written with `and` and `or`; got '1 | x'. " + REMEDY),
        ("correlated(x, y, x)",
        "the width of correlated must be a number above 0; got 'x'. 0.2 is a strong one."),
        ("correlated(x, x, 1)",
        "where needs two different factors in correlated; got 'correlated(x, x, 1)'."),
        ("  ", "where must be a rule; got '  '. Leave it out to train on everything."),
        ("x > 9", "where must leave some images to train on; got 'x > 9', which leaves none."),
        (
            "correlate(x, y, 1)",
            "function of a rule 'correlate' is unknown; did you mean 'correlated'? "
            "Known: abs, anticorrelated, confounded, correlated.",
        ),
        (
            "correlated(x, y)",
            "where needs correlated(FACTOR, FACTOR, WIDTH); got 'correlated(x, y)'. For example "
                "correlated(shape, scale, 0.2).",
        ),
        ("correlated(x, y, 0)",
        "the width of correlated must be a number above 0; got '0'. 0.2 is a strong one."),
        (
            "correlated(x, colour, 1)",
            "factor 'colour' is unknown. Known: scale, shape, x, y. The rule is 'correlated(x, "
                "colour, 1)'.",
        ),
    ],
)  # fmt: skip
def test_bad_rules_are_refused_by_name(rule, told):
    with pytest.raises(InputError) as caught:
        weights(rule)
    assert str(caught.value) == told


@pytest.mark.parametrize(
    "rule",
    [
        "__import__('os').system('true')", "x.real", "[x for x in (1,)]", "x ** 9999",
        "x if y else 1", "lambda: 1", "x[0]",
        "f'{x}'", "x := 3", "(x, y)()", "correlated(x, y, width=1)", "~x", "x << 3", "9e99", "1j",
        "x is 1",
        "x == (1, 2)", "(1, 2)", "(1, 2) + x", "[x, y]", "{x}", "x < 3 and (1, 2)", "not (1, 2)",
        "-(1, 2)", "(1, 2) in (1,)",
    ],
)  # fmt: skip
def test_nothing_else_is_executed(rule):
    with pytest.raises(InputError, match=r"where (may use|must be an expression|must give)"):
        weights(rule)


@pytest.mark.parametrize(
    "rule",
    ["x in (1, y)", "x in (y, scale)", "x in [[1, 2], [3]]", "(1, 2) in x", "x in (1, 2) in (3,)"],
)
def test_lists_hold_numbers_alone(rule):
    with pytest.raises(InputError):
        weights(rule)


def test_long_and_deep_rules_end_in_a_message():
    for rule in ("x" * 3000, "(" * 900 + "x" + ")" * 900, "-" * 1900 + "x"):
        with pytest.raises(InputError, match="where must be"):
            weights(rule)


def test_rules_speak_of_labels_as_they_were_given():
    images = np.arange(6 * 64, dtype=np.uint8).reshape(6, 8, 8)
    dataset = load(
        images,
        factors=[[10, 1], [20, 1], [40, 1], [10, 2], [20, 2], [40, 2]],
        factor_names=["x", "y"],
    )
    rows = dataset.factors(np.arange(6))
    assert SamplingRule("x == 20", dataset).weights(rows).tolist() == [0, 1, 0, 0, 1, 0]
    assert SamplingRule("x > 10 and y == 2", dataset).weights(rows).tolist() == [0, 0, 0, 0, 1, 1]
    # Correlated factors are compared by their places among the values.
    expected = np.exp(-((np.array([0, 0.5, 1, 0, 0.5, 1]) - [0, 0, 0, 1, 1, 1]) ** 2) / 0.5)
    assert np.allclose(SamplingRule("correlated(x, y, 0.5)", dataset).weights(rows), expected)
    with pytest.raises(InputError, match="got -1 at x=10, y=1"):
        SamplingRule("x - 11", dataset).weights(rows)


def test_data_without_factors_has_no_rules():
    plain = load(np.zeros((4, 8, 8), np.uint8) + np.arange(4, dtype=np.uint8)[:, None, None])
    with pytest.raises(InputError) as caught:
        SamplingRule("x < 1", plain)
    assert (
        str(caught.value)
        == "where needs data with factors; got 'x < 1' for data without any. Leave the rule out, or"
        " give factors."
    )


@given(st.integers(0, TOTAL - 1))
def test_images_of_weight_0_are_never_drawn(place):
    running = cumulative_weights("x in (1, 3) and y != 2", SPRITES)
    index = int(np.searchsorted(running, place, side="right"))
    assert FACTORS[index, 2] in (1, 3)
    assert FACTORS[index, 3] != 2


def test_totals_are_proportional_to_the_weights():
    running = cumulative_weights("1 + 2 * x + correlated(x, y, 0.3)", SPRITES)
    share = np.diff(running, prepend=0) / TOTAL
    expected = weights("1 + 2 * x + correlated(x, y, 0.3)")
    assert running[-1] == TOTAL
    assert np.allclose(share, expected / expected.sum(), rtol=1e-10)


def test_how_many_images_are_left():
    assert count_images("x in (1, 3) and y != 2", SPRITES) == 24
    assert count_images("correlated(x, y, 0.3)", SPRITES) == len(SPRITES) == 72
