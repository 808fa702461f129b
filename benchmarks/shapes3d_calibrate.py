# SPDX-License-Identifier: Apache-2.0
"""Fit the numbers of `shapes3d_scene.Scene` to 16 published images of 3D Shapes; the others stay
unseen.

    python benchmarks/shapes3d_calibrate.py SHARED/data/shapes3d

Starts from the numbers in the code. Least squares on pixels, coarse (images smoothed, long steps)
to fine, then one number at a time, since rays that jump over an edge make derivatives noisy. Prints
the error on both kinds of images and the new numbers.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from scipy.optimize import least_squares
from shapes3d_error import FIRST_ROW, Real, read

from unbraid.data.drawn import shapes3d_drawing as drawing
from unbraid.data.drawn import shapes3d_scene as scenes

NAMES = [field.name for field in fields(scenes.Scene)]
OUTLIER = 30.0
"""Grey levels from which an error counts linearly: texture and single edge pixels must not steer
the fit.
"""


def draw(scene: scenes.Scene, factors: NDArray[np.int64]) -> NDArray[np.float32]:
    """Images of *factors*, not rounded, 0..255."""
    views = (factors[:, 3] * scenes.SHAPES + factors[:, 4]) * scenes.ORIENTATIONS + factors[:, 5]
    rows = drawing.draw_views(views, scene).astype(np.float32) / drawing.STEPS
    first = np.arange(len(views)) * drawing.MAPS
    channels = []
    for channel in range(3):
        total = rows[first + channel]
        for choice, hue in zip(drawing.map_choice(), factors.T[:3], strict=True):
            chosen = choice[hue, channel]
            total = total + rows[np.where(chosen < 0, len(rows) - 1, first + chosen)]
        channels.append(total.reshape(-1, drawing.SIDE, drawing.SIDE))
    return np.clip(np.stack(channels, axis=-1), 0, 255)


def error(scene: scenes.Scene, images: NDArray[np.uint8], factors: NDArray[np.int64]) -> float:
    return float(np.abs(np.rint(draw(scene, factors)) - images)[:, FIRST_ROW:].mean())


def descend(scene: scenes.Scene, real: Real, smoothing: float, step: float) -> scenes.Scene:
    """Least squares over all numbers."""
    start = np.array([getattr(scene, name) for name in NAMES])
    unit = np.maximum(np.abs(start), 0.1)

    def residuals(values: NDArray[np.float64]) -> NDArray[np.floating[Any]]:
        tried = replace(scene, **dict(zip(NAMES, (values * unit).tolist(), strict=True)))
        difference = (draw(tried, real.factors) - real.images) / OUTLIER
        return gaussian_filter(difference, (0, smoothing, smoothing, 0))[:, FIRST_ROW:].ravel()

    found = least_squares(residuals, start / unit, diff_step=step, max_nfev=8, loss="soft_l1")
    return replace(scene, **dict(zip(NAMES, (found.x * unit).tolist(), strict=True)))


def polish(scene: scenes.Scene, real: Real, step: float) -> scenes.Scene:
    """One number at a time, up or down by *step* of itself as long as the robust error falls."""

    def cost(tried: scenes.Scene) -> float:
        square = ((draw(tried, real.factors) - real.images)[:, FIRST_ROW:] / OUTLIER) ** 2
        return float(np.sqrt(1 + square).mean())

    best = cost(scene)
    for name in NAMES:
        for sign in (1, -1):
            while True:
                value = getattr(scene, name)
                tried = replace(scene, **{name: value + sign * step * max(abs(value), 0.1)})
                reached = cost(tried)
                if reached >= best:
                    break
                scene, best = tried, reached
    return scene


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder with the published images")
    everything = read(parser.parse_args().folder)
    seen = Real(
        [],
        everything.images[everything.calibrated],
        everything.factors[everything.calibrated],
        np.ones(0, dtype=bool),
    )
    unseen = everything.images[~everything.calibrated], everything.factors[~everything.calibrated]
    scene = scenes.SCENE

    def report(word: str) -> None:
        told = error(scene, seen.images, seen.factors), error(scene, *unseen)
        print(
            f"{word:12} error on calibration images {told[0]:.3f}, on held-out images"
            f" {told[1]:.3f}",
            flush=True,
        )

    report("start")
    for smoothing, step in ((2.0, 1e-2), (1.0, 1e-2), (1.0, 4e-3), (0.5, 4e-3)):
        scene = descend(scene, seen, smoothing, step)
        report(f"smoothed {smoothing}")
    for step in (4e-3, 1e-3, 1e-3):
        scene = polish(scene, seen, step)
        report(f"step {step}")
    print("\n".join(f"    {name}: float = {value:.5g}" for name, value in asdict(scene).items()))


if __name__ == "__main__":
    main()
