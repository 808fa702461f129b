# SPDX-License-Identifier: Apache-2.0
"""Reconstruction losses of trained members on the recorded sample, in nats per image.

They are measured when a score asks for them.

An image is decoded from the sampled representation, the one draw from its posterior that the codes
hold; members that train without noise decode the mean. The likelihood is the run's, up to its
constants, as in training.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from unbraid.codes.codes import CodeStore, for_chunks_of, made_from, missing_files
from unbraid.codes.encode import images_at_once
from unbraid.core.store import read_tensors, write_tensors
from unbraid.population.checkpoint import Trained
from unbraid.population.devices import explain_oom
from unbraid.population.member import Member


class ReconstructionStore:
    """The reconstruction losses in the codes/ folder of a run, beside the codes."""

    def __init__(self, codes: CodeStore) -> None:
        self.codes, self.run = codes, codes.run

    def _file(self, member: int) -> Path:
        return self.codes.folder / f"reconstruction-{member:05d}.safetensors"

    def missing(self) -> list[Member]:
        """Members whose losses are missing, unreadable, or older than the newest checkpoint."""
        return missing_files(self.run, self._file)

    def measure(
        self, device: torch.device, progress: Callable[[int], None] = lambda images: None
    ) -> None:
        """Decode what is missing, given the codes; *progress* takes how many images more."""
        wanted = {member.id for member in self.missing()}
        if not wanted:
            return
        dataset, plan = self.run.dataset, self.run.plan
        advice = "Free some memory, or use the CPU."
        with explain_oom(device, f"the data '{dataset.name}'", advice):
            sampler = dataset.sampler(device)
        network, likelihood = plan.build_network(), plan.build_likelihood(dataset)
        lock = threading.Lock()

        def measure_member(weights: dict[str, torch.Tensor], member: Member, step: int) -> None:
            codes = self.codes.load(member.id)
            kind = "sampled" if member.build().samples_latents else "mean"
            z = torch.from_numpy(np.ascontiguousarray(codes.representation(kind), dtype=np.float32))
            indices, nats = torch.from_numpy(codes.indices), torch.empty(len(z))
            bound = likelihood.bound(weights)
            size = images_at_once(
                sampler(indices[:1].to(device))[0].numel(), 1, device, columns=network.uses_columns
            )
            with torch.no_grad(), explain_oom(device, "the images of a batch", advice):
                for start in range(0, len(z), size):
                    piece = slice(start, start + size)
                    x = sampler(indices[piece].to(device)).unsqueeze(0)
                    nats[piece] = network.compare(
                        weights, z[piece].to(device).unsqueeze(0), x, bound, plan.dtype
                    )[0].cpu()
            write_tensors(self._file(member.id), {"nats": nats}, made_from(self.run, member, step))
            with lock:
                progress(len(z))

        def measure_chunk(chunk: tuple[Member, ...], trained: Trained) -> None:
            for position, member in enumerate(chunk):
                if member.id in wanted:
                    row = trained.weights[position : position + 1].to(device)
                    measure_member(self.run.layout(member).views(row), member, trained.step)

        for_chunks_of(self.run, wanted, device, measure_chunk)

    def load(self, member: int) -> NDArray[np.float32]:
        """The loss of each image of the recorded sample, `(n,)`, nats."""
        return read_tensors(self._file(member))[0]["nats"].numpy()
