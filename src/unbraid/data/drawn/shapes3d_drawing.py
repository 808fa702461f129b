# SPDX-License-Identifier: Apache-2.0
"""Drawing 3D Shapes (Burgess and Kim 2018): rays through the scene, as maps that add up.

The scene is in `shapes3d_scene`.

The published images look like large ones, cut at 255, that a Lanczos filter made 64x64; the same is
done here. Geometry and light depend on scale, shape and orientation alone, 480 views in all. A view
is a stack of 64x64 maps, each the share of one surface (sky, wall, floor, object) at one colour
level, so that an image is the sum of one map of each surface for each channel. Ten fully saturated
hues put every channel at one of six levels, 0, 0.2, ... 1, and a map for each level keeps the cut
at 255 exact.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unbraid.data.drawn.shapes3d_scene import (
    ORIENTATIONS,
    SCALES,
    SCENE,
    SHAPES,
    Array,
    Camera,
    Points,
    Scene,
    body_light,
    lamp_light,
    place_camera,
    steady_light,
    strike,
)

SIDE = 64
HUES = 10
VIEWS = SCALES * SHAPES * ORIENTATIONS
LEVELS = 6
"""A channel of a saturated hue in tenths of the circle is 0, 1/5, ... or 1; level k stands for k/5.
"""
SKY_MAP, WALL_MAP, FLOOR_MAP, OBJECT_MAP = 0, 3, 3 + LEVELS - 1, 3 + 2 * (LEVELS - 1)
MAPS = OBJECT_MAP + LEVELS
"""Sky in R, G, B; wall and floor at levels 1..5; the object at levels 0..5, as a highlight shows on
a channel that is 0.
"""
STEPS = 64
"""Maps are whole numbers of 1/64 grey level, so that a sum of four is far below half a grey level
off.
"""
SKY = (153, 226, 249)
"""The same in every published image."""

_FINE = 4 * SIDE
"""Rays per side; 4 to a pixel, and each row and column of a pixel's 16 rays is set off by a quarter
of a ray from the next.
"""
_LOBES = 3
"""Of the Lanczos filter: pixels beside the wall's straight upper edge swing twice on each side."""


class _Room(NamedTuple):
    """The room without object at every ray of one orientation."""

    camera: Camera
    rays: Points
    sky: NDArray[np.bool_]
    floor: NDArray[np.bool_]
    points: Points
    shade: Array
    """Of wall or floor, lamp included."""
    unlit: Array
    """The same in the shadow of the object."""
    maps: NDArray[np.floating[Any]]


@functools.cache
def _offsets() -> tuple[Array, Array]:
    """Right and up coordinates of the rays in the image, -1..1, `(_FINE, _FINE)` each."""
    per_pixel = _FINE // SIDE
    place = np.arange(_FINE)
    sheared = (place % per_pixel + 0.5) / per_pixel - 0.5
    # Without the shear an upright edge would fall between two columns of rays all along, a whole
    # quarter of a pixel off or not.
    right = (place[None, :] + 0.5 + sheared[:, None]) * (2 / _FINE) - 1
    down = (place[:, None] + 0.5 + sheared[None, :]) * (2 / _FINE) - 1
    return right, -down


@functools.cache
def _filter() -> NDArray[np.float32]:
    """Lanczos weights `(SIDE, _FINE)` of the reduction to 64 pixels, as PIL has them."""
    scale = _FINE / SIDE
    distance = (np.arange(_FINE) + 0.5 - (np.arange(SIDE)[:, None] + 0.5) * scale) / scale
    weights = np.where(
        np.abs(distance) < _LOBES, np.sinc(distance) * np.sinc(distance / _LOBES), 0.0
    )
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


