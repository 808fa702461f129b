# SPDX-License-Identifier: Apache-2.0
"""Student's t against scipy and torch, its draws by Bailey's method, and its limits: Cauchy and
normal.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from unbraid.core.errors import InputError
from unbraid.objectives.hyper import stack
from unbraid.objectives.latent_terms import gaussian_log_density
from unbraid.objectives.priors.isotropic import STANDARD
from unbraid.objectives.priors.student_t import StudentT

PRIOR = StudentT()


@given(st.floats(0.1, 1000))
def test_density_is_scipys(df):
    z = torch.linspace(-8, 8, 24, dtype=torch.float64).view(1, 12, 2)
    expected = stats.t.logpdf(z.numpy(), df).sum(axis=-1)
    assert StudentT(df=df).log_density(z).flatten().tolist() == pytest.approx(
        expected.flatten().tolist(), rel=1e-10
    )


def test_density_is_torchs():
    z = torch.linspace(-8, 8, 24, dtype=torch.float64).view(1, 12, 2)
    expected = torch.distributions.StudentT(torch.tensor(9.0).double()).log_prob(z).sum(dim=-1)
    assert torch.allclose(PRIOR.log_density(z), expected, rtol=1e-12)


def test_many_degrees_are_normal_also_in_float32():
    z = torch.linspace(-3, 3, 24).view(1, 12, 2)
    assert torch.allclose(StudentT(df=1e7).log_density(z), STANDARD.log_density(z), rtol=1e-5)
    stacked = stack([StudentT(df=1e7)])
    assert torch.allclose(stacked.log_density(z), STANDARD.log_density(z), rtol=1e-5)


def test_density_integrates_to_one(integral):
    assert abs(integral(PRIOR, 400, 1, 400_001) - 1) < 1e-10


@pytest.mark.parametrize("df", [0.7, 1.0, 2.5, 9.0, 300.0])
def test_draws_follow_the_distribution(df, draw_points, check_marginal):
    points = draw_points(StudentT(df=df), 20_000, 2)
    for values in points.T:
        check_marginal(values, stats.t(df).cdf)
    # Signs and sizes of the two latents are independent.
    assert abs(torch.corrcoef(points.abs().log().T)[0, 1]) < 5 / 20_000**0.5


def test_draws_are_finite_at_the_ends_of_the_uniform_numbers():
    uniform = torch.tensor([2.0**-25, 0.5, 1.0]).view(1, 3, 1, 1).expand(1, 3, 2, 3)
    for df in (0.01, 0.4, 9.0):
        assert torch.isfinite(StudentT(df=df).sample(uniform)).all()


def test_kl_by_quadrature_agrees_with_draws(assert_kl_agrees_with_draws):
    mean = torch.tensor([[0.0], [2.0], [-0.5]], dtype=torch.float64)
    logvar = torch.tensor([[0.0], [-3.0], [0.5]], dtype=torch.float64)
    line = torch.linspace(-15, 15, 100_001, dtype=torch.float64)
    log_q = gaussian_log_density(line, mean, logvar)
    known = torch.trapezoid(log_q.exp() * (log_q - PRIOR.log_density(line.view(1, -1, 1))), line)
    assert_kl_agrees_with_draws(PRIOR, mean, logvar, known)


def test_members_have_degrees_of_their_own():
    degrees = (1.0, 9.0, 50.0)
    together = stack([StudentT(df=df) for df in degrees], dtype=torch.float64)
    z = torch.linspace(-2, 2, 36, dtype=torch.float64).view(3, 4, 3)
    alone = [StudentT(df=df).log_density(z)[k] for k, df in enumerate(degrees)]
    assert torch.allclose(together.log_density(z), torch.stack(alone), rtol=1e-13)


def test_it_has_a_variance_above_two_degrees():
    assert PRIOR.finite_variance
    assert not StudentT(df=2).finite_variance
    assert StudentT(df="linear(3, 9, 100)").finite_variance
    assert not StudentT(df="linear(9, 1, 100)").finite_variance


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"df": 0}, "student_t: df must be above 0; got 0."),
        ({"df": "linear(9, 0, 10)"}, "student_t: df must be above 0; got 0.0."),
    ],
)
def test_nonsense_is_refused_by_name(options, told):
    with pytest.raises(InputError) as caught:
        StudentT(**options)
    assert str(caught.value) == told
