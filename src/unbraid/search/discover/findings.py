# SPDX-License-Identifier: Apache-2.0
"""What `discover` found in unlabelled images, as plain records for the report."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Certainty:
    """How far other models, trained from other seeds, have a latent that follows the same thing."""

    agreement: float
    """Median over the other models of the largest absolute rank correlation with one of their
    latents, 0 to 1.
    """
    seen_in: int
    """Other models in which that correlation is at least `certainty.SEEN`."""
    others: int
    """Other models that were compared."""


@dataclass(frozen=True)
class Name:
    """What a latent seems to be, in plain words, and how the words were come by."""

    title: str
    """A few words: "horizontal position"."""
    sentence: str
    """What changes from low to high codes, in one sentence a lay person understands."""
    statistic: str
    """The simple measurement of the images that follows the code best: "centre_x"; empty where none
    does.
    """
    correlation: float
    """Rank correlation of code and measurement; 0 without one. The sign belongs to "from low to
    high".
    """


@dataclass(frozen=True)
class FoundFactor:
    """One factor of variation: a latent that the chosen model uses."""

    number: int
    """1 for the one that says most about the images."""
    latent: int
    nats: float
    """Mean KL divergence: how much the latent says about an image."""
    name: Name
    certainty: Certainty
    share: float
    """Share of the images' variance that is lost when the model decodes without knowing this
    latent, 0 to 1.
    """
    drawn: NDArray[np.uint8]
    """The model's own images from low to high, all else held: `(frames, height, width, channels)`.
    """
    real: NDArray[np.uint8]
    """Images of the data at rising codes: `(frames, height, width, channels)`."""
    real_names: tuple[str, ...] = ()
    """Their file names or numbers."""


@dataclass(frozen=True)
class Discovery:
    """Everything the report of a discovery shows."""

    source: str
    """Where the images came from."""
    images: int
    image_shape: tuple[int, int, int]
    resized_from: tuple[int, int] | None
    """Height and width of the images as given, where models saw smaller ones."""
    factors: tuple[FoundFactor, ...]
    """Those that other models confirm, the one that says most first."""
    doubtful: tuple[FoundFactor, ...]
    """Those that this model uses and others do not confirm."""
    explained: float
    """Share of the images' variance that the chosen model reconstructs, 0 to 1."""
    udr: float
    """Agreement score of the chosen group of models, 0 to 0.9."""
    originals: NDArray[np.uint8]
    remembered: NDArray[np.uint8]
    """A few images and their reconstructions: `(n, height, width, channels)` each."""
    worst: NDArray[np.uint8]
    worst_remembered: NDArray[np.uint8]
    """The images it reconstructs worst."""
    population: int
    models_each: int
    epochs: int
    best_by_epoch: tuple[float, ...]
    """Best agreement score after each epoch."""
    minutes: float
    device: str
    objective: str
    settings: dict[str, float]
    """Hyperparameters of the chosen group."""
    run: str
    """The run folder of the chosen models."""
    tables: tuple[str, ...]
    """Paths of the tables of codes."""
    from_final: bool = False
    """What is shown comes from a final population, trained to hold what the searches before it
    found.
    """
    stages: tuple[str, ...] = ()
    """What the recursion did, a sentence a stage; empty without recursion."""
    collapsed: bool = False
    """Every group of models was collapsed: nothing counts as found."""
    warnings: tuple[str, ...] = ()
    commands: tuple[tuple[str, str], ...] = ()
    """What a person can do next: command and what it does."""
    command: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    """More about how it was made, by name."""
