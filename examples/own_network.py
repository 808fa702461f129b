# SPDX-License-Identifier: Apache-2.0
"""A network of your own: two plain torch modules, trained as a population on `sprites`, scored and
asked for codes.

    python examples/own_network.py [folder for the run]

Under a minute on a CPU. The scores of so short a training are low; the point is the way.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import unbraid as ub
from unbraid.networks import NETWORKS
from unbraid.networks.from_module import ModuleNetwork


class Residual(nn.Module):
    """x + f(x), with batch norm inside: its running means are kept for every member."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
        )

    def forward(self, x: Tensor) -> Tensor:
        """The same shape again."""
        return x + self.body(x)


class Encoder(nn.Module):
    """Images to the mean and log-variance of each latent."""

    def __init__(self, channels: int, side: int, latents: int, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 4, stride=4),
            nn.ReLU(),
            Residual(width),
            nn.Conv2d(width, width, 2, stride=2),
            nn.ReLU(),
            nn.Flatten(),
        )
        self.mean = nn.Linear(width * (side // 8) ** 2, latents)
        self.logvar = nn.Linear(width * (side // 8) ** 2, latents)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Both `(batch, latents)`."""
        hidden = self.body(x)
        return self.mean(hidden), self.logvar(hidden)


# The network itself says how to build both modules. Its fields are options: they are stored with
# the run, and can be set from outside, as in network_options={"width": 32}.
@dataclass(frozen=True)
class ResidualNetwork(ModuleNetwork):
    """A small residual network."""

    width: int = 16
    citation = ub.Citation("An example", 2026, "Own networks in Unbraid")

    def encoder(self, sample_shape: tuple[int, ...], latents: int) -> nn.Module:
        """From images `(batch, channels, side, side)` to a pair of tensors `(batch, latents)`."""
        channels, side, _ = sample_shape
        return Encoder(channels, side, latents, self.width)

    def decoder(self, sample_shape: tuple[int, ...], latents: int) -> nn.Module:
        """And back; the output is raw, and the likelihood turns it into pixels."""
        channels, side, _ = sample_shape
        return nn.Sequential(
            nn.Linear(latents, self.width * (side // 8) ** 2),
            nn.ReLU(),
            nn.Unflatten(1, (self.width, side // 8, side // 8)),
            nn.ConvTranspose2d(self.width, self.width, 2, stride=2),
            nn.ReLU(),
            Residual(self.width),
            nn.ConvTranspose2d(self.width, channels, 4, stride=4),
        )


# A run remembers the network by this name. Do the same before you open the run from another
# program.
NETWORKS.register("residual", ResidualNetwork)


def main(out: str, steps: int = 300) -> None:
    """Train four members in the folder *out*, score them, and take the codes of the best."""
    run = ub.train(
        "sprites",
        ub.BetaVAE(beta=[1, 4]),
        data_options={"image_size": 32},
        network="residual",
        network_options={"width": 16},
        seeds=2,
        steps=steps,
        learning_rate=1e-3,
        latents=6,
        out=out,
    )
    print(run.score(["mig"]).groupby("beta")["mig"].mean())
    model = run.best("mig")
    images = run.dataset.images(range(4))
    print("codes of four images:", torch.tensor(model.encode(images)), sep="\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(f"{folder}/run")
