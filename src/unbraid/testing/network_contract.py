# SPDX-License-Identifier: Apache-2.0
"""The contract of a network, ours or a plug-in's: `check_network("my_network")` in a test."""

from __future__ import annotations

import torch
from torch import Tensor

from unbraid.core.random import Stream
from unbraid.networks import NETWORKS
from unbraid.networks.network import Network, TrainedWeights
from unbraid.testing.checks import check_description

BATCH, LATENTS = 2, 5
SEEDS = (3, 11, 4)
AGREEMENT = 1e-12
"""Relative distance in float64 between a member alone and among others, whose sums differ in order.
"""
HALF_AGREEMENT = 2e-2
"""Distance of bfloat16 from float32 in the size of the whole output: both as norms, since one
number of a few may err by more.
"""
TRAINING_BATCH = 6
TRAINING_AGREEMENT = 1e-9
"""The same as AGREEMENT in training, where batch norm divides by deviations that may be small."""


def check_network(
    name: str, sample_shape: tuple[int, ...] = (1, 64, 64), **options: object
) -> None:
    """Assert everything that training relies on for one shape of samples."""
    kind = NETWORKS.load(name)
    check_description(name, kind, labelled=False)
    assert kind(**kind().options()) == kind(), f"{name}(**options()) must make the same network"
    network = kind(**options)
    assert network.problems(sample_shape) == [], f"{name} refuses samples of shape {sample_shape}"
    _check_initial(name, network, sample_shape)
    _check_outputs(name, network, sample_shape)
    _check_members_are_separate(name, network, sample_shape)
    _check_training(name, network, sample_shape)
    _check_bfloat16(name, network, sample_shape)


def _initial(
    network: Network, sample_shape: tuple[int, ...], seeds: tuple[int, ...] = SEEDS
) -> Tensor:
    return network.layout(sample_shape, LATENTS).initial(
        torch.tensor(seeds), Stream.INITIAL_WEIGHTS
    )


def _inputs(
    sample_shape: tuple[int, ...], dtype: torch.dtype, batch: int = BATCH
) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(7)
    x = torch.rand(len(SEEDS), batch, *sample_shape, generator=generator, dtype=torch.float64)
    return x.to(dtype), torch.randn(
        len(SEEDS), batch, LATENTS, generator=generator, dtype=torch.float64
    ).to(dtype)


def _check_initial(name: str, network: Network, sample_shape: tuple[int, ...]) -> None:
    layout = network.layout(sample_shape, LATENTS)
    rows = _initial(network, sample_shape)
    assert tuple(rows.shape) == (
        len(SEEDS),
        layout.size,
    ), f"{name}: one row per member of {layout.size} numbers"
    assert len({weight.name for weight in layout.weights}) == len(layout.weights), (
        f"{name}: weights need different names"
    )
    assert torch.equal(layout.rows(layout.views(rows)), rows), (
        f"{name}: views and rows must undo each other"
    )
    for position, seed in enumerate(SEEDS):
        alone = _initial(network, sample_shape, (seed,))
        assert torch.equal(alone[0], rows[position]), (
            f"{name}: initial weights must depend on the member's seed alone"
        )
    assert not torch.equal(rows[0], rows[1]), (
        f"{name}: members with different seeds must start differently"
    )


def _check_outputs(name: str, network: Network, sample_shape: tuple[int, ...]) -> None:
    weights = network.layout(sample_shape, LATENTS).views(_initial(network, sample_shape))
    x, z = _inputs(sample_shape, torch.float32)
    mean, logvar = network.encode(weights, x)
    raw = network.decode(weights, z, sample_shape)
    for what, tensor, shape in (
        ("mean", mean, z.shape),
        ("logvar", logvar, z.shape),
        ("output", raw, x.shape),
    ):
        assert tensor.shape == shape, (
            f"{name}: {what} must have the shape {tuple(shape)}, has {tuple(tensor.shape)}"
        )
        assert tensor.dtype == torch.float32, (
            f"{name}: {what} must be float32 for float32 samples, is {tensor.dtype}"
        )
        assert torch.isfinite(tensor).all(), f"{name}: {what} must be finite at the start"
    assert not torch.equal(mean, logvar), f"{name}: mean and logvar need heads of their own"


def _results(
    network: Network, rows: Tensor, x: Tensor, z: Tensor, notes: dict[str, Tensor] | None = None
) -> tuple[list[Tensor], Tensor]:
    """Mean, logvar and raw output, with the gradient to the rows of a curved function of them.

    As in training where *notes* are wanted, which are put there.
    """
    rows = rows.detach().clone().requires_grad_()
    weights = network.layout(tuple(x.shape[2:]), LATENTS).views(rows)
    if notes is not None:
        weights = TrainedWeights(weights)
        weights.notes = notes
    outputs = [*network.encode(weights, x), network.decode(weights, z, tuple(x.shape[2:]))]
    (gradient,) = torch.autograd.grad(sum(output.square().sum() for output in outputs), rows)  # type: ignore[arg-type]
    return [output.detach() for output in outputs], gradient


def distance(found: Tensor, expected: Tensor) -> float:
    """Largest difference in the size of the largest expected value."""
    return ((found - expected).abs().max() / expected.abs().max()).item()


def _moved(network: Network, sample_shape: tuple[int, ...]) -> Tensor:
    """Weights a little off their start: biases start at zero, where a wrong one would not show."""
    rows = _initial(network, sample_shape).double()
    return rows + 0.01 * torch.randn(
        rows.shape, generator=torch.Generator().manual_seed(8), dtype=torch.float64
    )


