# SPDX-License-Identifier: Apache-2.0
"""Agreement of many groups at once: closed cases, golden numbers, scikit-learn and SciPy,
independence of groups, speed.
"""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata

from unbraid.core.grid import FactorGrid
from unbraid.metrics import _agreement, _standardise, udr
from unbraid.metrics._agreement import (
    agreement,
    agreement_scores,
    average_ranks,
    mean_kl,
    standardise,
    varying_latents,
)

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
GRID = torch.from_numpy(FactorGrid(("a", "b", "c"), (3, 4, 5)).to_factors(np.arange(60)) * 1.0)
DEFAULTS: dict[str, Any] = {
    "method": "lasso",
    "kl_threshold": 0.01,
    "filter_low_kl": True,
    "alpha": 0.1,
    "tolerance": 1e-4,
}
WAYS = (
    {},
    {"tolerance": 0},
    {"method": "spearman"},
    {"filter_low_kl": False, "kl_threshold": 0.02},
)
KINDS = ("plain", "correlated", "nearly repeated", "repeated", "constant", "dead")


def groups_of(
    kind: str, groups: int = 2, models: int = 3, samples: int = 150, latents: int = 5, seed: int = 0
):
    """Codes and KL of groups whose models share sources."""
    generator = np.random.default_rng([seed, KINDS.index(kind)])
    sources = generator.normal(size=(groups, 1, samples, latents))
    noise = generator.normal(size=(groups, models, samples, latents))
    mixing = np.eye(latents) + 0.4 * (kind != "plain") * generator.normal(
        size=(groups, models, latents, latents)
    )
    codes = sources @ mixing + 0.3 * noise
    kl = generator.uniform(0.05, 3.0, size=(groups, models, latents))
    match kind:
        case "nearly repeated":
            codes[..., 1] = codes[..., 0] + 0.1 * noise[..., 1]
        case "repeated":
            codes[..., 2] = -3.0 * codes[..., 0]
        case "constant":
            codes[:, 0, :, 1] = 0.1
        case "dead":
            kl[:, :, 3], kl[:, 1, 0], kl[0, 2] = 0.01, 0.0, 0.004
    return torch.from_numpy(codes), torch.from_numpy(kl)


def decided(options: dict[str, Any]) -> tuple[str, ...]:
    """Kinds whose scores do not hang on rounding: at the minimum it is left open which of repeated
    latents gets the weight.
    """
    return tuple(kind for kind in KINDS if kind != "repeated" or options.get("tolerance") != 0)


def all_kinds(kinds: tuple[str, ...] = KINDS, **options: int) -> tuple[torch.Tensor, torch.Tensor]:
    each = [groups_of(kind, **options) for kind in kinds]
    return torch.cat([codes for codes, _ in each]), torch.cat([kl for _, kl in each])


@pytest.mark.parametrize(("method", "ceiling"), [("lasso", 0.9), ("spearman", 1.0)])
def test_equal_codes_up_to_order_sign_and_scale_reach_the_ceiling(
    method: str, ceiling: float
) -> None:
    generator = torch.Generator().manual_seed(0)
    groups = []
    for _ in range(7):
        orders = [torch.randperm(3, generator=generator) for _ in range(4)]
        signs = 2 * torch.randint(0, 2, (4, 1, 3), generator=generator) - 1
        scales = torch.rand(4, 1, 3, generator=generator, dtype=torch.float64) + 0.01
        groups.append(torch.stack([GRID[:, order] for order in orders]) * signs * scales + 5.0)
    scores = agreement_scores(torch.stack(groups), torch.ones(7, 4, 3), method=method)
    assert scores.numpy() == pytest.approx(np.full((7, 4), ceiling), abs=1e-12)


def test_random_rotations_score_what_is_known_of_them() -> None:
    # The means are those of the docstring of udr; the specification's numbers are single draws,
    # which lie in the range of ours.
    generator = np.random.default_rng(0)
    for latents, mean, spread, drawn in (
        (2, 0.61, 0.04, 0.40),
        (5, 0.31, 0.02, 0.35),
        (10, 0.16, 0.01, 0.14),
    ):
        rotations = np.linalg.qr(generator.normal(size=(200, 2, latents, latents)))[0]
        codes = torch.from_numpy(generator.normal(size=(200, 1, 1000, latents)) @ rotations)
        pairs = agreement_scores(codes, torch.ones(200, 2, latents)).mean(dim=1)
        assert float(pairs.mean()) == pytest.approx(mean, abs=spread)
        assert pairs.min() < drawn < pairs.max()