def _draw_room(scene: Scene, orientation: int) -> _Room:
    camera = place_camera(scene, orientation)
    right, up = _offsets()
    right = (right - scene.shift) / scene.focal
    up = up / scene.focal
    rays = Points(
        *(camera.right[k] * right + camera.up[k] * up + camera.forward[k] for k in range(3))
    )
    # A ray that runs along a wall meets it nowhere; infinity then loses against the other wall.
    with np.errstate(divide="ignore"):
        to_x = (np.copysign(scene.wall_distance, rays.x) - camera.x) / rays.x
        to_y = (np.copysign(scene.wall_distance, rays.y) - camera.y) / rays.y
        to_floor = np.where(rays.z < 0, -camera.z / rays.z, np.inf)
    to_wall = np.minimum(to_x, to_y)
    floor = to_floor < to_wall
    sky = ~floor & (camera.z + to_wall * rays.z > scene.wall_height)
    way = np.where(floor, to_floor, to_wall)
    points = Points(camera.x + way * rays.x, camera.y + way * rays.y, camera.z + way * rays.z)
    wall_x, wall_y = ~floor & (to_x < to_y), ~floor & (to_x >= to_y)
    normals = Points(-np.sign(rays.x) * wall_x, -np.sign(rays.y) * wall_y, floor.astype(np.float64))
    unlit = steady_light(scene, camera, normals)
    shade = unlit + lamp_light(scene, points, normals)[0]
    maps = np.zeros((MAPS, _FINE, _FINE), dtype=np.float32)
    maps[SKY_MAP:WALL_MAP] = sky
    maps[WALL_MAP:FLOOR_MAP] = _levels(np.where(sky | floor, 0.0, shade))
    maps[FLOOR_MAP:OBJECT_MAP] = _levels(np.where(floor, shade, 0.0))
    return _Room(
        camera, rays, sky, floor, points, shade, unlit, _reduce(maps, slice(None), slice(None))
    )


def _levels(shade: Array) -> NDArray[np.floating[Any]]:
    """*shade* at levels 1..5, cut at full brightness: `(LEVELS - 1, *shade.shape)`."""
    level = (np.arange(1, LEVELS, dtype=np.float32) / (LEVELS - 1))[:, None, None]
    return np.minimum(level * shade.astype(np.float32), np.float32(1.0))


def _reduce(maps: NDArray[np.float32], rows: slice, columns: slice) -> NDArray[np.floating[Any]]:
    """64x64 versions of *maps* `(n, ...)` that are 0 outside *rows* and *columns* of the rays."""
    weights = _filter()
    return weights[:, rows] @ (maps @ weights[:, columns].T)


def _window(scene: Scene, camera: Camera, radius: float, height: float) -> tuple[slice, slice]:
    """Rows and columns of rays that can meet the object or its shadow."""
    corners = np.array(
        [[x, y, z] for x in (-radius, radius) for y in (-radius, radius) for z in (0.0, height)]
    )
    lamp = np.array([scene.lamp_x, scene.lamp_y, scene.lamp_z])
    shadow = lamp + (corners - lamp) * (scene.lamp_z / (scene.lamp_z - corners[:, 2:]))
    seen = np.concatenate([corners, shadow]) - (camera.x, camera.y, camera.z)
    depth = np.maximum(seen @ np.array(camera.forward), 1e-3)
    right = seen @ np.array(camera.right) / depth * scene.focal + scene.shift
    down = -(seen @ np.array(camera.up)) / depth * scene.focal

    def reach(values: Array) -> slice:
        places = (values + 1) * (_FINE / 2)
        return slice(
            int(np.clip(places.min() - 2, 0, _FINE)), int(np.clip(places.max() + 2, 0, _FINE))
        )

    return reach(down), reach(right)


