# SPDX-License-Identifier: Apache-2.0
"""Agreement of models on their latents, many groups at once: the parts of UDR (Duan et al. 2020).

`udr.py` says what is measured. Here it is computed for tensors with a leading group axis, on the
device where they lie, in double precision: all Lasso regressions or rank correlations between the
models of all groups together. In unsupervised population-based training (Estermann et al. 2020) a
group is a member of the population: models that share all but the seed.

Groups do not feel each other. One in which a model diverged scores NaN as a whole and leaves the
others as they are bit for bit. Large inputs are worked through in blocks of groups; how many
depends on shapes alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Literal, get_args

import torch
from torch import Tensor

from unbraid.core.errors import Problems, Shown, invalid, unknown
from unbraid.metrics._arrays import LARGEST_CODE
from unbraid.metrics._lasso import lasso, lasso_to_gap
from unbraid.metrics._posterior import gaussian_kl
from unbraid.metrics._standardise import ROUNDING_SHARE, SMALLEST_MOVE

Method = Literal["lasso", "spearman"]

BLANK_KL = 0.01
"""At or below this KL a latent is noise; the reference's constant beside its threshold, and equal
to it by default.
"""
BLOCK_BYTES = 2**28
"""About how much memory a block of groups may take."""


@dataclass(frozen=True)
class Agreement:
    """Scores with their evidence; NaN, but for `informative`, for a group that is not finite."""

    per_model: Tensor
    """`(groups, models)`: the median over the others of the column below."""
    pairwise: Tensor
    """`(groups, models, models)`: how well the first predicts the second, latent by latent; 0 on
    the diagonal.
    """
    similarity: Tensor
    """`(groups, models, models, latents, latents)`: before latents are left out; 0 for a model with
    itself.
    """
    informative: Tensor
    """`(groups, models, latents)`: latents with a KL above the threshold."""


def mean_kl(mean: Tensor, logvar: Tensor) -> Tensor:
    """Mean KL of `N(mean, exp(logvar))` to N(0, 1), nats: `(..., n, latents)` to `(..., latents)`.

    >>> mean_kl(torch.tensor([[0.0, 2.0]]), torch.zeros(1, 2))
    tensor([0., 2.], dtype=torch.float64)
    """
    if mean.shape != logvar.shape:
        shown = Shown(f"{tuple(mean.shape)} and {tuple(logvar.shape)}")
        raise invalid("mean and logvar", "must have the same shape", shown)
    mean, logvar = mean.detach().double(), logvar.detach().double()
    return gaussian_kl(mean, logvar, torch.expm1).mean(dim=-2)


def agreement_scores(
    codes: Tensor,
    kl: Tensor,
    *,
    method: Method = "lasso",
    kl_threshold: float = 0.01,
    filter_low_kl: bool = True,
    alpha: float = 0.1,
    tolerance: float = 1e-4,
) -> Tensor:
    """Score `(groups, models)` of every model within its group; the options are those of `udr`.

    *codes* `(groups, models, n, latents)` and *kl* `(groups, models, latents)` lie on one device,
    where the scores will be too.

    >>> code = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> group = torch.stack([code, 3.0 - code.flip(1)])
    >>> agreement_scores(torch.stack([group, group * torch.nan]), torch.ones(2, 2, 2))
    tensor([[0.9000, 0.9000],
            [   nan,    nan]], dtype=torch.float64)
    """
    check_options(method, kl_threshold, alpha, tolerance)
    _check_tensors(codes, kl)
    options = {"method": method, "kl_threshold": kl_threshold, "filter_low_kl": filter_low_kl}
    options |= {"alpha": alpha, "tolerance": tolerance}
    groups = max(1, BLOCK_BYTES // _bytes_of_a_group(codes))
    blocks = zip(codes.split(groups), kl.split(groups), strict=True)
    return torch.cat([agreement(*block, **options).per_model for block in blocks])


def agreement(
    codes: Tensor,
    kl: Tensor,
    *,
    method: Method,
    kl_threshold: float,
    filter_low_kl: bool,
    alpha: float,
    tolerance: float,
    as_reference: bool = False,
) -> Agreement:
    """Scores and evidence for one block of groups; *as_reference* is `compat` of `udr`."""
    # From here on samples are last, side by side in memory, since almost everything runs over them.
    codes, kl = codes.detach().double().mT.contiguous(), kl.detach().double()
    # NaN is not <= anything.
    sound = (codes.abs() <= LARGEST_CODE).flatten(1).all(dim=1) & kl.isfinite().flatten(1).all(
        dim=1
    )
    codes = torch.where(sound[:, None, None, None], codes, 0.0)
    shown = (kl > (BLANK_KL if as_reference else min(BLANK_KL, kl_threshold))) & varying_latents(
        codes
    )
    informative = kl > kl_threshold
    if method == "lasso":
        similarity = _lasso_similarity(codes, shown, alpha, tolerance)
    else:
        similarity = _rank_similarity(codes, shown, math.nan if as_reference else 0.0)
    same = torch.eye(codes.shape[1], dtype=torch.bool, device=codes.device)[..., None, None]
    similarity = torch.where(same, 0.0, similarity)
    pairwise = pair_scores(
        similarity, informative if filter_low_kl else torch.ones_like(informative)
    )

    def of_sound_groups(part: Tensor) -> Tensor:
        return torch.where(sound.view(-1, *[1] * (part.ndim - 1)), part, math.nan)

    per_model, pairwise = of_sound_groups(_median_of_others(pairwise)), of_sound_groups(pairwise)
    return Agreement(per_model, pairwise, of_sound_groups(similarity), informative)


def pair_scores(similarity: Tensor, counted: Tensor) -> Tensor:
    """Score of each pair `(..., models, models)`, over the latents *counted* of both models."""
    kept = torch.where(
        counted[..., :, None, :, None] & counted[..., None, :, None, :], similarity, 0.0
    )
    latents = counted.sum(dim=-1).clamp(min=1)
    by_column = _strength(kept, dim=-2).sum(dim=-1) / latents[..., None, :]
    by_row = _strength(kept, dim=-1).sum(dim=-1) / latents[..., :, None]
    return (by_column + by_row) / 2.0


def _strength(matrices: Tensor, dim: int) -> Tensor:
    """Largest entry squared by the sum of all, along *dim*; 0 where all are 0 or one is NaN."""
    largest, total = matrices.amax(dim=dim), matrices.sum(dim=dim)
    return torch.where(total > 0, largest**2 / total, 0.0)


def _median_of_others(pairwise: Tensor) -> Tensor:
    """The median of each column of *pairwise* over the rows of the other models."""
    models = pairwise.shape[-1]
    model = torch.arange(models, device=pairwise.device)
    others = (model[:, None] + model[1:]) % models
    ordered = pairwise.mT[:, model[:, None], others].sort(dim=-1).values
    return (ordered[..., (models - 2) // 2] + ordered[..., (models - 1) // 2]) / 2.0


def _lasso_similarity(codes: Tensor, shown: Tensor, alpha: float, tolerance: float) -> Tensor:
    groups, models, latents, _ = codes.shape
    correlation = _correlations(codes) * shown[..., None, None] * shown[:, None, None]
    gram = (
        torch.diagonal(correlation, dim1=1, dim2=3)
        .permute(0, 3, 1, 2)
        .reshape(groups * models, latents, latents)
    )
    # A model need not predict itself: without correlation to its own latents those regressions are
    # done before they start.
    same = torch.eye(models, dtype=torch.bool, device=codes.device)[:, None, :, None]
    cross = torch.where(same, 0.0, correlation).reshape(groups * models, latents, models * latents)
    # Standardised latents have mean square 1.
    squares = shown.double().flatten(1).repeat_interleave(models, dim=0)
    coefficients = (
        lasso_to_gap(gram, cross, squares, alpha, tolerance)
        if tolerance
        else lasso(gram, cross, alpha)
    )
    return (
        coefficients.abs().reshape(groups, models, latents, models, latents).permute(0, 1, 3, 2, 4)
    )


def _rank_similarity(codes: Tensor, shown: Tensor, if_blank: float) -> Tensor:
    sizes = _correlations(average_ranks(codes)).abs().clamp(max=1.0)  # rounding can pass 1
    return torch.where(shown[..., None, None] & shown[:, None, None], sizes, if_blank).permute(
        0, 1, 3, 2, 4
    )


def _correlations(codes: Tensor) -> Tensor:
    """All correlations in a group, `(groups, models, latents, models, latents)`."""
    groups, models, latents, samples = codes.shape
    together = standardise(codes).flatten(1, 2)
    return (together @ together.mT / samples).reshape(groups, models, latents, models, latents)


def average_ranks(codes: Tensor) -> Tensor:
    """Rank 1..n within each latent of *codes* `(..., latents, n)`; ties share their mean rank."""
    ordered, order = codes.sort(dim=-1)
    place = torch.arange(codes.shape[-1], device=codes.device)
    step = ordered[..., 1:] != ordered[..., :-1]
    edge = torch.ones_like(step[..., :1])
    first = torch.where(torch.cat([edge, step], dim=-1), place, 0).cummax(dim=-1).values
    last = (
        torch.where(torch.cat([step, edge], dim=-1), place, len(place))
        .flip(-1)
        .cummin(dim=-1)
        .values.flip(-1)
    )
    ranks = (first + last).to(codes.dtype) / 2.0 + 1.0
    return torch.empty_like(ranks).scatter_(-1, order, ranks)


def varying_latents(codes: Tensor) -> Tensor:
    """Which latents of *codes* `(..., latents, n)` take more than one value, rounding aside."""
    lowest, highest = codes.aminmax(dim=-1)
    return highest - lowest > (ROUNDING_SHARE * torch.maximum(lowest.abs(), highest.abs())).clamp(
        min=SMALLEST_MOVE
    )


def standardise(codes: Tensor) -> Tensor:
    """*codes* `(..., latents, n)` with mean 0 and variance 1; constant latents are all 0."""
    varying = varying_latents(codes)[..., None]
    centred = torch.where(varying, codes - codes.mean(dim=-1, keepdim=True), 0.0)
    # In units of the largest deviation no square overflows or vanishes.
    centred = centred / torch.where(varying, centred.abs().amax(dim=-1, keepdim=True), 1.0)
    return centred / torch.where(varying, centred.square().mean(dim=-1, keepdim=True).sqrt(), 1.0)


def check_options(method: str, kl_threshold: float, alpha: float, tolerance: float) -> None:
    """Refuse options that are none, all at once."""
    problems = Problems()
    if not isinstance(method, str) or method not in get_args(Method):
        problems.say(unknown("method", str(method), get_args(Method)))
    for name, value in (("kl_threshold", kl_threshold), ("tolerance", tolerance)):
        if not (isinstance(value, Real) and 0.0 <= value < math.inf):
            problems.add(name, "must be a finite number of at least 0", value)
    if not (isinstance(alpha, Real) and 0.0 < alpha < math.inf):
        problems.add("alpha", "must be a finite number above 0", alpha)
    problems.raise_if_any()


def _check_tensors(codes: Tensor, kl: Tensor) -> None:
    problems = Problems()
    for name, tensor in (("codes", codes), ("kl", kl)):
        if not isinstance(tensor, Tensor):
            problems.add(
                name,
                "must be a torch tensor",
                Shown(f"a {type(tensor).__name__}"),
                "Use udr for NumPy arrays.",
            )
    problems.raise_if_any()
    groups, models, rows, latents = codes.shape if codes.ndim == 4 else (0, 0, 0, 0)
    if groups < 1 or models < 2 or rows < 2 or latents < 1:
        rule = (
            "must have the shape (groups, models, n, latents) with at least one group, two models,"
            " two rows and one latent"
        )
        problems.add(
            "codes",
            rule,
            Shown(f"shape {tuple(codes.shape)}"),
            "A model alone has nothing to agree with.",
        )
    elif kl.shape != (groups, models, latents):
        rule = f"must have the shape (groups, models, latents), here {(groups, models, latents)}"
        problems.add("kl", rule, Shown(f"shape {tuple(kl.shape)}"))
    if codes.device != kl.device:
        problems.add(
            "codes and kl", "must lie on the same device", Shown(f"{codes.device} and {kl.device}")
        )
    problems.raise_if_any()


def _bytes_of_a_group(codes: Tensor) -> int:
    """About what a group takes at most: copies of its codes and of its Gram matrices."""
    _, models, samples, latents = codes.shape
    return 8 * (9 * models * samples * latents + 5 * models**2 * latents**3)