def test_unrelated_codes_score_zero() -> None:
    codes = torch.randn(3, 4, 5_000, 6, generator=torch.Generator().manual_seed(0))
    assert not agreement_scores(codes, torch.ones(3, 4, 6)).any()


def test_golden_scores_in_every_group() -> None:
    numbers = json.loads((GOLDEN / "metrics_extras.json").read_text())["udr"]
    with np.load(GOLDEN / "metrics_udr.npz") as file:
        codes, kl = torch.from_numpy(file["codes"]), torch.from_numpy(file["kl"])
    orders = [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [2, 0, 5, 1, 4, 3]]
    for method in ("lasso", "spearman"):
        expected = np.array(numbers[f"{method}_filter=True_thr=0.01"]["model_scores"])
        scores = agreement_scores(
            torch.stack([codes[o] for o in orders]),
            torch.stack([kl[o] for o in orders]),
            method=method,
        )
        assert scores.numpy() == pytest.approx(np.stack([expected[o] for o in orders]), abs=1e-9)


def scikit_learn(columns: np.ndarray, targets: np.ndarray, **options: float) -> np.ndarray:
    """Sizes of its coefficients, `(latents, latents)`; where its sweeps run out, those that it had
    by then.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import Lasso

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.abs(Lasso(alpha=0.1, **options).fit(columns, targets).coef_).T


PAIRS = np.argwhere(np.ones((2, 1, 1), dtype=bool) & ~np.eye(3, dtype=bool))
"""Group, source and target."""


@pytest.mark.parametrize("tolerance", [1e-4, 1e-8])
@pytest.mark.parametrize("kind", KINDS)
def test_coefficients_are_scikit_learns(kind: str, tolerance: float) -> None:
    codes, kl = groups_of(kind)
    found = agreement(codes, kl, **{**DEFAULTS, "tolerance": tolerance}).similarity.numpy()
    mean, deviation = (
        codes.numpy().mean(axis=2, keepdims=True),
        codes.numpy().std(axis=2, keepdims=True),
    )
    scaled = (
        (codes.numpy() - mean)
        / np.where(deviation > 1e-12, deviation, 1.0)
        * (kl > 0.01)[:, :, None].numpy()
    )
    for group, source, target in PAIRS:
        expected = scikit_learn(scaled[group, source], scaled[group, target], tol=tolerance)
        assert found[group, source, target] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("kind", decided({"tolerance": 0}))
def test_without_a_tolerance_coefficients_are_those_of_scikit_learns_minimum(kind: str) -> None:
    codes, kl = groups_of(kind)
    found = agreement(codes, kl, **{**DEFAULTS, "tolerance": 0}).similarity.numpy()
    scaled = (standardise(codes.mT).mT * (kl > 0.01)[:, :, None]).numpy()
    for group, source, target in PAIRS:
        expected = scikit_learn(
            scaled[group, source], scaled[group, target], tol=1e-13, max_iter=100_000
        )
        assert found[group, source, target] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("options", WAYS)
def test_groups_together_are_groups_one_by_one_and_udr(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    codes, kl = all_kinds(decided(options))
    together = agreement_scores(codes, kl, **options)
    alone = torch.cat(
        [agreement_scores(codes[g : g + 1], kl[g : g + 1], **options) for g in range(len(codes))]
    )
    assert together.numpy() == pytest.approx(alone.numpy(), abs=1e-12)
    public = [udr(codes[group], kl[group], **options).per_model for group in range(len(codes))]
    assert together.numpy() == pytest.approx(np.stack(public), abs=1e-12)
    monkeypatch.setattr(_agreement, "BLOCK_BYTES", 4 * _agreement._bytes_of_a_group(codes))
    sizes = []
    whole = _agreement.agreement
    monkeypatch.setattr(
        _agreement,
        "agreement",
        lambda codes, kl, **given: sizes.append(len(codes)) or whole(codes, kl, **given),
    )
    assert agreement_scores(codes, kl, **options).numpy() == pytest.approx(
        together.numpy(), abs=1e-12
    )
    assert sizes == ([4, 4, 2] if options.get("tolerance") == 0 else [4, 4, 4])
    monkeypatch.setattr(_agreement, "BLOCK_BYTES", 1)
    assert agreement_scores(codes, kl, **options).shape == together.shape
    assert sizes[3:] == [1] * len(codes)


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 10_000), st.sampled_from(WAYS))
def test_order_of_groups_and_of_models_does_not_matter(seed: int, options: dict[str, Any]) -> None:
    generator = torch.Generator().manual_seed(seed)
    codes, kl = all_kinds(decided(options), groups=1, models=4, samples=60, latents=4, seed=seed)
    scores = agreement_scores(codes, kl, **options)
    order, models = (
        torch.randperm(len(codes), generator=generator),
        torch.randperm(4, generator=generator),
    )
    turned = agreement_scores(codes[order][:, models], kl[order][:, models], **options)
    assert turned.numpy() == pytest.approx(scores[order][:, models].numpy(), abs=1e-9)


@pytest.mark.parametrize("options", WAYS)
@pytest.mark.parametrize("value", [torch.nan, -torch.inf, 1e31])
def test_a_model_that_diverged_makes_its_group_nan_and_leaves_the_others_bit_for_bit(
    value: float, options: dict[str, Any]
) -> None:
    codes, kl = all_kinds()
    whole = agreement_scores(codes, kl, **options)
    codes[4, 1, 7, 2] = value
    kl[8, 2, 1] = torch.nan if value == 1e31 else value
    scores = agreement_scores(codes, kl, **options)
    assert scores[[4, 8]].isnan().all()
    others = [group for group in range(len(codes)) if group not in (4, 8)]
    assert torch.equal(scores[others], whole[others])
    assert whole.isfinite().all()


def test_evidence_of_a_group_that_diverged_is_nan_too() -> None:
    codes, kl = groups_of("plain")
    codes[1, 0] = torch.nan
    found = agreement(codes, kl, **DEFAULTS)
    assert found.pairwise[1].isnan().all()
    assert found.similarity[1].isnan().all()
    assert found.informative.all()
    assert found.pairwise[0].isfinite().all()
    assert found.similarity[0].isfinite().all()


def test_every_group_diverged() -> None:
    codes, kl = groups_of("plain")
    for options in WAYS:
        assert agreement_scores(codes * torch.nan, kl, **options).isnan().all()


@pytest.mark.parametrize("models", [2, 3, 4, 5])
def test_the_score_is_numpys_median_over_the_others(models: int) -> None:
    found = agreement(*groups_of("correlated", models=models), **DEFAULTS)
    for group, pairwise in enumerate(found.pairwise.numpy()):
        expected = [np.median(np.delete(pairwise[:, model], model)) for model in range(models)]
        assert found.per_model[group].numpy() == pytest.approx(expected, abs=1e-15)


def test_single_precision_and_gradients_are_taken_as_they_come() -> None:
    codes, kl = (tensor.float() for tensor in groups_of("correlated"))
    expected = agreement_scores(codes.double(), kl.double())
    scores = agreement_scores(codes.requires_grad_(), kl.requires_grad_())
    assert scores.dtype == torch.float64
    assert not scores.requires_grad
    assert torch.equal(scores, expected)


@pytest.mark.parametrize("digits", [0, 1, 15])
def test_ranks_are_scipys(digits: int) -> None:
    codes = np.random.default_rng(digits).normal(size=(2, 3, 4, 200)).round(digits)
    codes[1, 0, 2] = 0.5
    assert average_ranks(torch.from_numpy(codes)).tolist() == rankdata(codes, axis=3).tolist()
    assert average_ranks(torch.tensor([0.0, -0.0, 1.0], dtype=torch.float64)).tolist() == [
        1.5,
        1.5,
        3.0,
    ]


def test_standardised_codes_are_those_of_the_other_metrics() -> None:
    codes = np.random.default_rng(0).normal(size=(3, 50, 6)) * [
        1e-200,
        1.0,
        1e29,
        0.0,
        1e-17,
        1.0,
    ] + [
        0.0,
        1e3,
        0.0,
        0.1,
        1.0,
        -7.0,
    ]
    ours = torch.from_numpy(codes).mT
    assert varying_latents(ours).tolist() == _standardise.varying_latents(codes).tolist()
    assert varying_latents(ours)[0].tolist() == [True, True, True, False, False, True]
    assert standardise(ours).mT.numpy() == pytest.approx(_standardise.standardise(codes), abs=1e-12)


def test_mean_kl_is_exact() -> None:
    generator = torch.Generator().manual_seed(0)
    mean, logvar = (
        torch.randn(2, 3, 40, 5, generator=generator),
        torch.randn(2, 3, 40, 5, generator=generator),
    )
    normal = torch.distributions.Normal(mean.double(), (0.5 * logvar.double()).exp())
    expected = torch.distributions.kl_divergence(normal, torch.distributions.Normal(0.0, 1.0)).mean(
        dim=2
    )
    assert mean_kl(mean, logvar).numpy() == pytest.approx(expected.numpy(), rel=1e-12)
    # 1/2 (exp(v) - v - 1) is v^2 / 4 for small v, which single precision would lose.
    small = mean_kl(torch.zeros(4, 1), torch.full((4, 1), 1e-4))
    assert float(small) == pytest.approx(1e-8 / 4, rel=1e-4)


def test_mean_kl_refuses_other_shapes(refused) -> None:
    assert refused(mean_kl, torch.zeros(4, 2), torch.zeros(4, 3)) == [
        ("mean and logvar", "must have the same shape", "(4, 2) and (4, 3)")
    ]


@pytest.mark.parametrize(
    "shape", [(3, 10, 2), (0, 3, 10, 2), (2, 1, 10, 2), (2, 3, 1, 2), (2, 3, 10, 0)]
)
def test_other_shapes_of_codes_are_refused(shape: tuple[int, ...], refused) -> None:
    ((name, rule, shown),) = refused(agreement_scores, torch.zeros(shape), torch.zeros(2, 3, 2))
    assert (name, shown) == ("codes", f"shape {shape}")
    assert rule.startswith("must have the shape (groups, models, n, latents)")


def test_other_bad_input_is_refused(refused) -> None:
    codes = torch.zeros(2, 3, 10, 2)
    assert refused(agreement_scores, codes, torch.zeros(2, 2, device="meta")) == [
        ("kl", "must have the shape (groups, models, latents), here (2, 3, 2)", "shape (2, 2)"),
        ("codes and kl", "must lie on the same device", "cpu and meta"),
    ]
    assert refused(agreement_scores, codes.numpy(), [1.0]) == [
        ("codes", "must be a torch tensor", "a ndarray"),
        ("kl", "must be a torch tensor", "a list"),
    ]
    assert refused(agreement_scores, codes, torch.zeros(2, 3, 2), method="pearson", alpha=0.0) == [
        ("method", "is unknown", "pearson"),
        ("alpha", "must be a finite number above 0", "0.0"),
    ]


def test_groups_together_take_less_time_than_one_by_one(pace) -> None:
    codes, kl = groups_of("correlated", groups=16, models=4, samples=100, latents=5)
    together = pace(lambda: agreement_scores(codes, kl))
    alone = pace(
        lambda: [agreement_scores(codes[g : g + 1], kl[g : g + 1]) for g in range(len(codes))]
    )
    assert together < alone / 3


@pytest.mark.gpu
@pytest.mark.parametrize("options", WAYS)
def test_on_a_gpu_scores_are_those_of_the_cpu(options: dict[str, Any]) -> None:
    codes, kl = all_kinds(decided(options), groups=4, models=5, samples=500, latents=8)
    expected = agreement_scores(codes, kl, **options)
    scores = agreement_scores(codes.cuda(), kl.cuda(), **options)
    assert scores.device.type == "cuda"
    assert scores.cpu().numpy() == pytest.approx(expected.numpy(), abs=1e-9)
    codes[3, 2, 5, 1] = torch.nan
    with_one_lost = agreement_scores(codes.cuda(), kl.cuda(), **options)
    others = [group for group in range(len(codes)) if group != 3]
    assert with_one_lost[3].isnan().all()
    assert torch.equal(with_one_lost[others], scores[others])


@pytest.mark.gpu
@pytest.mark.parametrize("method", ["lasso", "spearman"])
def test_a_population_takes_less_time_on_a_gpu_than_a_loop_over_its_groups(method: str) -> None:
    codes, kl = groups_of("correlated", groups=56, models=5, samples=1000, latents=10)
    on_device = codes.float().cuda(), kl.cuda()

    def seconds(call) -> float:
        call()
        torch.cuda.synchronize()
        began = time.perf_counter()
        call()
        torch.cuda.synchronize()
        return time.perf_counter() - began

    together = seconds(lambda: agreement_scores(*on_device, method=method))
    looped = seconds(
        lambda: [
            agreement_scores(codes[g : g + 1], kl[g : g + 1], method=method) for g in range(56)
        ]
    )
    assert together < looped
    assert together < 3.0


@pytest.mark.gpu
@pytest.mark.parametrize("options", WAYS)
def test_memory_on_a_gpu_stays_within_a_block(options: dict[str, Any]) -> None:
    codes = torch.randn(300, 5, 1000, 10, generator=torch.Generator().manual_seed(0)).cuda()
    codes = 0.3 * codes + codes[:, :1] @ torch.randn(300, 5, 10, 10, device="cuda")
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    agreement_scores(codes, torch.ones(300, 5, 10, device="cuda"), **options)
    assert torch.cuda.max_memory_allocated() - before < 1.25 * _agreement.BLOCK_BYTES
