# SPDX-License-Identifier: Apache-2.0
"""Codes: posterior means and log-variances of trained members over one recorded sample.

The sample is the whole grid where it is small, else `plan.code_samples` distinct indices; its order
is random, so that any leading part of it is a fair sample too. All members see the same images.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from unbraid.codes.encode import encode_members
from unbraid.core import random
from unbraid.core.errors import DamagedFileError, invalid
from unbraid.core.failpoints import failpoint
from unbraid.core.files import remove_halves_in
from unbraid.core.folders import check_still_there, is_there
from unbraid.core.random import Stream
from unbraid.core.store import read_tensors, write_tensors
from unbraid.data.dataset import Dataset
from unbraid.population.checkpoint import Trained
from unbraid.population.devices import cores, explain_oom
from unbraid.population.member import Member
from unbraid.population.run_folder import RunFolder

REPRESENTATIONS = ("mean", "sampled")
_MOST_ORDERED = 2**22
"""Larger sets are none of images that are stored or published: they are made of others."""
_BYTES_AT_ONCE = 2**30
"""Codes held in memory before they are written: bounds how many members are encoded together."""
TRAIN_SHARE = 2 / 3
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
        """Codes `(n, latents)`: the means, or one draw from each posterior, always the same."""
        if kind not in REPRESENTATIONS:
            raise invalid("representation", f"must be one of {', '.join(REPRESENTATIONS)}", kind)
        if kind == "mean":
            return self.mean
        noise = random.normal(torch.tensor([self.seed]), 0, Stream.CODE_NOISE, self.mean.shape)[
            0
        ].numpy()
        return self.mean + np.exp(0.5 * self.logvar) * noise

    @property
    def train_count(self) -> int:
        """How many leading rows are for fitting; the rest are for testing."""
        return max(1, round(len(self.indices) * TRAIN_SHARE))

    def kl_per_latent(self) -> NDArray[np.float64]:
        """Mean KL of each latent from the standard normal, whatever the prior, in nats."""
        mean, logvar = self.mean.astype(np.float64), self.logvar.astype(np.float64)
        return 0.5 * (mean**2 + np.exp(logvar) - logvar - 1.0).mean(axis=0)

    def mean_variances(self) -> NDArray[np.float64]:
        """Of each latent's posteriors."""
        return np.exp(self.logvar.astype(np.float64)).mean(axis=0)


def recorded_sample(size: int, wanted: int, seed: int = 0) -> NDArray[np.int64]:
    """*wanted* distinct indices of 0..size-1 in random order, or all where there are fewer.

    Of a set so large that ordering all of it would take long they are drawn one by one.
    """
    if size > _MOST_ORDERED and 4 * wanted < size:
        words = random.words(torch.tensor([seed]), 0, Stream.CODE_SAMPLE, (2 * wanted, 2))[0]
        drawn = ((((words[:, 0] & 0x7FFFFFFF) << 32) | words[:, 1]) % size).numpy()
        first = np.sort(np.unique(drawn, return_index=True)[1])
        return drawn[first[:wanted]]
    keys = random.words(torch.tensor([seed]), 0, Stream.CODE_SAMPLE, (size, 2))[0]
    order = torch.argsort(((keys[:, 0] & 0x7FFFFFFF) << 32) | keys[:, 1], stable=True)
    return order[: min(size, wanted)].numpy()


def scored_sample(dataset: Dataset, wanted: int, seed: int = 0) -> NDArray[np.int64]:
    """The recorded sample of *dataset*: of the images that models are scored on."""
    scored = dataset.scoring_indices
    if scored is None:
        return recorded_sample(len(dataset), wanted, seed)
    return scored[recorded_sample(len(scored), wanted, seed)]


