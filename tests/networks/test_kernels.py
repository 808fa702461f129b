# SPDX-License-Identifier: Apache-2.0
"""Kernels against torch's own layers in float64, values and all gradients: by Triton's interpreter
on a CPU, and on CUDA.

Inputs are fresh in every run; a failure tells its seed. In bfloat16 the reference gets the rounded
operands.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from unbraid.core.errors import UnbraidError
from unbraid.networks import layers as seam
from unbraid.networks.conv import SIDES, ConvBurgess, ConvLocatello
from unbraid.networks.layout import Layout, Weight, conv_transpose_weights, conv_weights
from unbraid.objectives import likelihoods

pytest.importorskip("triton")

from unbraid.networks.kernels import launch, operators
from unbraid.networks.kernels.tuned import Block

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2}
INTERPRETED = pytest.mark.skipif(
    torch.cuda.is_available(), reason="kernels run on the device here, not in the interpreter"
)
CUTS = {
    "conv": Block(16, 256, loops=3),
    "conv_transpose": Block(16, 256, 128, loops=2),
    "weight": Block(16, 128, 128, programs=6),
    "first": Block(16, loops=2),
    "first weight": Block(16, programs=6),
    "last": Block(16, loops=2),
    "last backward": Block(16, programs=6),
}
"""Blocks as they are cut for bfloat16 or for many members: several loops, weights kept whole, sums
split. Float32's own are not.
"""


@pytest.fixture(autouse=True)
def unwritten_is_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a kernel leaves unwritten in its output shows: fresh memory holds NaN."""

    def torn(make):
        def made(*args, **options):
            fresh = make(*args, **options)
            return fresh.fill_(torch.nan) if fresh.is_floating_point() else fresh

        return made

    monkeypatch.setattr(torch.Tensor, "new_empty", torn(torch.Tensor.new_empty))
    monkeypatch.setattr(torch, "empty_like", torn(torch.empty_like))
    monkeypatch.setattr(torch, "empty", torn(torch.empty))


def cases(interpreted: Sequence[tuple], on_device: Sequence[tuple], *, cut: bool = True) -> list:
    """The same test small in the interpreter, which knows no products in bfloat16, and in every
    size on the device.

    In the interpreter it also runs with other cuts than float32's own.
    """
    few = [
        pytest.param(
            "cpu",
            torch.float32,
            *case,
            *cuts,
            marks=INTERPRETED,
            id="-".join(["cpu", *map(_name, case), how]),
        )
        for how, cuts in ((("own", ({},)), ("cut", (CUTS,))) if cut else (("own", ()),))
        for case in interpreted
    ]
    return few + [
        pytest.param(
            "cuda",
            precision,
            *case,
            *([{}] if cut else []),
            marks=pytest.mark.gpu,
            id="-".join(["cuda", *map(_name, (precision, *case))]),
        )
        for precision in (torch.float32, torch.bfloat16)
        for case in on_device
    ]


def _name(part: object) -> str:
    return "x".join(map(str, part)) if isinstance(part, tuple) else str(part).removeprefix("torch.")


def hidden_layers() -> list[tuple]:
    """Big side's sides, big channels, small channels and kernel of every layer between two hidden
    activations.
    """
    found = set()
    for network in (ConvBurgess(), ConvLocatello()):
        for side in SIDES:
            shapes = {
                weight.name: weight.shape for weight in network.layout((1, side, side), 10).weights
            }
            depth = sum(name.startswith("encoder.conv") for name in shapes) // 2
            for number in range(2, depth + 1):
                small, kernel, _, big = shapes[f"encoder.conv{number}.weight"]
                found.add(((side >> (number - 1),) * 2, big, small, kernel))
                small, kernel, _, big = shapes[f"decoder.conv{number - 1}.weight"]
                found.add(((side >> (depth - number + 1),) * 2, big, small, kernel))
    return sorted(found)


def crowds(layers: Sequence[tuple], one: tuple) -> list[tuple]:
    """Members and batch before each of *layers*: a whole batch, for some an odd one, and for *one*
    of them every combination.
    """
    odd = (1, 5, 37)
    some = [(3, 64, *layer) for layer in layers] + [
        (1, odd[k % 3], *layer) for k, layer in enumerate(layers[::3])
    ]
    every = [(members, batch, *one) for members in (1, 3) for batch in (64, *odd)]
    return list(dict.fromkeys([*some, *every, (40, 64, *one)]))


