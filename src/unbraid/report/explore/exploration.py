# SPDX-License-Identifier: Apache-2.0
"""A population that is being explored: its page, its models, and the names of their latents."""

from __future__ import annotations

import csv
import functools
import io
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unbraid.codes.codes import CodeStore
from unbraid.codes.latent_names import latent_names, name_latent
from unbraid.core.errors import Shown, UnbraidError, invalid
from unbraid.population.run_folder import RunFolder
from unbraid.report.explore.models import WeightsAtHand, model_bytes
from unbraid.report.explore.page import Mode, render
from unbraid.report.explore.population import Population
from unbraid.report.explore.samples import Samples


@dataclass
class Exploration:
    """A population and what the page asks of it."""

    population: Population
    _weights: WeightsAtHand = field(default_factory=WeightsAtHand)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    @functools.cached_property
    def samples(self) -> Samples | None:
        """Images of the data, where models can be opened."""
        if self.population.dataset is None or not self.population.opened:
            return None
        run, _ = next(iter(self.population.opened.values()))
        return Samples(self.population.dataset, run.plan.code_samples)

    def served(self, token: str) -> str:
        """The page as the server gives it, which alone can keep names."""
        return render(self.record("served", list(self.population.opened)), token=token)

    def single(self, models: Mapping[str, bytes]) -> str:
        """The page as one file with *models* in it."""
        return render(self.record("single", list(models)), models=models)

    def folder(self, keys: Sequence[str]) -> str:
        """The page of a folder that has the models of *keys*."""
        return render(self.record("folder", keys))

    def record(self, mode: Mode, keys: Sequence[str]) -> dict[str, Any]:
        """What the page's script is given of the population, of which the models of *keys* can be
        opened.
        """
        found = self.population.record() | {"mode": mode, "names_kept": mode == "served"}
        there = set(keys)
        found["rows"]["model"] = [key in there for key in found["rows"]["key"]]
        if found["start"]["model"] not in there:
            found["start"]["model"] = next(iter(keys), None)
        if mode != "served" and there:
            told = _some_models(len(keys), len(self.population.opened))
            found["notes"] = [told, *found["notes"]]
        if self.samples is None:
            return found | {"image": None, "latents": 0, "factors": [], "samples": None}
        run, _ = next(iter(self.population.opened.values()))
        height, width, channels = self.samples.dataset.image_shape
        return found | {
            "image": {"height": height, "width": width, "channels": channels},
            "latents": run.plan.latents,
            "factors": self.samples.factors(),
            "samples": self.samples.record(),
        }

    def model(self, key: str) -> bytes:
        """What the page is given of the model of a row."""
        run, member = self._unchanged(key)
        assert self.samples is not None
        weights = self._weights.of(run, member)
        with self._turn:  # tables of a run are read once, by whoever comes first
            return model_bytes(run, member, self.samples, weights)

    def _unchanged(self, key: str) -> tuple[RunFolder, int]:
        """Run and member of a row. A run that somebody gave more steps or seeds meanwhile has files
        that this page would take for another's.
        """
        run, member = self.population.opened[key]
        if run.has_changed:
            raise UnbraidError(
                f"{run.path} has changed since this page was opened: it has other steps or seeds."
                " Start `unbraid explore` again."
            )
        return run, member

    def image_of_factors(self, values: tuple[int, ...]) -> bytes:
        """The pixels of the image with these factor values."""
        sizes = self.samples.dataset.factor_sizes if self.samples else ()
        inside = len(values) == len(sizes) and all(
            value < size for value, size in zip(values, sizes, strict=True)
        )
        if self.samples is None or not sizes or not inside:
            rule = f"must be {len(sizes)} whole numbers below {', '.join(map(str, sizes))}"
            raise invalid("factors", rule, Shown("-".join(map(str, values))))
        return np.ascontiguousarray(self.samples.image_of_factors(values)).tobytes()

    def rename(self, key: str, latent: int, name: str) -> dict[str, str]:
        """Keep a latent's name with its run, and return all names of the model."""
        run, member = self._unchanged(key)
        names = name_latent(run, member, latent, name).get(member, {})
        return {str(place): text for place, text in names.items()}

    def codes_csv(self, key: str) -> bytes:
        """The table of codes of a model: which image, its factors, a column for each latent."""
        run, member = self._unchanged(key)
        codes, names = CodeStore(run).load(member), latent_names(run).get(member, {})
        columns = [
            f"latent_{latent}: {names[latent]}" if latent in names else f"latent_{latent}"
            for latent in range(codes.mean.shape[1])
        ]
        text = io.StringIO()
        table = csv.writer(text)
        table.writerow(["image", *run.dataset.factor_names, *columns])
        rows = zip(codes.indices.tolist(), codes.factors.tolist(), codes.mean.tolist(), strict=True)
        table.writerows([index, *factors, *mean] for index, factors, mean in rows)
        return text.getvalue().encode()


def _some_models(there: int, of: int) -> str:
    if there == of:
        return "The models are kept with this page: no program is needed to look into them."
    return f"{there} of {of} models are kept with this page; the others are shown, not opened."
