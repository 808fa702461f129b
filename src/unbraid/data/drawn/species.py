# SPDX-License-Identifier: Apache-2.0
"""Species: drawn blossoms of a few species, to try priors on whose latents are not independent. Our
own; no paper.

A world of kinds, not of independent factors. A genus has its number of petals; a species of it has
its own size, depth of petals, eye and shade; an individual departs from its species by growth,
which moves size, depth and eye together, at rates of the species, by light, by a turn and by a
little of its own. So traits form a tree of clusters, thin and bent along growth: no trait is
independent of another, and to ask for independent latents is to ask for what is not there.

Traits of a species lie on a low-discrepancy sequence (the fractional parts of multiples of powers
of the plastic numbers), so that any number of species are well apart; `spread` scales how far
individuals depart. Known factors are `genus` and `species`, the second numbered through all genera.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.checks import real, whole
from unbraid.core.errors import Problems, Shown
from unbraid.core.grid import FactorGrid
from unbraid.core.registry import Citation
from unbraid.data.dataset import PixelDataset

MOST_BYTES = 2**30
FEWEST_PETALS = 3
_PLASTIC = 1.1673039782614187
"""The root of x^5 = x + 1, whose powers spread points evenly in four dimensions (Roberts 2018)."""
_IMAGES_AT_ONCE = 500


class Species(PixelDataset):
    """Species: blossoms of a few species in genera, clusters of traits that hang together."""

    citation: ClassVar = Citation(
        "The Unbraid authors", 2026, "Species: a drawn world of kinds", "this package"
    )
    licence: ClassVar[str] = "Apache-2.0"
    factor_meanings: ClassVar[dict[str, str]] = {
        "genus": "3 petals, 4 petals, ...",
        "species": "numbered through all genera",
    }

    def __init__(
        self,
        genera: int = 3,
        species: int = 2,
        individuals: int = 500,
        image_size: int = 32,
        spread: float = 1.0,
        seed: int = 0,
    ) -> None:
        problems = Problems()
        self.options = {
            "genera": whole(problems, "genera", genera, 1, 12),
            "species": whole(problems, "species", species, 1, 12),
            "individuals": whole(problems, "individuals", individuals, 2, 100_000),
            "image_size": whole(problems, "image_size", image_size, 16, 128),
            "spread": real(problems, "spread", spread, 0.0, 3.0),
            "seed": whole(problems, "seed", seed, 0),
        }
        problems.raise_if_any()
        sizes = tuple(int(self.options[name]) for name in ("genera", "species", "individuals"))
        side = int(self.options["image_size"])
        if sizes[0] * sizes[1] < 2:
            problems.add("species", "must be two or more in all genera", 1, "Give species=2.")
        if (taken := int(np.prod(sizes)) * side * side) > MOST_BYTES:
            rule, remedy = "must take at most 1 GiB", "Draw fewer or smaller images."
            problems.add("images", rule, Shown(f"{taken / 2**30:.1f} GiB"), remedy)
        problems.raise_if_any()
        self.name = "species"
        self.grid = FactorGrid(("genus", "species", "individual"), sizes)  # type: ignore[arg-type]
        self.image_shape = (side, side, 1)
        self.traits = _traits(sizes, float(self.options["spread"]), int(self.options["seed"]))
        """Petals, size, depth, eye, shade and turn of every individual: `(n, 6)`."""
        self.planes = _draw(self.traits, side)

    @property
    def factor_names(self) -> tuple[str, ...]:
        """Only the kinds say something; the number within a species does not."""
        return ("genus", "species")

    @property
    def factor_sizes(self) -> tuple[int, ...]:
        """Genera, and species of all of them."""
        genera, species = self.grid.sizes[:2]
        return (genera, genera * species)

    def factors(self, indices: ArrayLike) -> NDArray[np.int64]:
        """Genus and species of each of *indices*: int64 `(n, 2)`."""
        found = self.grid.to_factors(indices)
        genus = found[..., :1]
        return np.concatenate([genus, genus * self.grid.sizes[1] + found[..., 1:2]], axis=-1)


def _traits(sizes: tuple[int, ...], spread: float, seed: int) -> NDArray[np.float64]:
    """What each individual is like, species after species."""
    genera, species, individuals = sizes
    count = genera * species
    powers = _PLASTIC ** -np.arange(1.0, 5.0)
    size, depth, eye, shade = ((0.5 + np.outer(np.arange(1, count + 1), powers)) % 1.0).T
    generator = np.random.default_rng(seed)
    growth = spread * generator.normal(size=(count, individuals))
    own = spread * generator.normal(size=(5, count, individuals))
    rate = 0.5 + shade[:, None]  # some species change more as they grow than others

    def trait(low: float, high: float, place: NDArray[np.float64], grown: float, which: int):
        middle = low + (high - low) * place[:, None]
        return middle + (high - low) * (grown * rate * growth + 0.012 * own[which])

    petals = np.repeat(FEWEST_PETALS + np.arange(genera), species)[:, None]
    columns = [
        np.broadcast_to(petals, growth.shape),
        np.clip(trait(0.45, 0.8, size, 0.12, 0), 0.2, 0.95),
        np.clip(trait(0.15, 0.45, depth, 0.09, 1), 0.0, 0.6),
        np.clip(trait(0.05, 0.35, eye, -0.09, 2), 0.0, 0.5),
        np.clip((0.5 + 0.3 * shade[:, None]) * np.exp(0.12 * own[4]), 0.2, 1.0),
        0.18 * own[3],
    ]
    return np.stack(columns, axis=-1).reshape(-1, len(columns))


def _draw(traits: NDArray[np.float64], side: int) -> NDArray[np.uint8]:
    """Antialiased blossoms, a dark eye in the middle: uint8 `(n, 1, side, side)`."""
    line = (np.arange(side) + 0.5) * 2.0 / side - 1.0
    x, y = np.meshgrid(line, -line)
    radius, angle = np.hypot(x, y), np.arctan2(y, x)
    planes = np.empty((len(traits), 1, side, side), dtype=np.uint8)
    for start in range(0, len(traits), _IMAGES_AT_ONCE):
        part = traits[start : start + _IMAGES_AT_ONCE, :, None, None]
        petals, size, depth, eye, shade, turn = (part[:, place] for place in range(6))
        outline = size * (1.0 - depth * (0.5 - 0.5 * np.cos(petals * (angle - turn))))
        inside = np.clip((outline - radius) * side / 2 + 0.5, 0.0, 1.0)
        dark = np.clip((eye * size - radius) * side / 2 + 0.5, 0.0, 1.0)
        light = shade * inside * (1.0 - 0.8 * dark)
        planes[start : start + len(part), 0] = np.rint(255.0 * light)
    return planes