def _draw_view(scene: Scene, room: _Room, scale: int, shape: int) -> NDArray[np.int16]:
    """Maps `(MAPS, 64, 64)` of one view: the room's, changed where object or shadow is."""
    radius, height = scene.size(shape, scale)
    camera = room.camera
    window = _window(scene, camera, radius, height)
    rays = Points(*(axis[window] for axis in room.rays))
    start = Points(*(np.array(value) for value in camera[:3]))
    way = strike(shape, radius, height, start, rays)
    covered = np.isfinite(way)
    floor, sky = room.floor[window], room.sky[window]

    bare = floor & ~covered
    ground = Points(*(axis[window][bare] for axis in room.points))
    to_lamp = Points(scene.lamp_x - ground.x, scene.lamp_y - ground.y, scene.lamp_z - ground.z)
    shadowed = np.zeros_like(bare)
    shadowed[bare] = np.isfinite(strike(shape, radius, height, ground, to_lamp))

    hit, ray = way[covered], Points(*(axis[covered] for axis in rays))
    at = Points(camera.x + hit * ray.x, camera.y + hit * ray.y, camera.z + hit * ray.z)
    shade, highlight = (np.zeros(covered.shape), np.zeros(covered.shape))
    shade[covered], highlight[covered] = body_light(scene, camera, shape, radius, height, at)

    before, dark = room.shade[window], room.unlit[window]
    change = np.empty((MAPS, *covered.shape), dtype=np.float32)
    change[SKY_MAP:WALL_MAP] = -(sky & covered).astype(np.float32)
    change[WALL_MAP:FLOOR_MAP] = -_levels(np.where(covered & ~sky & ~floor, before, 0.0))
    gone = floor & (covered | shadowed)
    change[FLOOR_MAP:OBJECT_MAP] = _levels(np.where(shadowed, dark, 0.0)) - _levels(
        np.where(gone, before, 0.0)
    )
    level = (np.arange(LEVELS, dtype=np.float32) / (LEVELS - 1))[:, None, None]
    change[OBJECT_MAP:] = np.minimum(
        level * shade.astype(np.float32) + highlight.astype(np.float32), np.float32(1.0)
    )

    maps = room.maps + _reduce(change, *window)
    maps[SKY_MAP:WALL_MAP] *= (np.array(SKY, dtype=np.float32) / 255)[:, None, None]
    return np.rint(maps * (255 * STEPS)).astype(np.int16)


def draw_views(views: NDArray[np.int64], scene: Scene = SCENE) -> NDArray[np.int16]:
    """Maps of flat *views*, flattened: row `MAPS * n + k` is map k of the nth view.

    A view is scale, shape, orientation, the last fastest.

    In 1/64 grey levels. One more row at the end is 0 all over, for the surfaces that add nothing to
    a channel.
    """
    rows = np.zeros((len(views) * MAPS + 1, SIDE * SIDE), dtype=np.int16)
    for place, room, scale, shape in _rooms(views, scene):
        rows[place * MAPS : (place + 1) * MAPS] = _draw_view(scene, room, scale, shape).reshape(
            MAPS, -1
        )
    return rows


def draw_labels(views: NDArray[np.int64], scene: Scene = SCENE) -> NDArray[np.uint8]:
    """Surface that most of a pixel's rays meet in flat *views*, `(n, 64, 64)`.

    0 sky, 1 wall, 2 floor (shadow or not), 3 object.
    """
    labels = np.empty((len(views), SIDE, SIDE), dtype=np.uint8)
    per_pixel = _FINE // SIDE
    for place, room, scale, shape in _rooms(views, scene):
        fine = np.where(room.floor, np.uint8(2), np.where(room.sky, np.uint8(0), np.uint8(1)))
        start = Points(*(np.array(value) for value in room.camera[:3]))
        fine[np.isfinite(strike(shape, *scene.size(shape, scale), start, room.rays))] = 3
        blocks = fine.reshape(SIDE, per_pixel, SIDE, per_pixel)
        labels[place] = np.argmax(
            [(blocks == label).sum(axis=(1, 3)) for label in range(4)], axis=0
        )
    return labels


def _rooms(views: NDArray[np.int64], scene: Scene) -> Iterator[tuple[int, _Room, int, int]]:
    """Place, room, scale and shape of each of *views*, grouped so that a room is drawn once."""
    orientations = views % ORIENTATIONS
    for orientation in np.unique(orientations):
        room = _draw_room(scene, int(orientation))
        for place in np.flatnonzero(orientations == orientation):
            yield int(place), room, *divmod(int(views[place]) // ORIENTATIONS, SHAPES)


def hue_levels() -> NDArray[np.int64]:
    """Level 0..5 of R, G, B of each hue `(HUES, 3)`: the colour circle, red first."""
    circle = 6 * np.arange(HUES)[:, None] - HUES * np.array([0, 2, 4])
    from_peak = np.abs((circle + 3 * HUES) % (6 * HUES) - 3 * HUES)
    return np.clip(2 * HUES - from_peak, 0, HUES) * (LEVELS - 1) // HUES


def map_choice() -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Which map of a view gives R, G, B of each floor, wall and object hue.

    `(HUES, 3)` each; -1 where none is needed.
    """
    levels = hue_levels()
    floor = np.where(levels > 0, FLOOR_MAP - 1 + levels, -1)
    wall = np.where(levels > 0, WALL_MAP - 1 + levels, -1)
    return floor, wall, OBJECT_MAP + levels