def _check_members_are_separate(name: str, network: Network, sample_shape: tuple[int, ...]) -> None:
    rows = _moved(network, sample_shape)
    x, z = _inputs(sample_shape, torch.float64)
    outputs, gradient = _results(network, rows, x, z)
    for member in range(len(SEEDS)):
        one = slice(member, member + 1)
        alone, gradient_alone = _results(network, rows[one], x[one], z[one])
        for what, whole, part in zip(("mean", "logvar", "output"), outputs, alone, strict=True):
            apart = distance(part, whole[one])
            assert apart <= AGREEMENT, (
                f"{name}: {what} of a member alone is {apart:.1e} from that in a population"
            )
        apart = distance(gradient_alone, gradient[one])
        assert apart <= AGREEMENT, (
            f"{name}: the gradient of a member alone is {apart:.1e} from that in a population"
        )
    torn = rows.clone()
    torn[1] = torch.nan
    torn_outputs, torn_gradient = _results(network, torn, x, z)
    for whole, part in zip([*outputs, gradient], [*torn_outputs, torn_gradient], strict=True):
        assert torch.equal(part[[0, 2]], whole[[0, 2]]), (
            f"{name}: NaN in one member must not reach another"
        )


def _notes_anything(name: str, network: Network, sample_shape: tuple[int, ...]) -> bool:
    """Whether training leaves notes; where it does not, it must give what is given outside."""
    views = network.layout(sample_shape, LATENTS).views(_initial(network, sample_shape))
    x, z = _inputs(sample_shape, torch.float32)
    trained = TrainedWeights(views)
    with torch.no_grad():
        inside, outside = (
            [*network.encode(weights, x), network.decode(weights, z, sample_shape)]
            for weights in (trained, views)
        )
    same = all(torch.equal(one, other) for one, other in zip(inside, outside, strict=True))
    assert same or trained.notes, (
        f"{name}: outputs in training differ from those outside, and nothing is noted that would"
        " tell why"
    )
    return bool(trained.notes)


def _check_training(name: str, network: Network, sample_shape: tuple[int, ...]) -> None:
    """In training a network may use the batch and leave notes; members stay separate in both."""
    if not _notes_anything(name, network, sample_shape):
        return
    layout = network.layout(sample_shape, LATENTS)
    shapes = {weight.name: weight.shape for weight in layout.weights}
    rows = _moved(network, sample_shape)
    x, z = _inputs(sample_shape, torch.float64, TRAINING_BATCH)
    notes: dict[str, Tensor] = {}
    outputs, gradient = _results(network, rows, x, z, notes)
    for noted, value in notes.items():
        assert noted in shapes, f"{name}: a note must name a weight, {noted!r} is none"
        expected = (len(SEEDS), *shapes[noted])
        assert tuple(value.shape) == expected, (
            f"{name}: the note {noted} must have the shape {expected}, has {tuple(value.shape)}"
        )
        assert torch.isfinite(value).all(), f"{name}: the note {noted} must be finite"
        assert not value.requires_grad, f"{name}: the note {noted} must be detached"
        assert not layout.views(gradient)[noted].any(), (
            f"{name}: {noted} is noted in training, so that it must get no gradient"
        )
    torn = rows.clone()
    torn[1] = torch.nan
    torn_notes: dict[str, Tensor] = {}
    torn_outputs, torn_gradient = _results(network, torn, x, z, torn_notes)
    for whole, part in zip(
        [*outputs, gradient, *notes.values()],
        [*torn_outputs, torn_gradient, *torn_notes.values()],
        strict=True,
    ):
        assert torch.equal(part[[0, 2]], whole[[0, 2]]), (
            f"{name}: NaN in one member must not reach another in training"
        )
    for member in range(len(SEEDS)):
        one = slice(member, member + 1)
        notes_alone: dict[str, Tensor] = {}
        alone, gradient_alone = _results(network, rows[one], x[one], z[one], notes_alone)
        whole_notes = [notes[noted] for noted in notes_alone]
        for whole, part in zip(
            [*outputs, gradient, *whole_notes],
            [*alone, gradient_alone, *notes_alone.values()],
            strict=True,
        ):
            apart = distance(part, whole[one])
            assert apart <= TRAINING_AGREEMENT, (
                f"{name}: a member alone in training is {apart:.1e} from that in a population"
            )
    after_one = {noted: value.clone() for noted, value in notes.items()}
    _results(network, rows, x, z, notes)
    assert any(not torch.equal(notes[noted], after_one[noted]) for noted in notes), (
        f"{name}: a second pass must go on from the notes"
    )


def _check_bfloat16(name: str, network: Network, sample_shape: tuple[int, ...]) -> None:
    rows = _initial(network, sample_shape)
    x, z = _inputs(sample_shape, torch.float32)
    for members in (slice(0, 1), slice(0, None)):
        weights = network.layout(sample_shape, LATENTS).views(rows[members])
        full = [
            *network.encode(weights, x[members]),
            network.decode(weights, z[members], sample_shape),
        ]
        half = [
            *network.encode(weights, x[members], torch.bfloat16),
            network.decode(weights, z[members], sample_shape, torch.bfloat16),
        ]
        for what, exact, rough in zip(("mean", "logvar", "output"), full, half, strict=True):
            assert rough.dtype == torch.float32, (
                f"{name}: {what} must come back as float32, is {rough.dtype}"
            )
            apart = ((rough - exact).norm() / exact.norm()).item()
            assert apart <= HALF_AGREEMENT, (
                f"{name}: {what} in bfloat16 is {apart:.1e} from float32"
            )
            if network.lowers_precision:
                assert apart > 0, (
                    f"{name}: {what} does not change with bfloat16; the precision is ignored"
                )
            else:
                assert apart == 0, (
                    f"{name}: {what} changes with bfloat16, though the network says that it does"
                    " not follow it"
                )
