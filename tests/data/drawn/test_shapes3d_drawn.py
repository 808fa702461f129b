# SPDX-License-Identifier: Apache-2.0
"""Drawn 3D Shapes: index order and hues in closed form, projections by hand, published images,
invariants, the whole set.
"""

from __future__ import annotations

import colorsys
import importlib.util
import math
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.ndimage import binary_dilation

from unbraid.core.errors import InputError
from unbraid.data.drawn import shapes3d_drawing as drawing
from unbraid.data.drawn.shapes3d_drawn import Shapes3DDrawn
from unbraid.data.drawn.shapes3d_scene import CAPSULE, CUBE, CYLINDER, SCENE, SPHERE

SIZES = (10, 10, 10, 8, 4, 15)
FRONT = 7
"""The orientation that looks straight at a wall."""


@pytest.fixture(scope="module")
def dataset():
    return Shapes3DDrawn()


@pytest.fixture(scope="module")
def benchmark():
    file = Path(__file__).resolve().parents[3] / "benchmarks" / "shapes3d_error.py"
    spec = importlib.util.spec_from_file_location("shapes3d_error", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def view(scale, shape, orientation):
    return np.array([(scale * 4 + shape) * 15 + orientation])


def test_index_order_is_the_published_one(dataset):
    assert dataset.grid.names == (
        "floor_hue",
        "wall_hue",
        "object_hue",
        "scale",
        "shape",
        "orientation",
    )
    assert (len(dataset), dataset.grid.sizes, dataset.image_shape) == (480_000, SIZES, (64, 64, 3))
    every = np.arange(480_000)
    assert np.array_equal(dataset.factors(every), np.stack(np.unravel_index(every, SIZES), axis=1))
    # Index and factors of a published image.
    assert dataset.factors([118308]).tolist() == [[2, 4, 6, 3, 3, 3]]


def test_hues_are_tenths_of_the_colour_circle():
    circle = [colorsys.hsv_to_rgb(hue / 10, 1.0, 1.0) for hue in range(10)]
    assert drawing.hue_levels() / 5 == pytest.approx(np.array(circle), abs=1e-12)


def test_images_are_the_maps_of_their_factors_added_up(dataset):
    some = np.random.default_rng(0).integers(0, 480_000, 60)
    maps = dataset.map_rows()[:-1].reshape(480, drawing.MAPS, 64, 64).astype(int)
    levels = drawing.hue_levels()
    for index, image in zip(some, dataset.images(some), strict=True):
        floor, wall, thing, *rest = np.unravel_index(index, SIZES)
        of_view = maps[np.ravel_multi_index(rest, SIZES[3:])]
        for channel in range(3):
            total = of_view[channel] + of_view[13 + levels[thing, channel]]
            for first, hue in ((3, wall), (8, floor)):
                if levels[hue, channel]:
                    total = total + of_view[first + levels[hue, channel] - 1]
            assert np.array_equal(image[..., channel], np.clip((total + 32) // 64, 0, 255))


def test_front_wall_cube_and_sphere_are_where_projection_puts_them():
    def row(height, distance):
        return 32 - 32 * SCENE.focal * math.tan(
            math.atan((height - SCENE.camera_height) / distance) + SCENE.pitch
        )

    for scale in range(8):
        labels = drawing.draw_labels(view(scale, CUBE, FRONT))[0]
        top, bottom = (
            row(SCENE.wall_height, 1 + SCENE.wall_distance),
            row(0.0, 1 + SCENE.wall_distance),
        )
        assert (labels[:, 2] == 0).sum() == pytest.approx(top, abs=0.51)
        assert 64 - (labels[:, 2] == 2).sum() == pytest.approx(bottom, abs=0.51)
        half, height = SCENE.size(CUBE, scale)
        foot = row(0.0, 1 - half)
        assert (labels == 3).any(axis=0).sum() == pytest.approx(
            64 * SCENE.focal * half / (1 - half), abs=1.01
        )
        assert np.flatnonzero((labels == 3).any(axis=1))[-1] + 1 == pytest.approx(foot, abs=0.51)
        assert height == 2 * half

        sphere = drawing.draw_labels(view(scale, SPHERE, FRONT))[0] == 3
        radius, _ = SCENE.size(SPHERE, scale)
        distance = math.hypot(1.0, SCENE.camera_height - radius)
        # A sphere's outline is a cone around the line to its centre, cut by the image: an ellipse,
        # wider than high.
        tangent = radius / math.sqrt(distance**2 - radius**2)
        assert sphere.sum() == pytest.approx(math.pi * (32 * SCENE.focal * tangent) ** 2, rel=0.06)
        assert sphere.any(axis=0).sum() == pytest.approx(64 * SCENE.focal * tangent, abs=1.01)


def test_objects_grow_with_scale_and_turning_leaves_round_ones_alone():
    every = drawing.draw_labels(np.arange(480)).reshape(8, 4, 15, 64, 64)
    area = (every == 3).sum(axis=(-1, -2))
    assert (np.diff(area, axis=0) > 0).all()
    # The square of 1.25 / 0.75, more or less as parts come nearer or, above the camera, move away.
    assert area[7] / area[0] == pytest.approx(np.full((4, 15), (1.25 / 0.75) ** 2), rel=0.2)
    for shape in (CYLINDER, SPHERE, CAPSULE):
        assert ((every[:, shape] == 3) == (every[:, shape, :1] == 3)).mean() > 0.9999


def test_camera_left_and_right_are_mirror_images():
    symmetric = replace(SCENE, shift=0.0, lamp_x=0.0)
    for shape in range(4):
        for orientation in range(7):
            left, right = (
                drawing.draw_labels(view(4, shape, k), symmetric)[0]
                for k in (orientation, 14 - orientation)
            )
            # Rays are set off by fractions of a pixel, which mirroring reverses.
            assert (left == right[:, ::-1]).mean() > 0.997
            maps = (
                drawing.draw_views(view(4, shape, k), symmetric).reshape(-1, 64, 64)
                for k in (orientation, 14 - orientation)
            )
            assert np.abs(next(maps) - next(maps)[..., ::-1]).mean() / drawing.STEPS < 0.4


def test_light_at_the_front_of_the_cube_and_in_the_shadow(dataset):
    # White by turns: the maps at the highest level, object then floor.
    every = dataset.map_rows()[:-1].reshape(480, drawing.MAPS, 64, 64)
    maps = every[view(4, CUBE, FRONT)[0]] / (255 * drawing.STEPS)
    facing = math.cos(SCENE.pitch)
    # The lamp hangs behind the front of the cube, so only ambient light and headlight reach it.
    assert maps[18, 44, 32] == pytest.approx(SCENE.ambient + SCENE.headlight * facing, abs=0.005)
    assert maps[13, 44, 32] == pytest.approx(0.0, abs=0.005)
    labels = drawing.draw_labels(view(7, SPHERE, FRONT))[0]
    floor = every[view(7, SPHERE, FRONT)[0], 12] / (255 * drawing.STEPS)
    dark = floor[~binary_dilation(labels != 2, iterations=2) & (floor < 0.5)]
    assert len(dark) > 40
    assert np.median(dark) == pytest.approx(SCENE.ambient, abs=0.005)


@pytest.mark.parametrize(("factor", "label"), [(0, 2), (1, 1), (2, 3)])
def test_a_hue_changes_its_own_surface_only(dataset, factor, label):
    rng = np.random.default_rng(factor)
    factors = rng.integers(0, SIZES, size=(20, 6))
    other = factors.copy()
    other[:, factor] = (factors[:, factor] + rng.integers(1, 10, 20)) % 10
    before, after = (
        dataset.images(dataset.grid.to_index(values)).astype(int) for values in (factors, other)
    )
    labels = drawing.draw_labels(dataset.grid.to_index(factors) % 480)
    changed = (before != after).any(axis=-1)
    for k in range(20):
        # The filter that reduced the images reaches three pixels beyond an edge.
        assert not changed[k][
            ~binary_dilation(labels[k] == label, np.ones((3, 3)), iterations=4)
        ].any()
        inside = ~binary_dilation(labels[k] != label, np.ones((3, 3)), iterations=2)
        assert changed[k][inside].mean() > 0.98


def test_samples_agree_with_images_for_indices_of_any_shape(dataset):
    indices = np.random.default_rng(1).integers(0, 480_000, (2, 3, 70))
    draw = dataset.sampler("cpu")
    samples = draw(torch.from_numpy(indices))
    images = dataset.images(indices)
    assert (samples.dtype, tuple(samples.shape)) == (torch.float32, (2, 3, 70, 3, 64, 64))
    assert images.shape == (2, 3, 70, 64, 64, 3)
    shown = dataset.as_images(samples.reshape(-1, 3, 64, 64).numpy()).astype(int)
    assert np.abs(shown - images.reshape(-1, 64, 64, 3)).max() <= 1
    assert torch.equal(draw(torch.tensor(indices[1, 2, 5])), samples[1, 2, 5])
    assert draw(torch.empty(0, dtype=torch.int64)).shape == (0, 3, 64, 64)
    assert dataset.images([]).shape == (0, 64, 64, 3)


def test_a_few_images_drawn_alone_are_those_of_the_whole_set(dataset):
    indices = np.random.default_rng(2).integers(0, 480_000, 40)
    dataset.map_rows()
    alone = Shapes3DDrawn()
    assert np.array_equal(alone.images(indices), dataset.images(indices))
    with pytest.raises(InputError, match="480000"):
        alone.images([480_000])


def test_every_view_is_different(dataset):
    images = dataset.images(123 * 480 + np.arange(480))
    assert len(np.unique(images.reshape(480, -1), axis=0)) == 480


def test_held_out_published_images(shared, benchmark, dataset):
    with np.load(shared / "data" / "shapes3d" / "shapes3d_real_samples.npz") as file:
        labelled, factors, unlabelled = file["images"], file["factors"], file["images_floor_hue4"]
    held = [k for k in range(len(labelled)) if k not in benchmark.CALIBRATED_LABELLED]
    also = [k for k in range(len(unlabelled)) if k not in benchmark.CALIBRATED_FLOOR_HUE_4]
    assert (len(held), len(also)) == (9, 8)
    images = np.concatenate([labelled[held], unlabelled[also]])
    factors = np.concatenate([factors[held], benchmark.infer(unlabelled[also])])
    assert (factors[9:, 0] == 4).all()
    indices = dataset.grid.to_index(factors)
    # Row 0 of these images was not published.
    error = np.abs(dataset.images(indices).astype(int) - images)[:, 1:].mean(axis=(1, 2))
    assert error.shape == (17, 3)
    assert error.max() < 2.5  # of 255; the bar is 4
    assert error.mean() < 1.4
    labels = drawing.draw_labels(indices % 480)
    distinct = [k for k in range(17) if len(set(factors[k, :3])) == 3]
    assert len(distinct) >= 14
    for k in distinct:
        assert (benchmark.colour_labels(images[k], factors[k, :3]) == labels[k])[1:].mean() > 0.99


def test_mean_and_spread_of_the_whole_set_are_the_published(benchmark, dataset):
    found = benchmark.full_set_statistics(dataset.map_rows())
    assert found.mean == pytest.approx(benchmark.PUBLISHED_MEAN, rel=0.005)
    assert found.spread == pytest.approx(benchmark.PUBLISHED_SPREAD, rel=0.005)
    # The same by drawing: every view with three colourings.
    some = np.arange(480) + 480 * np.random.default_rng(3).integers(0, 1000, (3, 480))
    values = dataset.images(some.reshape(-1)).reshape(-1, 4096, 3) / 255.0
    assert found.mean == pytest.approx(values.mean(axis=(0, 1)), rel=0.03)
    assert found.spread == pytest.approx(values.std(axis=1).mean(axis=0), rel=0.03)
    assert found.overall_spread == pytest.approx(values.std(axis=(0, 1)), rel=0.03)


def test_views_take_seconds_and_images_microseconds(dataset, pace):
    assert pace(lambda: drawing.draw_views(np.arange(0, 480, 8)), 20) < 20
    dataset.map_rows()
    indices = np.random.default_rng(4).integers(0, 480_000, 4000)
    # The whole set in 60 seconds on two cores is 250 microseconds of one core for each image: 1 s,
    # 5 units of 0.2 s.
    assert pace(lambda: dataset.images(indices), 5) < 5


@pytest.mark.gpu
def test_whole_set_on_a_gpu_in_seconds(dataset):
    draw, on_cpu = dataset.sampler("cuda"), dataset.sampler("cpu")
    indices = torch.arange(480_000, device="cuda")
    some = indices[::7919]
    assert (draw(some).cpu() - on_cpu(some.cpu())).abs().max() < 1e-6
    torch.cuda.synchronize()
    start = time.perf_counter()
    for batch in indices.split(20_000):
        draw(batch)
    torch.cuda.synchronize()
    assert time.perf_counter() - start < 5
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = draw(some)
    some.copy_(some.flip(0))
    graph.replay()
    assert torch.equal(captured, draw(some))