@dataclass(frozen=True)
class MemberFiles:
    """Files of one kind in the codes/ folder of a run, one a member, each bound to its own."""

    run: RunFolder
    kind: str
    prefix: str
    tensors: Mapping[str, tuple[torch.dtype, int]]
    """Type and number of axes of each; all have a row for each image."""

    def path(self, member: int) -> Path:
        """The file of a member."""
        return self.run.path / "codes" / f"{self.prefix}-{member:05d}.safetensors"

    def write(self, member: int, step: int, tensors: Mapping[str, torch.Tensor]) -> None:
        """Write what was made from a member trained for so many steps."""
        check_still_there(self.run.path)
        write_tensors(self.path(member), tensors, {**self._origin(member), "step": step})
        failpoint("codes.stored")

    def read(self, member: int, step: int | None = None) -> dict[str, torch.Tensor]:
        """The tensors of a member, made at *step* where it is given.

        A file of another run, member, kind or step is refused: somebody copied or renamed it.
        """
        path, origin = self.path(member), self._origin(member)
        tensors, about = read_tensors(path)
        found = {"kind": self.kind, **about}  # which earlier versions did not write
        if self.run.had(member, found.get("plan")):
            origin["plan"] = found["plan"]
        wanted = origin if step is None else {**origin, "step": step}
        other = [name for name, value in wanted.items() if found.get(name) != value]
        if other or not self._whole(tensors):
            raise DamagedFileError(
                f"{path} is of another {' and '.join(other) or 'kind'}: it does not hold the"
                f" {self.kind} of member {member}. Remove it, and score again."
            )
        return tensors

    def _whole(self, tensors: Mapping[str, torch.Tensor]) -> bool:
        """Whether these are the tensors that such a file has."""
        found = {name: (tensor.dtype, tensor.dim()) for name, tensor in tensors.items()}
        rows = {len(tensor) for tensor in tensors.values() if tensor.dim()}
        columns = {tensor.shape[1] for tensor in tensors.values() if tensor.dim() == 2}
        return found == self.tensors and len(rows) == 1 and columns <= {self.run.plan.latents}

    def missing(self, of: tuple[Member, ...] | None = None) -> list[Member]:
        """Members, all or those *of* one chunk, whose file is missing, damaged, another's, or older
        than the newest checkpoint.
        """
        missing = []
        for chunk in self.run.chunks() if of is None else [of]:
            files = self.run.checkpoints(chunk).files()
            step = files[0][0] if files else -1
            missing += [member for member in chunk if not self._good(member.id, step)]
        return missing

    def _origin(self, member: int) -> dict[str, object]:
        return {"plan": self._plan, "kind": self.kind, "member": member}

    @cached_property
    def _plan(self) -> str:
        return self.run.plan.digest()

    def _good(self, member: int, step: int) -> bool:
        try:
            self.read(member, step)
        except (FileNotFoundError, DamagedFileError):
            return False
        return True


def for_chunks_of(
    run: RunFolder,
    members: set[int],
    device: torch.device,
    work: Callable[[tuple[Member, ...], Trained], None],
) -> None:
    """Call *work* with each chunk that holds one of *members*; on a CPU, one chunk per core."""
    remove_halves_in(run.path / "codes")  # which is about to be written

    def on_one_core(chunk: tuple[Member, ...]) -> None:
        if device.type == "cpu":
            torch.set_num_threads(1)
        work(chunk, run.trained(chunk))

    chunks = [chunk for chunk in run.chunks() if any(member.id in members for member in chunk)]
    if device.type == "cpu":
        with ThreadPoolExecutor(cores()) as pool:
            list(pool.map(on_one_core, chunks))
    else:  # in this thread, whose stream may be its own
        for chunk in chunks:
            on_one_core(chunk)


class CodeStore:
    """The codes/ folder of a run."""

    def __init__(self, run: RunFolder) -> None:
        self.run = run
        tensors = {
            "indices": (torch.int64, 1),
            "mean": (torch.float32, 2),
            "logvar": (torch.float32, 2),
        }
        self._files = MemberFiles(run, "codes", "member", tensors)

    def missing(self) -> list[Member]:
        """Members whose codes are missing, damaged, or older than the newest checkpoint."""
        return self._files.missing()

    def encode(
        self,
        device: torch.device,
        progress: Callable[[int], None] = lambda images: None,
        chunk: tuple[Member, ...] | None = None,
    ) -> None:
        """Encode what is missing, or what of one *chunk* is; *progress* takes how many images more
        were encoded.
        """
        wanted = {member.id for member in self._files.missing(chunk)}
        if not wanted:
            return
        dataset = self.run.dataset
        indices = torch.from_numpy(scored_sample(dataset, self.run.plan.code_samples))
        remedy = "Free some memory, or use the CPU."
        with explain_oom(device, f"the data '{dataset.name}'", remedy):
            sampler = dataset.sampler(device)
        lock = threading.Lock()

        def encode_chunk(chunk: tuple[Member, ...], trained: Trained) -> None:
            together = max(1, _BYTES_AT_ONCE // (8 * self.run.plan.latents * len(indices)))
            for first in range(0, len(chunk), together):
                members = chunk[first : first + together]
                rows = trained.weights[first : first + together].to(device)
                with explain_oom(device, "the codes of a batch", remedy):
                    mean, logvar = encode_members(
                        self.run, members, rows, sampler, indices.to(device)
                    )
                for position, member in enumerate(members):
                    tensors = {
                        "indices": indices,
                        "mean": mean[position],
                        "logvar": logvar[position],
                    }
                    self._files.write(member.id, trained.step, tensors)
                    with lock:
                        progress(len(indices))

        for_chunks_of(self.run, wanted, device, encode_chunk)

    def has(self, member: int) -> bool:
        """Whether there is a file of a member's codes, whatever it holds."""
        return is_there(self._files.path(member))

    def load(self, member: int) -> Codes:
        """The stored codes of a member."""
        arrays = {name: tensor.numpy() for name, tensor in self._files.read(member).items()}
        return Codes(
            factors=self.run.dataset.factors(arrays["indices"]),
            seed=self.run.plan.members[member].seed,
            **arrays,
        )
