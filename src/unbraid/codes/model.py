# SPDX-License-Identifier: Apache-2.0
"""One trained member as a person uses it: images to codes and back."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from unbraid.core.arrays import to_numpy
from unbraid.core.errors import Shown, invalid
from unbraid.population.run_folder import RunFolder

_ENCODED_AT_ONCE = 256
LARGEST_CODE = 1e6
"""Far beyond any code of an image; networks multiply it without leaving the numbers there are."""


def check_healthy(run: RunFolder, member: int) -> None:
    """Refuse a *member* that diverged: its weights are no numbers any more."""
    table = run.members()
    healthy = table.query("status != 'diverged'")["member"].tolist()
    if member in healthy:
        return
    step = table.loc[table["member"] == member, "steps"].item()
    value = Shown(f"{member}, whose loss or gradient was no finite number at step {step}")
    remedy = "None is left: train again, into a new folder, with a lower learning rate."
    if healthy:
        remedy = f"Choose another, such as {{member={healthy[0]}}}."
    raise invalid("member", "must be one that did not diverge", value, remedy)


class Model:
    """One member: encoder and decoder with trained weights."""

    def __init__(self, run: RunFolder, member: int) -> None:
        plan = run.plan
        self.member = plan.members[member]
        self._dataset = run.dataset
        self._network = plan.build_network()
        self._precision = plan.dtype
        self._latents = plan.latents
        self._objective = self.member.build()
        self._weights = run.member_weights(member)
        self._likelihood = plan.build_likelihood(run.dataset).bound(self._weights)

    def __repr__(self) -> str:
        """The member's label."""
        return f"<Model {self.member.id}: {self.member.label()}>"

    def posterior(self, images: ArrayLike) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Means and log-variances `(n, latents)` of images.

        They are uint8 `(n, height, width, channels)`, or float in [0, 1].
        """
        samples = self._samples(images)
        with torch.no_grad():
            encoded = [
                self._network.encode(self._weights, batch.unsqueeze(0), self._precision)
                for batch in samples.split(_ENCODED_AT_ONCE)
            ]
            parts = [
                self._objective.representation(mean, logvar, self._weights)
                for mean, logvar in encoded
            ]
        return (
            torch.cat([m[0] for m, _ in parts]).numpy(),
            torch.cat([v[0] for _, v in parts]).numpy(),
        )

    def encode(self, images: ArrayLike) -> NDArray[np.float32]:
        """Codes of images: the posterior means `(n, latents)`."""
        return self.posterior(images)[0]

    def decode(self, z: ArrayLike) -> NDArray[np.uint8]:
        """Images of codes `(n, latents)`: uint8 `(n, height, width, channels)`."""
        given = to_numpy(z, "codes")
        latents, shape = self._latents, given.shape
        if given.dtype.kind not in "fiub":
            raise invalid("codes", "must be numbers", Shown(f"dtype {given.dtype}"))
        if len(shape) != 2 or shape[1] != latents:
            raise invalid("codes", f"must have the shape (n, {latents})", Shown(f"shape {shape}"))
        size = np.abs(given.astype(np.float64)).max(initial=0.0)
        if not size <= LARGEST_CODE:
            found = Shown("some that are not finite" if not np.isfinite(size) else f"{size:g}")
            rule = f"must be finite and at most {LARGEST_CODE:g} in size"
            raise invalid("codes", rule, found)
        codes = torch.from_numpy(given.astype(np.float32))
        with torch.no_grad():
            raw = self._network.decode(
                self._weights, codes.unsqueeze(0), self._dataset.sample_shape, self._precision
            )
            return self._dataset.as_images(self._likelihood.expected(raw)[0].numpy())

    def reconstruct(self, images: ArrayLike) -> NDArray[np.uint8]:
        """Images as the model remembers them: decoded means."""
        return self.decode(self.encode(images))

    def _samples(self, images: ArrayLike) -> torch.Tensor:
        array = to_numpy(images, "images")
        shape = self._dataset.sample_shape
        if not self._dataset.bounded:
            if array.shape[1:] != shape or array.dtype.kind not in "fiu":
                rule = f"must be numbers of the shape ({', '.join(map(str, ('n', *shape)))})"
                raise invalid("samples", rule, Shown(f"{array.dtype} of shape {array.shape}"))
            if not np.isfinite(array).all():
                raise invalid("samples", "must be finite", Shown("some that are not"))
            return torch.as_tensor(array, dtype=torch.float32)
        if array.ndim == 3 and shape[0] == 1:
            array = array[..., None]
        if array.ndim != 4 or array.shape[1:] != self._dataset.image_shape:
            expected = ("n", *self._dataset.image_shape)
            raise invalid(
                "images",
                f"must have the shape ({', '.join(map(str, expected))})",
                Shown(f"shape {array.shape}"),
            )
        scale = 255.0 if array.dtype == np.uint8 else 1.0
        if array.dtype.kind not in "bf" and array.dtype != np.uint8:
            raise invalid(
                "images", "must be uint8, or floats in [0, 1]", Shown(f"dtype {array.dtype}")
            )
        if (
            array.dtype.kind == "f"
            and array.size
            and not (array.min() >= 0.0 and array.max() <= 1.0)
        ):
            found = Shown(f"values from {array.min():g} to {array.max():g}")
            raise invalid("images", "as floats must lie in [0, 1]", found)
        return torch.from_numpy(np.moveaxis(array.astype(np.float32) / scale, -1, 1).copy())
