# SPDX-License-Identifier: Apache-2.0
"""Adam as a kernel beside its plain form: by Triton's interpreter on a CPU, and on CUDA."""

from __future__ import annotations

import pytest
import torch

from unbraid.networks.layout import Layout, Weight
from unbraid.population import adam as adam_module
from unbraid.population.adam import BETAS, Adam, Gradient

pytest.importorskip("triton")

from unbraid.population.adam_kernel import all_finite

LAYOUT = Layout(
    (
        Weight("few", (5,)),
        Weight("large", (70, 60)),
        Weight("more", (3, 11)),
        Weight("larger", (5000,)),
    )
)
HEALTHY = torch.tensor([True, False, True])
RATES = torch.tensor([1e-4, 1e-2, 5e-3])


@pytest.fixture(
    params=[
        pytest.param(
            "cpu",
            marks=pytest.mark.skipif(
                torch.cuda.is_available(), reason="kernels run on the device here"
            ),
        ),
        pytest.param("cuda", marks=pytest.mark.gpu),
    ]
)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the kernels run; in the interpreter they take CPU tensors once they are allowed to."""
    if request.param == "cpu":
        monkeypatch.setattr(adam_module, "uses_kernels", lambda device: True)
    return request.param


def gradients(step: int) -> list[torch.Tensor]:
    """A gradient per weight, of new size at every step; NaN in the member that is not healthy."""
    drawn = torch.Generator().manual_seed(step)
    made = [
        torch.randn(3, *weight.shape, generator=drawn) * 10.0 ** (step % 5 - 2)
        for weight in LAYOUT.weights
    ]
    for gradient in made:
        gradient[1] = torch.nan
    return made


def fresh() -> Adam:
    drawn = torch.Generator().manual_seed(99)
    adam = Adam.start(
        LAYOUT.rows([torch.randn(3, *weight.shape, generator=drawn) for weight in LAYOUT.weights])
    )
    adam.gradient_mean[1], adam.gradient_square[1] = 0.5, 2.0
    return adam


def bits(adam: Adam, member: int) -> list[torch.Tensor]:
    tensors = (adam.weights, adam.gradient_mean, adam.gradient_square, adam.low_precision_copy)
    return [
        tensor[member].cpu().view(torch.uint8).clone() for tensor in tensors if tensor is not None
    ]


def test_the_kernel_steps_like_the_plain_form(device, monkeypatch):
    precision = (
        torch.bfloat16 if device == "cuda" else torch.float16
    )  # the interpreter knows no bfloat16
    start = fresh()
    ours = Adam(
        *(
            tensor.to(device)
            for tensor in (start.weights, start.gradient_mean, start.gradient_square)
        )
    )
    ours.keep_low_precision_copy(precision)
    assert ours.low_precision_copy is not None
    held = bits(ours, 1)
    for step in range(6):
        gradient = Gradient(LAYOUT, [part.to(device) for part in gradients(step)])
        assert gradient.rows is None, "the plain form, not the kernel"
        ours.update(
            gradient, HEALTHY.to(device), RATES.to(device), BETAS, torch.tensor(step, device=device)
        )
    monkeypatch.setattr(adam_module, "uses_kernels", lambda device: False)
    plain = fresh()
    for step in range(6):
        plain.update(Gradient(LAYOUT, gradients(step)), HEALTHY, RATES, BETAS, torch.tensor(step))
    for name in ("weights", "gradient_mean", "gradient_square"):
        torch.testing.assert_close(
            getattr(ours, name).cpu(), getattr(plain, name), rtol=1e-6, atol=1e-6
        )
    assert (plain.weights[[0, 2]] - fresh().weights[[0, 2]]).abs().max() > 1e-4, (
        "nothing moved, so nothing is shown"
    )
    assert all(
        torch.equal(before, after) for before, after in zip(held, bits(ours, 1), strict=True)
    )
    assert torch.equal(ours.low_precision_copy, ours.weights.to(precision))
    gaps = torch.ones_like(ours.weights, dtype=torch.bool)
    for view in LAYOUT.views(gaps).values():
        view.fill_(False)
    assert gaps.any()
    assert not ours.weights[gaps].any(), "gaps hold zeros, which nothing moves"


def test_the_kernel_corrects_each_member_by_its_own_count(device, monkeypatch):
    """As after population-based training, where members have done other numbers of updates than
    their neighbours.
    """
    behind, start = torch.tensor([3, 0, 50]), fresh()
    ours = Adam(
        *(
            tensor.to(device)
            for tensor in (start.weights, start.gradient_mean, start.gradient_square)
        )
    )
    for step in range(4):
        gradient = Gradient(LAYOUT, [part.to(device) for part in gradients(step)])
        ours.update(
            gradient, HEALTHY.to(device), RATES.to(device), BETAS, (behind + step).to(device)
        )
    monkeypatch.setattr(adam_module, "uses_kernels", lambda device: False)
    plain, alike = fresh(), fresh()
    for step in range(4):
        plain.update(Gradient(LAYOUT, gradients(step)), HEALTHY, RATES, BETAS, behind + step)
        alike.update(Gradient(LAYOUT, gradients(step)), HEALTHY, RATES, BETAS, torch.tensor(step))
    torch.testing.assert_close(ours.weights.cpu(), plain.weights, rtol=1e-6, atol=1e-6)
    for member in (0, 2):
        assert (plain.weights[member] - alike.weights[member]).abs().max() > 1e-5, (
            "the count must matter, or nothing is shown"
        )


def test_many_parts_and_uneven_ones_take_several_launches(device, monkeypatch):
    layout = Layout(tuple(Weight(f"weight{k}", (4096 + 8 * k,)) for k in range(26)))
    drawn = torch.Generator().manual_seed(7)
    start, pulls = (
        torch.randn(3, layout.size, generator=drawn),
        [torch.randn(3, *weight.shape, generator=drawn) for weight in layout.weights],
    )
    ours = Adam.start(start.clone().to(device))
    ours.update(
        Gradient(layout, [part.to(device) for part in pulls]),
        HEALTHY.to(device),
        RATES.to(device),
        BETAS,
        torch.tensor(0, device=device),
    )
    monkeypatch.setattr(adam_module, "uses_kernels", lambda device: False)
    plain = Adam.start(start.clone())
    plain.update(Gradient(layout, pulls), HEALTHY, RATES, BETAS, torch.tensor(0))
    torch.testing.assert_close(ours.weights.cpu(), plain.weights, rtol=1e-6, atol=1e-6)
    moved = layout.views((ours.weights.cpu() != start)[[0, 2]])
    assert all(part.all() for part in moved.values()), "every part moves"


@pytest.mark.filterwarnings(
    "ignore:invalid value encountered:RuntimeWarning"
)  # the interpreter's, of infinity minus itself
def test_gradients_that_are_not_finite_are_found_wherever_they_are(device):
    parts = [
        torch.randn(6, *weight.shape, generator=torch.Generator().manual_seed(3))
        for weight in LAYOUT.weights
    ]
    parts[1][1, 69, 59] = torch.nan
    parts[0][2, 0] = torch.inf
    parts[3][4, 4999] = -torch.inf
    found = Gradient(LAYOUT, [part.to(device) for part in parts]).finite()
    assert found.tolist() == [True, False, False, True, False, True]


def test_large_numbers_are_finite(device):
    large, zeros = torch.full((2, 5000), 3e38, device=device), torch.zeros(2, 3, device=device)
    assert all_finite([(0, large), (5008, zeros)]).tolist() == [True, True]
