# SPDX-License-Identifier: Apache-2.0
"""Sprites: a small drawn set for CPU work and tests. Our own; no paper.

The user chooses the factors and their sizes.

A bright shape on black. Edges are antialiased by the clipped signed distance to the outline, in
pixels. The factors, in this order on the grid, the last moving fastest; a factor with one value is
fixed and not on the grid:

    shape        ellipse, box, triangle
    hue          evenly around the colour circle, red first; white when fixed (needs 3 channels)
    shade        brightness, 0.4 to 1; 1 when fixed
    scale        half the shape's extent, `scale_min` to `scale_max` of the image's side; their mean
                 when fixed
    orientation  evenly over half a turn, end excluded; shapes are elongated when it varies, so all
                 angles look different
    x, y         the centre, evenly over `x_range`, `y_range` of the way the largest shape can move;
                 the middle when fixed

`x_range` and `y_range` differ by default: with equal ranges x and y matter equally to the loss and
a VAE may mix the two axes.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from unbraid.core.checks import real, whole
from unbraid.core.errors import Problems, Shown
from unbraid.core.grid import FactorGrid
from unbraid.core.registry import Citation
from unbraid.data.dataset import PixelDataset, as_planes

SHAPES = ("ellipse", "box", "triangle")
FACTORS = ("shape", "hue", "shade", "scale", "orientation", "x", "y")
MOST_IMAGES = 200_000
MOST_BYTES = 2**30
_ELONGATION = 1.6


class Sprites(PixelDataset):
    """Sprites: one bright antialiased shape with the factors and sizes you choose, for a CPU."""

    citation: ClassVar = Citation(
        "The Unbraid authors",
        2025,
        "Sprites: a small drawn set with chosen factors",
        "this package",
    )
    licence: ClassVar[str] = "Apache-2.0"
    factor_meanings: ClassVar[dict[str, str]] = {
        "shape": ", ".join(SHAPES),
        "hue": "around the colour circle, red first",
        "shade": "dark to bright",
        "scale": "small to large",
        "orientation": "over half a turn",
        "x": "left to right",
        "y": "top to bottom",
    }

    def __init__(
        self,
        image_size: int = 32,
        channels: int = 1,
        *,
        x: int = 16,
        y: int = 8,
        scale: int = 6,
        shape: int = 1,
        orientation: int = 1,
        shade: int = 1,
        hue: int = 1,
        x_range: float = 1.0,
        y_range: float = 0.6,
        scale_min: float = 0.1,
        scale_max: float = 0.2,
    ) -> None:
        problems = Problems()
        self.name = "sprites"
        self.options = {
            "image_size": whole(problems, "image_size", image_size, 16, 128),
            "channels": whole(problems, "channels", channels, 1, 3),
            "x": whole(problems, "x", x, 1, 128),
            "y": whole(problems, "y", y, 1, 128),
            "scale": whole(problems, "scale", scale, 1, 128),
            "shape": whole(
                problems, "shape", shape, 1, len(SHAPES), f"The shapes are {', '.join(SHAPES)}."
            ),
            "orientation": whole(problems, "orientation", orientation, 1, 360),
            "shade": whole(problems, "shade", shade, 1, 128),
            "hue": whole(problems, "hue", hue, 1, 128),
            "x_range": real(problems, "x_range", x_range, 0.0, 1.0),
            "y_range": real(problems, "y_range", y_range, 0.0, 1.0),
            "scale_min": real(problems, "scale_min", scale_min, 0.02, 0.3),
            "scale_max": real(problems, "scale_max", scale_max, 0.02, 0.3),
        }
        problems.raise_if_any()  # what one option is refused for says nothing of another
        _check_together(problems, self.options)
        problems.raise_if_any()
        moving = [factor for factor in FACTORS if self.options[factor] > 1]
        self.grid = FactorGrid(tuple(moving), tuple(self.options[factor] for factor in moving))
        side, channels = self.options["image_size"], self.options["channels"]
        self.image_shape = (side, side, channels)
        self.planes = as_planes(_draw(self.options))


def _check_together(problems: Problems, options: dict[str, int | float]) -> None:
    """Rules between options, and the limits on the whole set."""
    if options["channels"] == 2:
        problems.add("channels", "must be 1 or 3", 2)
    if options["hue"] > 1 and options["channels"] == 1:
        problems.add(
            "hue",
            "above 1 needs colour",
            Shown(f"hue={options['hue']} with channels=1"),
            "Set channels=3.",
        )
    if options["scale_min"] > options["scale_max"] or (
        options["scale"] > 1 and options["scale_min"] == options["scale_max"]
    ):
        value = Shown(f"scale_min={options['scale_min']} and scale_max={options['scale_max']}")
        problems.add("scale_min", "must be below scale_max", value)
    for axis in ("x", "y"):
        if options[axis] > 1 and options[f"{axis}_range"] == 0:
            problems.add(
                f"{axis}_range",
                f"must be above 0 when {axis} has {options[axis]} values",
                0.0,
                f"Set {axis}=1.",
            )
    count = math.prod(int(options[factor]) for factor in FACTORS)
    size = count * int(options["image_size"]) ** 2 * int(options["channels"])
    if count < 2:
        problems.add(
            "sprites",
            "needs at least one factor with 2 values",
            Shown("every factor at 1"),
            "Set x=16, for instance.",
        )
    if count > MOST_IMAGES or size > MOST_BYTES:
        rule = f"may hold at most {MOST_IMAGES} images and {MOST_BYTES // 2**20} MiB"
        value = Shown(f"{count} images, {size / 2**20:.0f} MiB")
        problems.add(
            "sprites", rule, value, "Give factors fewer values or use a smaller image_size."
        )


def _draw(options: dict[str, int | float]) -> NDArray[np.uint8]:
    """All images `(n, side, side, channels)` in grid order."""
    count = {factor: int(options[factor]) for factor in FACTORS}
    side = int(options["image_size"])
    half_extents = side * _spread(count["scale"], options["scale_min"], options["scale_max"])
    elongation = _ELONGATION if count["orientation"] > 1 else 1.0
    # The farthest any outline reaches from its centre: a box's corner, turned where shapes turn.
    corner = math.hypot(1.0, 1.0 / elongation) if count["orientation"] > 1 else 1.0
    # Antialiasing adds half a pixel, at corners 0.71; the pixels of the rim, half a pixel further
    # in, stay black.
    play = side / 2 - 1.25 - half_extents.max() * corner
    centre_x = side / 2 + play * options["x_range"] * _spread(count["x"], -1.0, 1.0)
    centre_y = side / 2 + play * options["y_range"] * _spread(count["y"], -1.0, 1.0)
    pixel = np.arange(side) + 0.5
    x = (pixel - centre_x[:, None])[:, None, None, :]
    y = (pixel - centre_y[:, None])[None, :, :, None]
    colours = _colours(count["hue"], count["shade"], int(options["channels"]))

    images = np.empty(
        (*(count[factor] for factor in FACTORS), side, side, int(options["channels"])),
        dtype=np.uint8,
    )
    for shape in range(count["shape"]):
        for scale, half_extent in enumerate(half_extents):
            for orientation in range(count["orientation"]):
                angle = math.pi * orientation / count["orientation"]
                along = math.cos(angle) * x + math.sin(angle) * y
                across = math.cos(angle) * y - math.sin(angle) * x
                distance = _signed_distance(
                    shape, along, across, half_extent, half_extent / elongation
                )
                coverage = np.clip(0.5 - distance, 0.0, 1.0)
                for hue, shade in np.ndindex(count["hue"], count["shade"]):
                    target = images[shape, hue, shade, scale, orientation]
                    target[...] = np.rint(coverage[..., None] * colours[hue, shade])
    return images.reshape(-1, *images.shape[-3:])


def _spread(count: int, low: float, high: float) -> NDArray[np.float64]:
    """*count* values from *low* to *high*; the middle when there is one."""
    return np.linspace(low, high, count) if count > 1 else np.array([(low + high) / 2])


def _colours(hues: int, shades: int, channels: int) -> NDArray[np.float64]:
    """Brightness 0..255 of the shape: `(hues, shades, channels)`."""
    shade = np.linspace(0.4, 1.0, shades) if shades > 1 else np.ones(1)
    if hues == 1:
        return 255.0 * np.broadcast_to(shade[None, :, None], (1, shades, channels))
    # Full saturation: each channel is a trapezium over the colour circle, a third of it apart.
    circle = 6.0 * np.arange(hues)[:, None] / hues - np.array([0.0, 2.0, 4.0])
    from_peak = np.abs((circle + 3.0) % 6.0 - 3.0)
    return 255.0 * np.clip(2.0 - from_peak, 0.0, 1.0)[:, None, :] * shade[None, :, None]


def _signed_distance(
    shape: int, along: NDArray[np.float64], across: NDArray[np.float64], long: float, short: float
) -> NDArray[np.float64]:
    """Distance in pixels to the outline, below 0 inside; first-order for the ellipse."""
    if shape == 0:
        radius = np.hypot(along / long, across / short)
        slope = np.hypot(along / long**2, across / short**2)
        return (radius - 1.0) * np.divide(
            radius, slope, out=np.full_like(radius, short), where=slope > 0
        )
    box = np.maximum(np.abs(along) - long, np.abs(across) - short)
    if shape == 1:
        return box
    # Tip at (long, 0), base at -long of half-width short; the box keeps the antialiasing from
    # growing a spike at the tip.
    slant = math.hypot(short, 2 * long)
    sides = (short * (along - long) + 2 * long * np.abs(across)) / slant
    return np.maximum(sides, box)
