# SPDX-License-Identifier: Apache-2.0
"""The distances of posterior means from labels: disentanglement_lib's numbers, sums by hand, and
what must not matter.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unbraid.objectives.supervision.label_losses import (
    covariance_with_others,
    embedding_cross_entropy,
    ordered_embedding,
    scaled_squared_error,
    sigmoid_cross_entropy,
    sigmoid_squared_error,
)

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "few_labels.json"
SIZES = (3, 6, 5, 8)


@pytest.fixture(scope="module")
def reference() -> SimpleNamespace:
    record = json.loads(GOLDEN.read_text())
    labels = torch.tensor(record["labels"], dtype=torch.float32).unsqueeze(0)
    sizes = torch.tensor([record["factor_sizes"]], dtype=torch.float32)
    return SimpleNamespace(
        values=record["values"],
        relative=record["tolerance"]["relative"],
        labels=labels,
        sizes=sizes,
    )


def padded(embedding: list[list[float]], filler: float) -> torch.Tensor:
    """Embeddings of different lengths in one table, *filler* where a value is missing."""
    longest = max(map(len, embedding))
    return torch.tensor([[row + [filler] * (longest - len(row)) for row in embedding]])


def test_golden_squared_error_with_a_learned_scale(golden, reference):
    found = scaled_squared_error(golden.forward.mean, reference.labels, torch.ones(1, 1))
    assert found.item() == pytest.approx(reference.values["l2"], rel=reference.relative)


def test_golden_cross_entropy(golden, reference):
    found = sigmoid_cross_entropy(golden.forward.mean, reference.labels, reference.sizes)
    assert found.item() == pytest.approx(reference.values["xent"], rel=reference.relative)


def test_golden_covariance(golden, reference):
    found = covariance_with_others(golden.forward.mean, reference.labels)
    assert found.item() == pytest.approx(reference.values["cov"], rel=reference.relative)


@pytest.mark.parametrize("filler", [0.0, 1e6, -0.3])
def test_golden_free_embedding_whatever_stands_beyond_a_factors_values(golden, reference, filler):
    record = reference.values["embed_free"]
    sigma = torch.full((1, 4), 1.5)
    embedding = padded(record["embedding"], filler)
    found = embedding_cross_entropy(
        golden.forward.mean, reference.labels, reference.sizes, embedding, sigma
    )
    assert found.item() == pytest.approx(record["loss"], rel=reference.relative)


def test_golden_ordered_embedding(golden, reference):
    record = reference.values["embed_ordered"]
    embedding = ordered_embedding(
        torch.tensor([record["slope"]]), torch.tensor([record["bias"]]), 8
    )
    found = embedding_cross_entropy(
        golden.forward.mean, reference.labels, reference.sizes, embedding, torch.full((1, 4), 1.5)
    )
    assert found.item() == pytest.approx(record["loss"], rel=reference.relative)


def test_golden_sigmoid_error_is_that_of_every_pair_and_ours_is_its_diagonal(golden, reference):
    """Its code subtracts (batch, factors) from (batch, 1, factors): every image meets the labels of
    every image.
    """
    squashed = torch.sigmoid(golden.forward.mean[0, :, :4])
    targets = reference.labels[0] / reference.sizes[0]
    pairs = (squashed.unsqueeze(1) - targets).square().sum(dim=-1)
    assert pairs.shape == (16, 16)
    assert pairs.sum().item() == pytest.approx(
        reference.values["l2_sigmoid_every_pair"], rel=reference.relative
    )
    ours = sigmoid_squared_error(golden.forward.mean, reference.labels, reference.sizes).item()
    assert ours == pytest.approx(pairs.diagonal().sum().item(), rel=1e-6)
    assert ours < reference.values["l2_sigmoid_every_pair"] / 10


MEAN = torch.tensor([[[1.0, 0.0, 5.0], [-1.0, 2.0, 7.0]]], dtype=torch.float64)
LABELS = torch.tensor([[[2.0, 1.0], [0.0, 3.0]]], dtype=torch.float64)
SMALL = torch.tensor([[4.0, 5.0]], dtype=torch.float64)


def test_scaled_squared_error_by_hand():
    # b = 2: (2 − 2)² + (0 − 1)² + (−2 − 0)² + (4 − 3)²
    assert scaled_squared_error(
        MEAN, LABELS, torch.tensor([[2.0]], dtype=torch.float64)
    ).tolist() == [6.0]


def test_sigmoid_squared_error_by_hand():
    up, two = 1 / (1 + math.exp(-1)), 1 / (1 + math.exp(-2))
    expected = (up - 0.5) ** 2 + (0.5 - 0.2) ** 2 + (1 - up) ** 2 + (two - 0.6) ** 2
    assert sigmoid_squared_error(MEAN, LABELS, SMALL).item() == pytest.approx(expected, rel=1e-14)


def test_cross_entropy_by_hand():
    def entropy(logit: float, target: float) -> float:
        p = 1 / (1 + math.exp(-logit))
        return -target * math.log(p) - (1 - target) * math.log(1 - p)

    expected = entropy(1, 0.5) + entropy(0, 0.2) + entropy(-1, 0.0) + entropy(2, 0.6)
    assert sigmoid_cross_entropy(MEAN, LABELS, SMALL).item() == pytest.approx(expected, rel=1e-13)


def test_cross_entropy_is_least_where_the_squashed_mean_is_the_label_over_the_size():
    """The minimum is at logit(y / n): the mean of the highest of 4 values is drawn to log 3, never
    to infinity.
    """
    mean = torch.full((1, 1, 1), math.log(3.0), dtype=torch.float64, requires_grad=True)
    loss = sigmoid_cross_entropy(
        mean,
        torch.full((1, 1, 1), 3.0, dtype=torch.float64),
        torch.full((1, 1), 4.0, dtype=torch.float64),
    )
    (slope,) = torch.autograd.grad(loss.sum(), mean)
    assert abs(slope.item()) < 1e-15


def test_covariance_by_hand():
    # Centred means ±1, ∓1, ∓1 and labels ±1, ∓1: covariances (1, −1), (−1, 1), (−1, 1), of which
    # the diagonal is left out.
    assert covariance_with_others(MEAN, LABELS).tolist() == [1.0 + 1.0 + 1.0 + 1.0]


def test_covariance_against_numpy():
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(2, 30, 6, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, 9, (2, 30, 4), generator=generator).double()
    for member, found in enumerate(covariance_with_others(mean, labels)):
        joint = np.cov(
            np.hstack([mean[member].numpy(), labels[member].numpy()]), rowvar=False, bias=True
        )[:6, 6:]
        joint[np.arange(4), np.arange(4)] = 0.0
        assert found.item() == pytest.approx((joint**2).sum(), rel=1e-12)


def test_embedding_by_hand():
    # One image, one factor of two values embedded at 0 and 1, mean at 0.25, sigma 2: logits −0.25
    # and −2.25.
    tensor = lambda *values: torch.tensor(values, dtype=torch.float64)  # noqa: E731
    found = embedding_cross_entropy(
        tensor(0.25).view(1, 1, 1),
        tensor(0.0).view(1, 1, 1),
        tensor(2.0).view(1, 1),
        tensor(0.0, 1.0).view(1, 1, 2),
        tensor(2.0).view(1, 1),
    )
    assert found.item() == pytest.approx(math.log1p(math.exp(-2.0)), rel=1e-14)


def test_equal_embeddings_leave_the_entropy_of_a_guess():
    labels = torch.zeros(1, 5, 4, dtype=torch.float64)
    sizes = torch.tensor([SIZES], dtype=torch.float64)
    mean = torch.randn(1, 5, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = embedding_cross_entropy(
        mean,
        labels,
        sizes,
        torch.zeros(1, 4, 8, dtype=torch.float64),
        torch.ones(1, 4, dtype=torch.float64),
    )
    assert found.item() == pytest.approx(sum(map(math.log, SIZES)), rel=1e-12)


def test_embedded_values_a_factor_does_not_have_learn_nothing():
    embedding = torch.zeros(1, 4, 8, dtype=torch.float64, requires_grad=True)
    labels, sizes = (
        torch.zeros(1, 5, 4, dtype=torch.float64),
        torch.tensor([SIZES], dtype=torch.float64),
    )
    mean = torch.randn(1, 5, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    loss = embedding_cross_entropy(
        mean, labels, sizes, embedding, torch.ones(1, 4, dtype=torch.float64)
    )
    (slope,) = torch.autograd.grad(loss.sum(), embedding)
    used = torch.arange(8) < sizes[0].unsqueeze(-1)
    assert torch.equal(slope[0] != 0, used)


def random_case(seed: int, members: int = 3, labelled: int = 7, latents: int = 6):
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.tensor(
        [[SIZES[(k + m) % 4] for k in range(4)] for m in range(members)], dtype=torch.float64
    )
    labels = torch.floor(
        torch.rand(members, labelled, 4, generator=generator, dtype=torch.float64)
        * sizes.unsqueeze(1)
    )
    mean = torch.randn(members, labelled, latents, generator=generator, dtype=torch.float64)
    embedding = torch.randn(members, 4, 8, generator=generator, dtype=torch.float64)
    weights = torch.rand(members, 4, generator=generator, dtype=torch.float64) + 0.5
    return mean, labels, sizes, embedding, weights


LOSSES = {
    "l2": lambda mean, labels, sizes, embedding, weights: scaled_squared_error(
        mean, labels, weights[:, :1]
    ),
    "l2_sigmoid": lambda mean, labels, sizes, embedding, weights: sigmoid_squared_error(
        mean, labels, sizes
    ),
    "xent": lambda mean, labels, sizes, embedding, weights: sigmoid_cross_entropy(
        mean, labels, sizes
    ),
    "cov": lambda mean, labels, sizes, embedding, weights: covariance_with_others(mean, labels),
    "embed": embedding_cross_entropy,
}


@pytest.mark.parametrize("name", LOSSES)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_order_of_images_and_neighbours_do_not_matter(name, seed):
    loss, case = LOSSES[name], random_case(seed)
    together = loss(*case)
    assert together.shape == (3,)
    assert (together >= 0).all()
    order = torch.randperm(7, generator=torch.Generator().manual_seed(seed))
    shuffled = loss(case[0][:, order], case[1][:, order], *case[2:])
    assert torch.allclose(shuffled, together, rtol=1e-12)
    for member in range(3):
        alone = loss(*(part[member : member + 1] for part in case))
        assert torch.allclose(alone, together[member : member + 1], rtol=1e-13)


@pytest.mark.parametrize(
    ("name", "growth"),
    [("l2", 2.0), ("l2_sigmoid", 2.0), ("xent", 2.0), ("cov", 1.0), ("embed", 1.0)],
)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_sums_grow_with_the_labelled_batch_and_means_do_not(name, growth, seed):
    mean, labels, *rest = random_case(seed)
    twice = LOSSES[name](mean.repeat(1, 2, 1), labels.repeat(1, 2, 1), *rest)
    assert torch.allclose(twice, growth * LOSSES[name](mean, labels, *rest), rtol=1e-11)


@pytest.mark.parametrize("name", ["l2", "l2_sigmoid", "xent", "embed"])
def test_only_latents_with_a_factor_are_asked(name):
    mean, *rest = random_case(0)
    other = mean.clone()
    other[..., 4:] += 3.0
    assert torch.equal(LOSSES[name](other, *rest), LOSSES[name](mean, *rest))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31), shift=st.floats(-3, 3), stretch=st.floats(0.1, 3))
def test_covariance_does_not_see_shifts_and_is_quadratic_in_the_means(seed, shift, stretch):
    mean, labels, *_ = random_case(seed)
    found = covariance_with_others(stretch * mean + shift, labels - shift)
    assert torch.allclose(found, stretch**2 * covariance_with_others(mean, labels), rtol=1e-9)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_renaming_values_with_their_embeddings_changes_nothing(seed):
    """What `embed` is for: it does not use the order of the values."""
    mean, labels, sizes, embedding, sigma = random_case(seed, members=1)
    renamed_labels, renamed_embedding = labels.clone(), embedding.clone()
    for factor, size in enumerate(sizes[0].to(torch.int64).tolist()):
        order = torch.randperm(size, generator=torch.Generator().manual_seed(seed))
        renamed_labels[0, :, factor] = order[labels[0, :, factor].to(torch.int64)].double()
        renamed_embedding[0, factor, order] = embedding[0, factor, :size]
    found = embedding_cross_entropy(mean, renamed_labels, sizes, renamed_embedding, sigma)
    assert torch.allclose(
        found, embedding_cross_entropy(mean, labels, sizes, embedding, sigma), rtol=1e-12
    )


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_against_finite_differences(name):
    mean, labels, sizes, embedding, weights = (
        part[:, :3] if part.dim() == 3 and part.shape[1] == 7 else part for part in random_case(2)
    )
    loss = LOSSES[name]

    def of_learned(mean, embedding, weights):
        return loss(mean, labels, sizes, embedding, weights)

    leaves = [part.clone().requires_grad_() for part in (mean, embedding, weights)]
    assert torch.autograd.gradcheck(of_learned, leaves)
