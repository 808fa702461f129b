# SPDX-License-Identifier: Apache-2.0
"""Reconstruction losses of trained members on the recorded sample, in nats per image.

They are measured when a score asks for them.

An image is decoded from the sampled representation, the one draw from its posterior that the codes
hold; members that train without noise decode the mean. The likelihood is the run's, up to its
constants, as in training.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from unbraid.codes.codes import CodeStore, MemberFiles, for_chunks_of
from unbraid.codes.encode import images_at_once
from unbraid.population.checkpoint import Trained
from unbraid.population.devices import explain_oom
from unbraid.population.member import Member


class ReconstructionStore:
    """The reconstruction losses in the codes/ folder of a run, beside the codes."""

    def __init__(self, codes: CodeStore) -> None:
        self.codes, self.run = codes, codes.run
        tensors = {"nats": (torch.float32, 1)}
        self._files = MemberFiles(codes.run, "reconstructions", "reconstruction", tensors)

    def missing(self) -> list[Member]:
        """Members whose losses are missing, damaged, or older than the newest checkpoint."""
        return self._files.missing()

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
        learned = likelihood.weights
        lock = threading.Lock()

        def measure_members(members: Sequence[Member], rows: torch.Tensor, step: int) -> None:
            found = [self.codes.load(member.id) for member in members]
            z = torch.from_numpy(
                np.stack(
                    [
                        codes.representation(
                            "sampled" if member.build().samples_latents else "mean"
                        )
                        for member, codes in zip(members, found, strict=True)
                    ]
                ).astype(np.float32)
            )
            indices, nats = torch.from_numpy(found[0].indices), torch.empty(z.shape[:2])
            weights = network.layout(dataset.sample_shape, plan.latents).views(rows)
            own = [
                self.run.layout(member).views(row)
                for member, row in zip(members, rows.split(1), strict=True)
            ]
            bound = likelihood.bound(
                {one.name: torch.cat([part[one.name] for part in own]) for one in learned}
            )
            size = images_at_once(
                sampler(indices[:1].to(device))[0].numel(),
                len(members),
                device,
                columns=network.uses_columns,
            )
            with torch.no_grad(), explain_oom(device, "the images of a batch", advice):
                for start in range(0, len(indices), size):
                    piece = slice(start, start + size)
                    x = sampler(indices[piece].to(device)).unsqueeze(0)
                    nats[:, piece] = network.compare(
                        weights,
                        z[:, piece].to(device),
                        x.expand(len(members), *x.shape[1:]),
                        bound,
                        plan.dtype,
                    ).cpu()
            for member, own_nats in zip(members, nats, strict=True):
                self._files.write(member.id, step, {"nats": own_nats})
                with lock:
                    progress(len(indices))

        def measure_chunk(chunk: tuple[Member, ...], trained: Trained) -> None:
            places = [place for place, member in enumerate(chunk) if member.id in wanted]
            together = len(places) if device.type == "cuda" else 1
            for first in range(0, len(places), together):
                some = places[first : first + together]
                members = [chunk[place] for place in some]
                measure_members(members, trained.weights[some].to(device), trained.step)

        for_chunks_of(self.run, wanted, device, measure_chunk)

    def load(self, member: int) -> NDArray[np.float32]:
        """The loss of each image of the recorded sample, `(n,)`, nats."""
        return self._files.read(member)["nats"].numpy()
