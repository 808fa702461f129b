# SPDX-License-Identifier: Apache-2.0
"""Pinwheel (Mathieu et al. 2019): points in spiral arms, to see what an aggregate posterior does.

Each point is (1 + tangential_std n1, radial_std n2) with standard normal n1, n2, turned by its
arm's angle plus rate exp(first coordinate). The names of the two deviations follow the authors'
code, where `tangential_std` scales the first coordinate. Departs: numpy's generator; another `seed`
gives the separate test set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.checks import real, whole
from unbraid.core.errors import Problems, Shown, invalid
from unbraid.core.grid import FactorGrid
from unbraid.core.registry import Citation
from unbraid.data.dataset import Dataset

if TYPE_CHECKING:
    import torch

    from unbraid.data.dataset import Sampler

IMAGE_SIDE = 64
IMAGE_REACH = 2.5
"""Images show the plane from -2.5 to 2.5 on both axes, y upward."""
_DOT_STD_PIXELS = 1.0


class Pinwheel(Dataset):
    """Pinwheel: points of the plane in spiral arms, 1 factor, to try clustered priors on."""

    citation: ClassVar = Citation(
        "E. Mathieu, T. Rainforth, N. Siddharth, Y. W. Teh",
        2019,
        "Disentangling disentanglement in variational autoencoders",
        "ICML",
    )
    licence: ClassVar[str] = "none needed: drawn from its published description"
    bounded: bool = False

    def __init__(
        self,
        seed: int = 0,
        arms: int = 4,
        points: int = 100,
        radial_std: float = 0.1,
        tangential_std: float = 0.3,
        rate: float = 0.25,
    ) -> None:
        problems = Problems()
        self.options = {
            "seed": whole(problems, "seed", seed, 0),
            "arms": whole(problems, "arms", arms, 2, 1000),
            "points": whole(problems, "points", points, 1, 100_000),
            "radial_std": real(problems, "radial_std", radial_std, 0.0, 2.0),
            "tangential_std": real(problems, "tangential_std", tangential_std, 0.0, 2.0),
            "rate": real(problems, "rate", rate, -10.0, 10.0),
        }
        problems.raise_if_any()
        self.name = "pinwheel"
        self.grid = FactorGrid(("arm", "point"), (self.options["arms"], self.options["points"]))
        self.image_shape = (IMAGE_SIDE, IMAGE_SIDE, 1)
        self._points = _spiral(**self.options)

    @property
    def factor_names(self) -> tuple[str, ...]:
        """Only the arm says something about a point; the number within the arm does not."""
        return ("arm",)

    @property
    def factor_sizes(self) -> tuple[int, ...]:
        """The number of arms."""
        return self.grid.sizes[:1]

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """A sample is a point, not an image."""
        return (2,)

    def factors(self, indices: ArrayLike) -> NDArray[np.int64]:
        """The arm of each of *indices*: int64 `(n, 1)`."""
        return self.grid.to_factors(indices)[..., :1]

    def points(self, indices: ArrayLike) -> NDArray[np.float32]:
        """Coordinates of *indices*: float32 `(n, 2)`."""
        return self._points[self.grid.check_index(indices)]

    @property
    def device_bytes(self) -> int:
        """Two numbers a point."""
        return self._points.nbytes

    def images(self, indices: ArrayLike) -> NDArray[np.uint8]:
        """Each of *indices* as a soft dot on the plane from -2.5 to 2.5."""
        return self.as_images(self.points(indices))

    def as_images(self, samples: ArrayLike) -> NDArray[np.uint8]:
        """Each point of *samples* `(..., 2)` as a soft dot; blank where it lies far outside."""
        places = np.asarray(samples, dtype=np.float64)
        if places.shape[-1:] != (2,):
            raise invalid("samples", "must be points (..., 2)", Shown(f"shape {places.shape}"))
        step = 2 * IMAGE_REACH / IMAGE_SIDE
        centres = (np.arange(IMAGE_SIDE) + 0.5) * step - IMAGE_REACH
        # A point that is not finite, or farther than an image's width away, leaves no ink: it is
        # moved to a far finite place.
        far = 4 * IMAGE_REACH
        places = np.clip(np.nan_to_num(places, nan=far, posinf=far, neginf=-far), -far, far)
        ink_x = np.exp(-0.5 * ((centres - places[..., :1]) / (step * _DOT_STD_PIXELS)) ** 2)
        ink_y = np.exp(-0.5 * ((-centres - places[..., 1:]) / (step * _DOT_STD_PIXELS)) ** 2)
        ink = ink_y[..., :, None] * ink_x[..., None, :]
        return np.rint(255.0 * ink).astype(np.uint8)[..., None]

    def sampler(self, device: torch.device | str) -> Sampler:
        """The points on *device*; returns `indices (...) -> float32 (..., 2)`."""
        import torch

        stored = torch.from_numpy(self._points).to(device)

        def draw(indices: torch.Tensor) -> torch.Tensor:
            return stored[indices]

        return draw


def _spiral(
    seed: int, arms: int, points: int, radial_std: float, tangential_std: float, rate: float
) -> NDArray[np.float32]:
    """All points, arm after arm: float32 `(arms * points, 2)`."""
    noise = np.random.default_rng(seed).standard_normal((arms, points, 2))
    first = 1.0 + tangential_std * noise[..., 0]
    second = radial_std * noise[..., 1]
    angle = (2 * np.pi / arms) * np.arange(arms)[:, None] + rate * np.exp(first)
    cosine, sine = np.cos(angle), np.sin(angle)
    turned = np.stack([cosine * first + sine * second, cosine * second - sine * first], axis=-1)
    return turned.reshape(-1, 2).astype(np.float32)
