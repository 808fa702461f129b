# SPDX-License-Identifier: Apache-2.0
"""What trained members say about the data: posterior means and log-variances over one recorded sample, encoded once.

The sample is the whole grid where it is small, else `plan.code_samples` distinct indices; its order is random, so that any
leading part of it is a fair sample too. All members see the same images.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from unbraid import random
from unbraid.errors import DamagedFileError, InputError, problem
from unbraid.networks.network import Network
from unbraid.population.devices import cores
from unbraid.population.plan import Member
from unbraid.population.program import State
from unbraid.population.run_folder import RunFolder
from unbraid.random import Stream
from unbraid.store import read_tensors, write_tensors

REPRESENTATIONS = ("mean", "sampled")
_IMAGES_AT_ONCE = 2048
"""Images in flight, counted over members: bounds the memory of a chunk, however many members it has."""
_TRAIN_SHARE = 2 / 3
"""The studies' 10,000 training and 5,000 test points."""


@dataclass(frozen=True)
class Codes:
    """One member's codes over the recorded sample."""

    indices: NDArray[np.int64]
    factors: NDArray[np.int64]
    mean: NDArray[np.float32]
    logvar: NDArray[np.float32]
    seed: int

    def representation(self, kind: str = "mean") -> NDArray[np.float32]:
        """Codes `(n, latents)`: the means, or one draw from each posterior, the same at every call."""
        if kind not in REPRESENTATIONS:
            raise InputError(problem("representation", f"must be one of {', '.join(REPRESENTATIONS)}", kind))
        if kind == "mean":
            return self.mean
        noise = random.normal(torch.tensor([self.seed]), 0, Stream.CODE_NOISE, self.mean.shape)[0].numpy()
        return self.mean + np.exp(0.5 * self.logvar) * noise

    @property
    def train_count(self) -> int:
        """How many leading rows are for fitting; the rest are for testing."""
        return max(1, round(len(self.indices) * _TRAIN_SHARE))

    def kl_per_latent(self) -> NDArray[np.float64]:
        """Mean KL divergence to the prior of each latent, in nats."""
        mean, logvar = self.mean.astype(np.float64), self.logvar.astype(np.float64)
        return 0.5 * (mean**2 + np.exp(logvar) - logvar - 1.0).mean(axis=0)


def recorded_sample(size: int, wanted: int) -> NDArray[np.int64]:
    """*wanted* distinct indices of 0..size-1 in random order, all of them where there are no more."""
    keys = random.words(torch.tensor([0]), 0, Stream.CODE_SAMPLE, (size, 2))[0]
    order = torch.argsort(((keys[:, 0] & 0x7FFFFFFF) << 32) | keys[:, 1], stable=True)
    return order[: min(size, wanted)].numpy()


def encode_images(
    network: Network, weights: dict[str, torch.Tensor], samples: Callable[[torch.Tensor], torch.Tensor], indices: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Means and log-variances `(members, n, latents)` of *indices*, in batches of bounded size."""
    members = next(iter(weights.values())).shape[0]
    parts = []
    with torch.no_grad():
        for batch in indices.split(max(1, min(256, _IMAGES_AT_ONCE // members))):
            x = samples(batch).unsqueeze(0)
            parts.append(network.encode(weights, x.expand(members, *x.shape[1:])))
    return torch.cat([mean for mean, _ in parts], dim=1).cpu(), torch.cat([logvar for _, logvar in parts], dim=1).cpu()


class CodeStore:
    """The codes/ folder of a run."""

    def __init__(self, run: RunFolder) -> None:
        self.run = run
        self.folder = run.path / "codes"

    def _file(self, member: int) -> Path:
        return self.folder / f"member-{member:05d}.safetensors"

    def missing(self) -> list[Member]:
        """Members whose codes are not stored, not readable, or of an earlier state than the newest checkpoint."""
        digest = self.run.plan.digest()
        missing = []
        for chunk in self.run.chunks():
            files = self.run.checkpoints(chunk).files()
            step = files[0][0] if files else -1
            missing += [member for member in chunk if not self._good(member.id, digest, step)]
        return missing

    def _good(self, member: int, digest: str, step: int) -> bool:
        try:
            about = read_tensors(self._file(member))[1]
        except (FileNotFoundError, DamagedFileError):
            return False
        return about.get("plan") == digest and about.get("step") == step

    def encode(self, device: torch.device, progress: Callable[[int], None] = lambda images: None) -> None:
        """Encode what is missing; *progress* is told how many images more were encoded."""
        wanted = {member.id for member in self.missing()}
        if not wanted:
            return
        dataset = self.run.dataset
        indices = torch.from_numpy(recorded_sample(len(dataset), self.run.plan.code_samples))
        sampler = dataset.sampler(device)
        network, layout = self.run.plan.build_network(), self.run.layout

        def encode_chunk(chunk: tuple[Member, ...], state: State) -> None:
            if device.type == "cpu":
                torch.set_num_threads(1)
            weights = layout.views(state.model.weights.to(device))
            mean, logvar = encode_images(network, weights, sampler, indices.to(device))
            for position, member in enumerate(chunk):
                about = {"plan": self.run.plan.digest(), "member": member.id, "step": state.step}
                tensors = {"indices": indices, "mean": mean[position], "logvar": logvar[position]}
                write_tensors(self._file(member.id), tensors, about)
                progress(len(indices))

        chunks = [chunk for chunk in self.run.chunks() if any(member.id in wanted for member in chunk)]
        with ThreadPoolExecutor(cores() if device.type == "cpu" else 1) as pool:
            list(pool.map(lambda chunk: encode_chunk(chunk, self.run.trained_state(chunk)), chunks))

    def load(self, member: int) -> Codes:
        """The stored codes of a member."""
        tensors, _ = read_tensors(self._file(member))
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        return Codes(factors=self.run.dataset.factors(arrays["indices"]), seed=self.run.plan.members[member].seed, **arrays)
