# SPDX-License-Identifier: Apache-2.0
"""Figures of the pinwheel: the aggregate posterior over two latents, a panel for each α and β."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from unbraid.analysis.theory.pinwheel_decomposition import PinwheelDecomposition
from unbraid.report.figure import figure, short
from unbraid.report.gallery.figures import Panel


def pinwheel_panels(found: PinwheelDecomposition) -> list[Panel]:
    """q(z) for each α with β = 0, then for each β with α = 0: the first seed's."""
    members = [(f"α = {alpha:g}, β = 0", found.of(alpha=alpha)[0]) for alpha in found.alphas()]
    members += [(f"β = {beta:g}, α = 0", found.of(beta=beta)[0]) for beta in found.betas()]
    return [
        Panel(
            name,
            density_figure(member.density, found.line),
            f"q(z): KL(p‖q) {member.kl.nats:.2f} nats, posteriors' mean deviation"
            f" {member.posterior_std:.3f}."
            + (
                " Part of it lies outside the frame."
                if _inside(member.density, found.line) < 0.95
                else ""
            ),
        )
        for name, member in members
    ]


def _inside(density: NDArray[np.float64], line: NDArray[np.float64]) -> float:
    """The share of a density that lies within the grid."""
    return float(density.sum() * (line[1] - line[0]) ** 2)


def density_figure(density: NDArray[np.float64], line: NDArray[np.float64]) -> go.Figure:
    """A density over two latents, from 0 to its own largest value.

    Narrow posteriors have peaks that would hide all others on one scale.
    """
    place = [round(float(value), 3) for value in line]
    trace = go.Heatmap(
        x=place,
        y=place,
        z=[short(row, 3) for row in density],
        zmin=0.0,
        zmax=float(density.max()),
        colorscale="Viridis",
        showscale=False,
        hovertemplate="latent 1: %{x:.2f}<br>latent 2: %{y:.2f}<br>density %{z:.3g}<extra></extra>",
    )
    axes = {"xaxis_constrain": "domain", "yaxis_constrain": "domain", "yaxis_scaleanchor": "x"}
    return figure([trace], x="latent 1", y="latent 2", height=320, **axes)