class Draw:
    """Fresh random tensors on a device; `seed` repeats them."""

    def __init__(self, device: str, precision: torch.dtype) -> None:
        self.seed = int.from_bytes(os.urandom(4))
        self.precision = precision
        self.generator = torch.Generator(device).manual_seed(self.seed)

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator, device=self.generator.device).to(
            self.precision
        )

    def images(self, *shape: int) -> Tensor:
        return torch.rand(*shape, generator=self.generator, device=self.generator.device)

    def layer(self, members: int, described: list[Weight]) -> tuple[Tensor, Tensor, Tensor]:
        """Weight, its low-precision copy and bias as views into members' rows."""
        layout = Layout((Weight("before", (5,)), *described))
        rows = torch.randn(
            members, layout.size, generator=self.generator, device=self.generator.device
        )
        rows *= described[0].fan_in ** -0.5
        # Both sides see the rounded weight, so that only the products and sums differ.
        rows = rows.to(self.precision).float()
        low_weight = layout.views(rows.to(self.precision))[described[0].name]
        views = layout.views(rows)
        return views[described[0].name], low_weight, views[described[1].name]

    def close(self, **pairs: tuple[Tensor, Tensor]) -> None:
        """Each found tensor has its expected one's shape, is finite and lies within the precision's
        tolerance of it.
        """
        for what, (found, expected) in pairs.items():
            assert found.shape == expected.shape, what
            assert torch.isfinite(found).all(), f"{what} is not finite (seed {self.seed})"
            apart = ((found.double() - expected).norm() / expected.norm()).item()
            assert apart <= TOLERANCE[self.precision], (
                f"{what} is {apart:.1e} from the reference (seed {self.seed})"
            )


