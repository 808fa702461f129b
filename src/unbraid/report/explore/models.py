# SPDX-License-Identifier: Apache-2.0
"""One model as the page opens it: its network as plain layers, codes, information and curves."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unbraid.codes.codes import Codes, CodeStore
from unbraid.codes.latent_names import latent_names
from unbraid.codes.model import Model
from unbraid.codes.traversals import traverse, typical_image
from unbraid.core.errors import InputError, UnbraidError
from unbraid.objectives.qlae import CODEBOOK, codebook_values
from unbraid.population.checkpoint import Trained
from unbraid.population.member import Member
from unbraid.population.run_folder import RunFolder
from unbraid.report.explore.container import pack
from unbraid.report.explore.network_record import network_record
from unbraid.report.explore.samples import Samples
from unbraid.report.train.member_view import (
    FRAMES,
    QUANTILES,
    carried,
    information_shares,
    latent_sizes,
)
from unbraid.scoring.collapse import which_active

MOST_POINTS = 150
"""Of a training curve."""
_UNUSED_RANGE = 2.0
"""A latent that says nothing is moved within so many standard deviations of the prior."""
_MOST_BYTES = 2**31
"""Of weights that are kept in memory: chunks are read whole, since one checksum covers a chunk."""
Arrays = dict[str, NDArray[Any]]


@dataclass
class WeightsAtHand:
    """Weights of whole chunks in memory, those that were asked for last."""

    _chunks: OrderedDict[tuple[str, int], Trained] = field(default_factory=OrderedDict)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def of(self, run: RunFolder, member: int) -> dict[str, torch.Tensor]:
        """The trained weights of a member by name, each with a member axis of one."""
        chunk = next(chunk for chunk in run.chunks() if any(one.id == member for one in chunk))
        position = [one.id for one in chunk].index(member)
        rows = self._trained(run, chunk).weights[position : position + 1]
        return run.layout(chunk[position]).views(rows)

    def _trained(self, run: RunFolder, chunk: tuple[Member, ...]) -> Trained:
        key = str(run.path), chunk[0].id
        with self._turn:
            if key not in self._chunks:
                self._chunks[key] = run.trained(chunk)
                while len(self._chunks) > 1 and self._bytes() > _MOST_BYTES:
                    self._chunks.popitem(last=False)
            self._chunks.move_to_end(key)
            return self._chunks[key]

    def _bytes(self) -> int:
        return sum(one.weights.nbytes for one in self._chunks.values())


def model_bytes(
    run: RunFolder, member: int, samples: Samples, weights: Mapping[str, torch.Tensor]
) -> bytes:
    """What the page is given of a member."""
    codes, plan = CodeStore(run).load(member), run.plan
    built = plan.members[member]
    noisy = built.build().samples_latents
    measure, sizes = latent_sizes(codes, noisy and built.build_prior().standard)
    active = which_active(codes.mean, codes.mean_variances() if noisy else None)
    shares = _shares(codes) if run.dataset.labelled else None
    typical = codes.mean[typical_image(codes.mean, active)]
    network, arrays = _network(run, weights)
    names, trouble = _names(run, member)
    record = {
        "member": member,
        "network": network,
        "measure": measure,
        "latents": [
            _latent(run, codes, latent, float(sizes[latent]), bool(active[latent]), shares)
            for latent in range(plan.latents)
        ],
        "factors": list(run.dataset.factor_names),
        "curves": _curves(run, member),
        "names": {str(latent): name for latent, name in names.items()},
        "trouble": trouble,
        "frames": FRAMES,
    }
    count = len(samples.indices)
    arrays |= {"typical": typical, "codes": codes.mean[:count]}
    if shares is not None:
        arrays["information"] = shares.astype(np.float32)
    if network is None:
        arrays["strips"] = _strips(run, member, codes, typical, record["latents"])
    return pack(record, arrays)


def _names(run: RunFolder, member: int) -> tuple[dict[int, str], str]:
    """Names of a member's latents, or none and why: a model is worth a look without them."""
    try:
        return latent_names(run).get(member, {}), ""
    except UnbraidError as error:
        return {}, str(error)


def _network(
    run: RunFolder, weights: Mapping[str, torch.Tensor]
) -> tuple[dict[str, Any] | None, Arrays]:
    """The network as the page runs it; None where it cannot."""
    dataset, plan = run.dataset, run.plan
    plain = None
    if dataset.bounded and len(dataset.sample_shape) == 3:  # else an image is drawn of a sample
        plain = plan.build_network().plain(weights, dataset.sample_shape)
    if plain is None:
        return None, {}
    squashed = plan.build_likelihood(dataset).expected is torch.sigmoid
    codebook = codebook_values(weights[CODEBOOK])[0].numpy() if CODEBOOK in weights else None
    return network_record(plain, "sigmoid" if squashed else "identity", codebook)


def _latent(
    run: RunFolder,
    codes: Codes,
    latent: int,
    size: float,
    active: bool,
    shares: NDArray[np.float64] | None,
) -> dict[str, Any]:
    low, high = np.quantile(codes.mean[:, latent].astype(np.float64), QUANTILES)
    if not active or not high > low:
        low, high = -_UNUSED_RANGE, _UNUSED_RANGE
    held = () if shares is None or not active else carried(run.dataset.factor_names, shares[latent])
    return {
        "number": latent,
        "size": size if math.isfinite(size) else 0.0,
        "active": active,
        "low": float(low),
        "high": float(high),
        "factors": [list(one) for one in held],
    }


def _shares(codes: Codes) -> NDArray[np.float64] | None:
    """Information of latents about factors; None where no factor varies in too few samples."""
    try:
        return information_shares(codes)
    except InputError:
        return None


def _strips(
    run: RunFolder,
    member: int,
    codes: Codes,
    typical: NDArray[np.float32],
    latents: list[dict[str, Any]],
) -> NDArray[np.uint8]:
    """Traversals `(latents, frames, height, width, channels)`, grey for latents without one."""
    model = Model(run, member)
    strips = np.full((len(latents), FRAMES, *run.dataset.image_shape), 128, dtype=np.uint8)
    for one in latents:
        if one["active"]:
            latent = one["number"]
            moved = traverse(typical, latent, codes.mean[:, latent], FRAMES, QUANTILES)
            strips[latent] = model.decode(moved)
    return strips


def _curves(run: RunFolder, member: int) -> dict[str, Any]:
    """The training curves of a member, thinned out where they are long."""
    history = run.history()
    rows = history.loc[history["member"] == member]
    if len(rows) > MOST_POINTS:
        rows = rows.iloc[np.linspace(0, len(rows) - 1, MOST_POINTS).round().astype(int)]
    quantities = [
        {
            "name": str(name),
            "values": [value if math.isfinite(value) else None for value in rows[name].tolist()],
        }
        for name in rows.columns
        if name not in ("member", "step") and rows[name].notna().any()
    ]
    return {"steps": rows["step"].tolist(), "quantities": quantities}
