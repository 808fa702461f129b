# SPDX-License-Identifier: Apache-2.0
"""The training loop one would write first, to compare with: `torch.nn` modules of the Burgess
network, `torch.optim.Adam`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

LATENTS = 10
BETA = 4


def plain_step(images: Any, batch: int, *, capturable: bool = False) -> Callable[[], None]:
    """One update of a β-VAE on random images of *images*, uint8 `(n, channels, 64, 64)`, in float32
    on their device.
    """
    import torch
    from torch import nn

    channels, device = images.shape[1], images.device
    encoder = nn.Sequential(
        *(nn.Conv2d(channels, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, 32, 4, 2, 1), nn.ReLU()),
        *(nn.Conv2d(32, 64, 4, 2, 1), nn.ReLU(), nn.Conv2d(64, 64, 4, 2, 1), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 2 * LATENTS)),
    ).to(device)
    decoder = nn.Sequential(
        *(
            nn.Linear(LATENTS, 256),
            nn.ReLU(),
            nn.Linear(256, 1024),
            nn.ReLU(),
            nn.Unflatten(1, (64, 4, 4)),
        ),
        *(
            nn.ConvTranspose2d(64, 64, 4, 2, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(64, 32, 4, 2, 1),
            nn.ReLU(),
        ),
        *(
            nn.ConvTranspose2d(32, 32, 4, 2, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(32, channels, 4, 2, 1),
        ),
    ).to(device)
    optimiser = torch.optim.Adam(
        [*encoder.parameters(), *decoder.parameters()], lr=1e-4, capturable=capturable
    )

    def step() -> None:
        x = images[torch.randint(len(images), (batch,), device=device)].float() / 255
        mean, logvar = encoder(x).chunk(2, dim=1)
        z = mean + torch.exp(0.5 * logvar) * torch.randn_like(mean)
        likelihood = (
            nn.functional.binary_cross_entropy_with_logits(decoder(z), x, reduction="sum") / batch
        )
        loss = likelihood + BETA * 0.5 * (mean**2 + logvar.exp() - logvar - 1).sum(dim=1).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step