def convolved(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Torch's stride-2 convolution, member by member: channels last."""
    padding = weight.shape[2] // 2 - 1
    first = [part.movedim(-1, 2) for part in (x, weight)]
    out = [F.conv2d(*parts, stride=2, padding=padding) for parts in zip(*first, bias, strict=True)]
    return torch.stack(out).movedim(2, -1)


def transposed(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Torch's stride-2 transposed convolution, member by member: channels last."""
    first = [part.movedim(-1, 2) for part in (x, weight)]
    out = [
        F.conv_transpose2d(*parts, stride=2, padding=1) for parts in zip(*first, bias, strict=True)
    ]
    return torch.stack(out).movedim(2, -1)


def exactly(*tensors: Tensor) -> list[Tensor]:
    return [tensor.detach().double().requires_grad_() for tensor in tensors]


HIDDEN = hidden_layers()
IMAGES = [((side, side), channels) for side in SIDES for channels in (1, 3)]
CHOICES = (("bernoulli", True), ("gaussian", True), ("gaussian", False))
SMALL = [
    (2, 3, (8, 8), 32, 32, 4),
    (2, 3, (6, 6), 32, 64, 2),
    (1, 5, (7, 14), 16, 32, 4),
    (1, 5, (7, 14), 32, 16, 2),
    (3, 1, (3, 3), 16, 16, 4),
    (3, 1, (3, 3), 16, 16, 2),
    (1, 2, (4, 4), 64, 64, 4),
]
ODD = [
    (3, 37, (7, 14), 32, 64, 4),
    (3, 37, (7, 14), 64, 32, 2),
    (3, 5, (3, 3), 32, 32, 4),
    (3, 5, (3, 3), 32, 32, 2),
]
WIDE = [
    (3, 37, (8, 8), 64, 128, 4),
    (70, 5, (8, 8), 64, 128, 4),
    (70, 5, (8, 8), 64, 64, 4),
    (70, 5, (16, 16), 32, 64, 4),
]
"""With 128 channels, and with so many members that other blocks are chosen."""
NAMES = ("device", "precision", "members", "batch", "sides", "big", "small", "kernel")


def test_the_layers_tested_are_those_of_the_networks():
    assert {(sides[0], big, small, kernel) for sides, big, small, kernel in HIDDEN} >= {
        *(
            (14, 32, 32, 4),
            (8, 32, 64, 2),
            (8, 64, 64, 4),
            (6, 64, 64, 2),
            (64, 32, 32, 4),
            (16, 64, 64, 2),
        ),
    }


@pytest.mark.parametrize(
    (*NAMES, "cut"),
    cases(
        SMALL, [*crowds(HIDDEN, ((16, 16), 32, 64, 4)), *ODD, *WIDE, (40, 64, (8, 8), 32, 64, 2)]
    ),
)
def test_convolution_and_its_gradients(
    device, precision, members, batch, sides, big, small, kernel, cut
):
    draw = Draw(device, precision)
    x = draw.normal(members, batch, *sides, big)
    _, weight, bias = draw.layer(members, conv_weights("layer", big, small, kernel))
    leaves = exactly(x, weight, bias)
    out = convolved(*leaves)
    pull = draw.normal(*out.shape)
    kept = torch.where(out > 0, pull, 0)
    to_x, to_weight, to_bias = torch.autograd.grad((out.relu() * pull).sum(), leaves)
    value = launch.conv(x, weight, bias, relu=True, block=cut.get("conv"))
    backward = launch.conv_transpose(kept, weight, sides, block=cut.get("conv_transpose"))
    masked = launch.conv_transpose(kept, weight, sides, mask=x, block=cut.get("conv_transpose"))
    weights, biases = launch.weight_gradient(
        x, kept, kernel, bias_of_big=False, block=cut.get("weight")
    )
    assert (value.dtype, backward.dtype, weights.dtype, biases.dtype) == (
        precision,
        precision,
        torch.float32,
        torch.float32,
    )
    draw.close(
        value=(value, out.relu()), to_x=(backward, to_x), to_x_masked=(masked, to_x * (x > 0))
    )
    draw.close(to_weight=(weights, to_weight), to_bias=(biases, to_bias))


@pytest.mark.parametrize(
    (*NAMES[:-1], "cut"),
    cases(
        [
            (2, 3, (8, 8), 32, 32),
            (1, 5, (6, 14), 16, 32),
            (3, 1, (6, 6), 64, 16),
            (1, 2, (2, 2), 16, 64),
        ],
        [
            *crowds(sorted({layer[:3] for layer in HIDDEN}), ((16, 16), 32, 64)),
            (3, 37, (14, 6), 32, 64),
            (3, 5, (6, 6), 32, 32),
        ],
    ),
)
def test_transposed_convolution_and_its_gradients(
    device, precision, members, batch, sides, big, small, cut
):
    draw = Draw(device, precision)
    x = draw.normal(members, batch, sides[0] // 2, sides[1] // 2, small)
    _, weight, bias = draw.layer(members, conv_transpose_weights("layer", small, big))
    leaves = exactly(x, weight, bias)
    out = transposed(*leaves)
    pull = draw.normal(*out.shape)
    kept = torch.where(out > 0, pull, 0)
    to_x, to_weight, to_bias = torch.autograd.grad((out.relu() * pull).sum(), leaves)
    value = launch.conv_transpose(
        x, weight, sides, bias, relu=True, block=cut.get("conv_transpose")
    )
    backward = launch.conv(kept, weight, block=cut.get("conv"))
    masked = launch.conv(kept, weight, mask=x, block=cut.get("conv"))
    weights, biases = launch.weight_gradient(kept, x, 4, bias_of_big=True, block=cut.get("weight"))
    assert (value.dtype, backward.dtype, weights.dtype, biases.dtype) == (
        precision,
        precision,
        torch.float32,
        torch.float32,
    )
    draw.close(
        value=(value, out.relu()), to_x=(backward, to_x), to_x_masked=(masked, to_x * (x > 0))
    )
    draw.close(to_weight=(weights, to_weight), to_bias=(biases, to_bias))


@pytest.mark.parametrize(
    ("device", "precision", "members", "batch", "sides", "channels", "small", "cut"),
    cases(
        [
            (2, 3, (8, 8), 1, 32),
            (2, 5, (6, 14), 3, 32),
            (1, 2, (2, 2), 4, 16),
            (2, 1, (6, 6), 2, 16),
        ],
        [(*case, 32) for case in (*crowds(IMAGES, ((64, 64), 3)), (3, 37, (6, 14), 3))],
    ),
)
def test_first_layer_and_its_gradients(
    device, precision, members, batch, sides, channels, small, cut
):
    draw = Draw(device, precision)
    image = draw.images(members, batch, channels, *sides)
    _, weight, bias = draw.layer(members, conv_weights("layer", channels, small, 4))
    leaves = exactly(weight, bias)
    out = convolved(image.to(precision).double().movedim(2, -1), *leaves)
    pull = draw.normal(*out.shape)
    kept = torch.where(out > 0, pull, 0)
    to_weight, to_bias = torch.autograd.grad((out.relu() * pull).sum(), leaves)
    blocks = launch.by_blocks(image)
    value = launch.first(blocks, weight, bias, relu=True, block=cut.get("first"))
    weights, biases = launch.first_weight_gradient(
        blocks, kept, channels, block=cut.get("first weight")
    )
    assert (value.dtype, weights.dtype, biases.dtype) == (precision, torch.float32, torch.float32)
    draw.close(value=(value, out.relu()), to_weight=(weights, to_weight), to_bias=(biases, to_bias))


LAST = ("device", "precision", "members", "batch", "sides", "channels", "small")
LAST_SMALL = [
    (2, 3, (4, 4), 1, 32),
    (2, 2, (3, 5), 3, 32),
    (1, 5, (7, 7), 3, 16),
    (1, 1, (1, 1), 4, 16),
]
LAST_ON_DEVICE = [
    (members, batch, (side // 2,) * 2, channels, 32)
    for members, batch, (side, _), channels in crowds(IMAGES, ((64, 64), 3))
]
LAST_ODD = [(3, 37, (7, 14), 3, 32), (3, 5, (3, 3), 1, 32)]


@pytest.mark.parametrize((*LAST, "cut"), cases(LAST_SMALL, [*LAST_ON_DEVICE, *LAST_ODD]))
def test_last_layer_and_its_gradients(
    device, precision, members, batch, sides, channels, small, cut
):
    draw = Draw(device, precision)
    x = draw.normal(members, batch, *sides, small)
    _, weight, bias = draw.layer(members, conv_transpose_weights("layer", small, channels))
    leaves = exactly(x, weight, bias)
    out = transposed(*leaves).movedim(-1, 2)
    pull, scale = draw.normal(*out.shape), draw.images(members, batch)
    to_x, to_weight, to_bias = torch.autograd.grad(
        (out * pull * scale[:, :, None, None, None]).sum(), leaves
    )
    raw = launch.last(x, weight, bias, block=cut.get("last"))
    found = launch.last_backward(
        x, launch.by_blocks(pull), scale, weight, mask=False, block=cut.get("last backward")
    )
    masked, *_ = launch.last_backward(
        x, launch.by_blocks(pull), scale, weight, mask=True, block=cut.get("last backward")
    )
    assert [tensor.dtype for tensor in (raw, *found)] == [
        precision,
        precision,
        torch.float32,
        torch.float32,
    ]
    draw.close(raw=(raw, out), to_x=(found[0], to_x), to_x_masked=(masked, to_x * (x > 0)))
    draw.close(to_weight=(found[1], to_weight), to_bias=(found[2], to_bias))


DISTANCES = {
    "bernoulli": likelihoods.bernoulli_negative_log,
    "sigmoid_squared_error": likelihoods.sigmoid_squared_error,
    "squared_error": likelihoods.squared_error,
}
FEW_ON_DEVICE = [(3, 64, (16, 16), 1, 32), (40, 64, (14, 14), 3, 32), *LAST_ODD]


@pytest.mark.parametrize(
    (*LAST, "distance", "cut"),
    cases(
        [(*case, distance) for case in LAST_SMALL[:3] for distance in DISTANCES],
        [(*case, "bernoulli") for case in LAST_ON_DEVICE]
        + [(*case, distance) for case in FEW_ON_DEVICE for distance in DISTANCES],
    ),
)
def test_likelihoods_in_the_last_layer(
    device, precision, members, batch, sides, channels, small, distance, cut
):
    draw = Draw(device, precision)
    x = draw.normal(members, batch, *sides, small)
    _, weight, bias = draw.layer(members, conv_transpose_weights("layer", small, channels))
    image = draw.images(members, batch, channels, *(2 * side for side in sides))
    leaves = exactly(x, weight, bias)
    expected = DISTANCES[distance](transposed(*leaves).movedim(-1, 2), image.double())
    scale = draw.images(members, batch) - 0.5
    to_x, to_weight, to_bias = torch.autograd.grad((expected * scale).sum(), leaves)
    true, kind = launch.by_blocks(image), operators.LIKELIHOODS[distance]
    found, slope, sums = launch.last_distance(x, weight, bias, true, kind, block=cut.get("last"))
    back = launch.last_backward(
        x, slope, scale, weight, mask=True, sums=sums, block=cut.get("last backward")
    )
    assert [tensor.dtype for tensor in (found, slope, *back[1:])] == [
        torch.float32,
        precision,
        torch.float32,
        torch.float32,
    ]
    draw.close(distance=(found, expected), to_x=(back[0], to_x * (x > 0)))
    draw.close(to_weight=(back[1], to_weight), to_bias=(back[2], to_bias))


def test_the_kernel_knows_every_likelihood_by_its_distance():
    chosen = [likelihoods.likelihood(name, bounded=bounded) for name, bounded in CHOICES]
    assert {one.distance: one.negative_log for one in chosen} == DISTANCES
    assert set(operators.LIKELIHOODS) == set(DISTANCES)


ONCE = pytest.mark.parametrize(("device", "precision"), cases([()], [()], cut=False))


@ONCE
def test_blocks_by_hand(device, precision):
    """Block (r, c) holds the pixels (2 r - 1, 2 c - 1) to (2 r, 2 c), channels last; what lies
    outside is zero.
    """
    image = torch.arange(1.0, 17.0, device=device, dtype=precision).view(1, 1, 1, 4, 4)
    blocks = launch.by_blocks(image)
    assert (blocks.dtype, tuple(blocks.shape)) == (precision, (1, 1, 3, 3, 4))
    assert blocks[0, 0, 0].tolist() == [[0, 0, 0, 1], [0, 0, 2, 3], [0, 0, 4, 0]]
    assert blocks[0, 0, 1].tolist() == [[0, 5, 0, 9], [6, 7, 10, 11], [8, 0, 12, 0]]
    colours = launch.by_blocks(
        torch.arange(1.0, 13.0, device=device, dtype=precision).view(1, 1, 3, 2, 2)
    )
    assert tuple(colours.shape) == (1, 1, 2, 2, 16)
    assert colours[0, 0, 0, 0].tolist() == [0] * 9 + [1, 5, 9] + [0] * 4
    assert colours[0, 0, 1, 1].tolist() == [4, 8, 12] + [0] * 13


@ONCE
def test_blocks_of_images_that_lie_anyhow(device, precision):
    draw = Draw(device, precision)
    image = draw.normal(3, 2, 3, 6, 10)
    whole = launch.by_blocks(image)
    for member in range(3):
        assert torch.equal(launch.by_blocks(image[member : member + 1]), whole[member : member + 1])
    apart = image.movedim(2, -1).contiguous().movedim(-1, 2)
    assert torch.equal(launch.by_blocks(apart), whole)
    assert torch.equal(launch.by_blocks(image[::2]), whole[::2])
    shared = launch.by_blocks(image[1:2].expand(3, -1, -1, -1, -1))
    assert torch.equal(shared, whole[1:2].expand(3, -1, -1, -1, -1))
    assert shared.stride(0) == 0, "what members share is stored once"


@ONCE
def test_blocks_are_made_once_and_again_when_the_image_changes(device, precision):
    image = Draw(device, precision).images(2, 3, 1, 8, 8)
    once = seam._blocks(image)
    assert seam._blocks(image) is once
    image[1, 2] = 0.5
    again = seam._blocks(image)
    assert not torch.equal(again, once)
    assert torch.equal(again, launch.by_blocks(image))
    with torch.inference_mode():
        frozen = image.clone()
        assert torch.equal(seam._blocks(frozen), again)
        frozen[0] = 0.25
        assert torch.equal(seam._blocks(frozen), launch.by_blocks(frozen))


@ONCE
def test_images_that_members_share_give_the_bits_of_copies(device, precision):
    draw = Draw(device, precision)
    image = draw.images(1, 3, 3, 8, 8).expand(2, -1, -1, -1, -1)
    both = launch.by_blocks(image), launch.by_blocks(image.contiguous())
    _, weight, bias = draw.layer(2, conv_weights("layer", 3, 16, 4))
    pull = draw.normal(2, 3, 4, 4, 16)
    x, (_, last, last_bias) = (
        draw.normal(2, 3, 4, 4, 16),
        draw.layer(2, conv_transpose_weights("layer", 16, 3)),
    )
    shared, copied = (
        [
            launch.first(blocks, weight, bias, relu=False),
            *launch.first_weight_gradient(blocks, pull, 3),
            *launch.last_distance(x, last, last_bias, blocks, operators.LIKELIHOODS["bernoulli"]),
        ]
        for blocks in both
    )
    assert all(torch.equal(a, b) for a, b in zip(shared, copied, strict=True))
    expected = convolved(
        image.to(precision).double().movedim(2, -1), weight.double(), bias.double()
    )
    draw.close(without_relu=(shared[0], expected))


@pytest.mark.filterwarnings(
    "ignore:All-NaN slice encountered:RuntimeWarning"
)  # the interpreter's, of a maximum of NaN
@ONCE
def test_nan_fills_its_own_member_and_reaches_no_other(device, precision):
    draw = Draw(device, precision)
    x, image = draw.normal(3, 2, 4, 4, 16), draw.images(3, 2, 3, 8, 8)
    _, down, down_bias = draw.layer(3, conv_weights("layer", 16, 16, 4))
    _, up, up_bias = draw.layer(3, conv_transpose_weights("layer", 16, 3))
    _, first, first_bias = draw.layer(3, conv_weights("layer", 3, 16, 4))
    scale = draw.images(3, 2)

    def everything(x: Tensor, image: Tensor) -> list[Tensor]:
        blocks = launch.by_blocks(image)
        values = [
            launch.conv(x, down, down_bias, relu=True),
            launch.conv_transpose(x, down, (8, 8), relu=True),
        ]
        values += [launch.first(blocks, first, first_bias, relu=True), launch.last(x, up, up_bias)]
        for kind in operators.LIKELIHOODS.values():
            distance, slope, sums = launch.last_distance(x, up, up_bias, blocks, kind)
            back = launch.last_backward(x, slope, scale, up, mask=False, sums=sums)
            values += [distance, *back[1:]]
        return [
            *values,
            *launch.weight_gradient(x, values[0], 4, bias_of_big=False),
            launch.first_weight_gradient(blocks, x, 3)[0],
        ]

    whole = everything(x, image)
    x[1], image[1] = torch.nan, torch.nan
    for before, after in zip(whole, everything(x, image), strict=True):
        assert torch.isfinite(before).all()
        assert torch.equal(after[[0, 2]], before[[0, 2]])
        assert after[1].isnan().all()


def as_handed_on(exact: Tensor, found: Tensor) -> Tensor:
    """ReLU of *exact* with the numbers that a layer *found*, which the next one takes; gradients
    pass where those are positive.

    The layers are compared one by one this way: else a number that rounding moves over zero would
    open or close a path of its own.
    """
    kept = exact * (found > 0)
    return kept + (found.detach().double() - kept).detach()


CHAINS = ("device", "precision", "members", "batch", "side", "channels", "wide")
CHAIN_CASES = cases(
    [(2, 2, 8, 1, 16), (1, 3, 8, 3, 16)],
    [(3, 37, 28, 1, 32), (1, 64, 64, 3, 32), (3, 5, 96, 3, 64)],
    cut=False,
)


def assert_promises_change_no_bit(draw: Draw, promised: list[Tensor], plain: list[Tensor]) -> None:
    for number, (one, other) in enumerate(zip(promised, plain, strict=True)):
        assert torch.equal(one, other), f"a promise changes tensor {number} (seed {draw.seed})"


@pytest.mark.parametrize(CHAINS, CHAIN_CASES)
def test_encoders_chain_with_and_without_promises(
    device, precision, members, batch, side, channels, wide
):
    draw = Draw(device, precision)
    image = draw.images(members, batch, channels, side, side)
    sizes = ((channels, 16, 4), (16, wide, 4), (wide, 16, 2))
    layers = [draw.layer(members, conv_weights("layer", *size)) for size in sizes]
    pull = draw.normal(members, batch, side // 8, side // 8, 16)

    def through(promise: bool) -> list[Tensor]:
        ours = [
            (weight.detach().requires_grad_(), low, bias.detach().requires_grad_())
            for weight, low, bias in layers
        ]
        one = operators.conv_image(launch.by_blocks(image), *ours[0], promise)
        two = operators.conv(one, *ours[1], promise, promise)
        three = operators.conv(two, *ours[2], promise, False)
        leaves = [leaf for weight, _, bias in ours for leaf in (weight, bias)]
        return [one, two, three, *torch.autograd.grad((three * pull).sum(), leaves)]

    one, two, three, *gradients = found = through(False)
    assert_promises_change_no_bit(draw, through(True), found)
    leaves = exactly(*(part for _, low_weight, bias in layers for part in (low_weight, bias)))
    hidden = image.to(precision).double().movedim(2, -1)
    for number, value in enumerate((one, two, three)):
        exact = convolved(hidden, *leaves[2 * number : 2 * number + 2])
        draw.close(**{f"layer{number + 1}": (value, exact.relu())})
        hidden = as_handed_on(exact, value)
    expected = torch.autograd.grad((hidden * pull).sum(), leaves)
    draw.close(
        **{f"gradient{k}": pair for k, pair in enumerate(zip(gradients, expected, strict=True))}
    )


@pytest.mark.parametrize("distance", [None, "bernoulli"])
@pytest.mark.parametrize(CHAINS, CHAIN_CASES)
def test_decoders_chain_with_and_without_promises(
    device, precision, members, batch, side, channels, wide, distance
):
    draw = Draw(device, precision)
    before = draw.normal(members, batch, side // 8, side // 8, 16)
    image = draw.images(members, batch, channels, 8 * (side // 8), 8 * (side // 8))
    layers = [
        draw.layer(members, conv_transpose_weights("layer", *size))
        for size in ((16, wide), (wide, 16), (16, channels))
    ]
    pull = draw.normal(*(image.shape if distance is None else image.shape[:2])).float()

    def through(promise: bool) -> list[Tensor]:
        ours = [
            (weight.detach().requires_grad_(), low, bias.detach().requires_grad_())
            for weight, low, bias in layers
        ]
        begin = before.detach().requires_grad_()
        one = operators.conv_transpose(begin.relu(), *ours[0], promise, promise)
        two = operators.conv_transpose(one, *ours[1], promise, promise)
        if distance is None:
            last = operators.conv_transpose_to_image(two, *ours[2], promise)
        else:
            kind = operators.LIKELIHOODS[distance]
            last = operators.conv_transpose_and_compare(
                two, *ours[2], launch.by_blocks(image), kind, promise
            )
        leaves = [begin, *(leaf for weight, _, bias in ours for leaf in (weight, bias))]
        return [one, two, last, *torch.autograd.grad((last.float() * pull).sum(), leaves)]

    one, two, last, *gradients = found = through(False)
    assert_promises_change_no_bit(draw, through(True), found)
    start, *leaves = exactly(
        before, *(part for _, low_weight, bias in layers for part in (low_weight, bias))
    )
    hidden = start.relu()
    for number, value in enumerate((one, two)):
        exact = transposed(hidden, *leaves[2 * number : 2 * number + 2])
        draw.close(**{f"layer{number + 1}": (value, exact.relu())})
        hidden = as_handed_on(exact, value)
    out = transposed(hidden, *leaves[4:]).movedim(-1, 2)
    out = out if distance is None else DISTANCES[distance](out, image.double())
    expected = torch.autograd.grad((out * pull).sum(), [start, *leaves])
    draw.close(
        last=(last, out),
        **{f"gradient{k}": pair for k, pair in enumerate(zip(gradients, expected, strict=True))},
    )


@pytest.mark.gpu
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_results_repeat_bit_by_bit(precision):
    draw = Draw("cuda", precision)
    x, y = draw.normal(3, 64, 32, 32, 32), draw.normal(3, 64, 16, 16, 64)
    _, weight, bias = draw.layer(3, conv_weights("layer", 32, 64, 4))

    def everything() -> list[Tensor]:
        values = [
            launch.conv(x, weight, bias, relu=True),
            launch.conv_transpose(y, weight, (32, 32)),
        ]
        return [
            *values,
            *launch.weight_gradient(x, y, 4, bias_of_big=False),
            *launch.weight_gradient(x, y, 4, bias_of_big=True),
        ]

    first = everything()
    for _ in range(5):
        assert all(torch.equal(a, b) for a, b in zip(first, everything(), strict=True)), draw.seed


@ONCE
def test_layers_without_relu(device, precision):
    draw = Draw(device, precision)
    x = draw.normal(2, 3, 4, 4, 32)
    image = draw.images(2, 3, 3, 8, 8)
    down, up, first = (
        draw.layer(2, weights)
        for weights in (
            conv_weights("layer", 32, 16, 4),
            conv_transpose_weights("layer", 32, 16),
            conv_weights("layer", 3, 16, 4),
        )
    )
    pixels = image.to(precision).movedim(2, -1)
    for ours, plain, inputs, layer in (
        (operators.conv, convolved, x, down),
        (operators.conv_transpose, transposed, x, up),
        (operators.conv_image, convolved, pixels, first),
    ):
        weight, low_weight, bias = layer
        leaves = [tensor.detach().requires_grad_() for tensor in (weight, bias)]
        if ours is operators.conv_image:
            promises, given = (False,), launch.by_blocks(image)
        else:
            promises, given = (False, False), inputs.detach().requires_grad_()
            leaves.append(given)
        out = ours(given, leaves[0], low_weight, leaves[1], *promises, relu=False)
        pull = draw.normal(*out.shape)
        exact = exactly(low_weight, bias, inputs)
        expected = plain(exact[2], *exact[:2])
        assert (expected < 0).any()
        draw.close(value=(out, expected))
        found = torch.autograd.grad((out * pull).sum(), leaves)
        for one, other in zip(
            found,
            torch.autograd.grad((expected * pull.double()).sum(), exact[: len(leaves)]),
            strict=True,
        ):
            draw.close(gradient=(one, other))


@pytest.mark.parametrize("slope", [1.0, 0.0, 0.2])
@pytest.mark.parametrize(
    ("device", "precision", "members", "rows", "channels"),
    cases(
        [(2, 37, 16), (2, 700, 48), (1, 9, 16)],
        [(3, 64, 512), (3, 37 * 49, 64), (40, 64 * 1024, 32), (2, 8000, 128)],
        cut=False,
    ),
)
def test_batch_norm(device, precision, members, rows, channels, slope):
    draw = Draw(device, precision)
    x = draw.normal(members, rows, channels) * 2.0 + 3.0
    scale, shift = (draw.normal(members, channels).float() + 0.5 for _ in range(2))
    pull = draw.normal(members, rows, channels)
    running = draw.images(members, channels), draw.images(members, channels)
    leaves = [tensor.detach().requires_grad_() for tensor in (x, scale, shift)]
    exact = exactly(x, scale, shift)
    before = [tensor.double() for tensor in running]
    out = operators.batch_norm(*leaves, running, slope, 0.1, 1e-5)
    found = torch.autograd.grad((out * pull).sum(), leaves)
    values = torch.stack(
        [
            F.batch_norm(part, *old, *affine, training=True, momentum=0.1, eps=1e-5)
            for part, affine, old in zip(
                exact[0],
                zip(*exact[1:], strict=True),
                zip(*before, strict=True),
                strict=True,
            )
        ]
    )
    # Where rounding moves a number over zero, both sides keep ours.
    expected = torch.where(out > 0, values, values * slope)
    wanted = torch.autograd.grad((expected * pull.double()).sum(), exact)
    draw.close(
        value=(out, expected),
        mean=(running[0], before[0]),
        var=(running[1], before[1]),
        to_x=(found[0], wanted[0]),
        to_scale=(found[1], wanted[1]),
        to_shift=(found[2], wanted[2]),
    )


@INTERPRETED
def test_a_second_derivative_is_refused_and_not_dropped():
    x, weight, bias = (
        torch.rand(1, 1, 4, 4, 16, requires_grad=True),
        torch.rand(1, 16, 4, 4, 16),
        torch.rand(1, 16),
    )
    out = operators.conv(x, weight, weight, bias, False, False)
    with pytest.raises(
        UnbraidError,
        match=r"^the kernels have no second derivatives; train an objective that needs them",
    ):
        torch.autograd.grad(out.sum(), x, create_graph=True)


@INTERPRETED
def test_a_weight_that_lies_otherwise_is_packed_first():
    x, weight = torch.rand(2, 1, 4, 4, 16), torch.rand(2, 16, 16, 4, 4).permute(0, 1, 3, 4, 2)
    assert not weight[0].is_contiguous()
    assert torch.equal(launch.conv(x, weight), launch.conv(x, weight.contiguous()))
    small = torch.rand(2, 1, 2, 2, 16)
    assert torch.equal(
        launch.conv_transpose(small, weight, (4, 4)),
        launch.conv_transpose(small, weight.contiguous(), (4, 4)),
    )
