# SPDX-License-Identifier: Apache-2.0
"""The gallery's figures, pure functions of what was computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from unbraid.analysis.theory.beta_vae_theorems import TheoremOne, TheoremTwo
from unbraid.analysis.theory.impossibility import Impossibility
from unbraid.analysis.theory.local_axes import LocalAxes
from unbraid.analysis.theory.optimal_rotation import RotationSweep
from unbraid.analysis.theory.pca_alignment import LinearVAE, PcaAlignment
from unbraid.report.figure import ACCENT, BLUE, GREEN, GREY, INK, dots, figure, line, ring, short

_SIDE = 31
"""Points along each side of the grid that is mixed."""
_BINS = 30
_BANDS = 6


@dataclass(frozen=True)
class Panel:
    """One figure with what is said above and below it."""

    heading: str
    figure: go.Figure
    caption: str


def impossibility_panels(found: Impossibility) -> list[Panel]:
    """The first two latents before and after the map, and their histograms."""
    laws = found.mapping.marginals
    shares = (np.arange(_SIDE) + 0.5) / _SIDE
    grid = np.stack([one.ravel() for one in np.meshgrid(*[shares] * 2, indexing="ij")], axis=1)
    whole = np.full((len(grid), len(laws)), 0.5)
    whole[:, :2] = grid
    z = np.stack([law.ppf(whole[:, at]) for at, law in enumerate(laws)], axis=1)
    mixed = found.mapping(z)
    before, after = (
        _coloured(points[:, :2], grid[:, 0], "factor 1, as a quantile") for points in (z, mixed)
    )
    panels = [
        Panel(
            "The latents z",
            _plane([before], "latent 1 of z", "latent 2 of z"),
            "The factors are these latents themselves. Colour is factor 1.",
        ),
        Panel(
            "The mixed latents f(z)",
            _plane([after], "latent 1 of f(z)", "latent 2 of f(z)"),
            "The same points in the same colours: factor 1 now changes along both latents.",
        ),
    ]
    for at in range(2):
        low, high = np.quantile(found.z[:, at], [0.001, 0.999])
        edges = np.linspace(low, high, _BINS + 1)
        middles = (edges[1:] + edges[:-1]) / 2
        lines = [
            _line(
                middles,
                _histogram(found.z[:, at], edges),
                "z",
                BLUE,
                line_width=5,
                line_shape="hvh",
            ),
            _line(middles, _histogram(found.mixed[:, at], edges), "f(z)", ACCENT, line_shape="hvh"),
        ]
        axes = {"x": f"value of latent {at + 1}", "y": "density", "yaxis_rangemode": "tozero"}
        panels.append(
            Panel(
                f"Latent {at + 1}: one law",
                _with_legend(lines, **axes),
                f"Histograms of {len(found.z):,} samples before and after the mixing.",
            )
        )
    return panels


def theorem_one_panels(found: TheoremOne) -> list[Panel]:
    """Both sides against β, and the sharper priors that the theorem names."""
    sides = [
        _line(found.betas, found.left, "left side: L(β)", BLUE),
        _dots(found.betas, found.right, "right side: its three parts", ACCENT),
        _line(
            found.betas,
            found.elbo,
            "first part alone: ELBO with the changed prior",
            GREY,
            line_dash="dot",
        ),
    ]
    ticks = {
        "type": "log",
        "tickvals": found.betas.tolist(),
        "ticktext": [f"{beta:g}" for beta in found.betas],
    }
    reach = 3.0 * math.sqrt(found.prior_variance)
    line = np.linspace(-reach, reach, 241)
    curves = []
    for beta, colour in zip((0.5, 1.0, 4.0), (GREEN, INK, BLUE), strict=True):
        # Normalised by a sum, so that the dots owe nothing to the closed form they lie on.
        power = np.exp(
            -0.5 * beta * np.linspace(-40 * reach, 40 * reach, 200_001) ** 2 / found.prior_variance
        )
        area = power.sum() * 80 * reach / 200_000
        some = line[::12]
        variance = found.prior_variance / beta
        closed = np.exp(-0.5 * line**2 / variance) / math.sqrt(2 * math.pi * variance)
        curves.append(_line(line, closed, f"β = {beta:g}: normal, variance {variance:g}", colour))
        numerical = np.exp(-0.5 * beta * some**2 / found.prior_variance) / area
        name = f"prior to the power {beta:g}, normalised"
        curves.append(_dots(some, numerical, name, colour, showlegend=False))
    return [
        Panel(
            "L(β) and its three parts",
            _with_legend(sides, x="β", y="nats", xaxis=ticks),
            "The circles are the ELBO with the prior that β stands for, plus (β − 1) times the"
            " entropy of the posterior, plus the log of a constant that makes the prior to the"
            " power β a density.",
        ),
        Panel(
            "The prior that β stands for",
            _with_legend(curves, x="latent", y="density"),
            "Circles: the prior to the power β, made a density by a sum. Lines: normal densities. A"
            " larger β asks for the same shape, only narrower. It does not turn or split it.",
        ),
    ]


def theorem_two_panels(found: TheoremTwo) -> list[Panel]:
    """L(β) against the angle by which the latents are turned."""
    lines = [
        _line(found.degrees, found.full, "full covariance", BLUE),
        _line(found.degrees, found.diagonal, "best diagonal covariance", ACCENT),
    ]
    aligned = [found.aligned_degrees, found.aligned_degrees + 90.0]
    lines.append(
        _dots(aligned, [float(found.full[0])] * 2, "latents on the posterior's own axes", INK)
    )
    return [
        Panel(
            "Turning the latents",
            _by_angle(lines, f"L(β) at β = {found.beta:g}, nats"),
            "At every angle the best posterior of its kind. With full covariances every angle is as"
            " good. With diagonal ones only a quarter turn, which swaps the latents, gives the same"
            " again.",
        )
    ]


def pca_panels(found: PcaAlignment) -> list[Panel]:
    """Directions of the decoder's columns, for distinct and for equal eigenvalues."""
    return [
        Panel(
            "Different variances: one answer",
            _directions(found.distinct),
            "Ellipse: spread of the data along its first two principal axes. Lines: how the"
            " decoder's output moves when one latent goes from −1 to 1, for the latent of each"
            " restart that fits the first axis (blue) and the second (orange). All restarts"
            " coincide.",
        ),
        Panel(
            "Equal variances: no answer",
            _directions(found.equal),
            "The same where both variances are equal. Every restart fits as well and ends at other"
            " axes.",
        ),
    ]


def local_axes_panels(found: LocalAxes) -> list[Panel]:
    """The least noisy latent without and with the ripple, and the columns' cosines."""
    flat, rippled = (
        found.flat[0],
        sorted(found.rippled, key=lambda one: one.degrees)[len(found.rippled) // 2],
    )
    panels = []
    flat_caption = "Colours: bands of the least noisy latent. It runs along factor 1, as PCA says."
    rippled_caption = (
        "It turns to where the data changes fastest: the bands stand across the orange line."
    )
    for title, one, principal, closed, caption in (
        ("Without the ripple", flat, 0.0, 0.0, flat_caption),
        ("With the ripple", rippled, found.pca_degrees, found.predicted_degrees, rippled_caption),
    ):
        lines = [
            _coloured(
                found.factors,
                _bands(one.codes, found.factors[:, 0]),
                "band of the least noisy latent",
            ),
            _axis(principal, "PCA", INK, "dash"),
            _axis(closed, "closed form", ACCENT, "solid"),
        ]
        panels.append(
            Panel(
                title, _plane(lines, "factor 1", "factor 2", square=True, showlegend=True), caption
            )
        )
    kinds = (
        ("VAE, no ripple", found.flat),
        ("VAE, ripple", found.rippled),
        ("autoencoder, ripple", found.autoencoders),
    )
    rows = [
        _row([one.column_cosine for one in group], name, name, colour)
        for (name, group), colour in zip(kinds, (GREEN, BLUE, ACCENT), strict=True)
    ]
    axes = {"x": "mean |cosine| of the two columns", "xaxis_rangemode": "tozero"}
    cosines = figure(rows, height=300, **axes)
    panels.append(
        Panel(
            "Are the columns orthogonal?",
            cosines,
            "Of the decoder's Jacobian; 0 means orthogonal. A dot for each restart.",
        )
    )
    angles = [
        _row([one.degrees for one in group], name, name, colour)
        for (name, group), colour in zip(kinds[:2], (GREEN, BLUE), strict=True)
    ]
    marks = [("PCA", found.pca_degrees, INK), ("closed form", found.predicted_degrees, ACCENT)]
    angles += [
        _row([at], kinds[1][0], name, colour, marker_symbol="line-ns-open", marker_size=22)
        for name, at, colour in marks
    ]
    turned = figure(angles, height=300, x="angle of the least noisy latent, degrees")
    panels.append(
        Panel(
            "Where do the latents point?",
            turned,
            "Bars in the rippled row: PCA (black), closed form (orange).",
        )
    )
    return panels


def rotation_panels(found: RotationSweep) -> list[Panel]:
    """The loss against the angle, with the closed form's angle marked."""
    places = [found.closed_degrees, found.closed_degrees + 90.0]
    lines = [
        _line(found.degrees, found.losses, "loss with the best variances at that angle", BLUE),
        _dots(places, [found.closed.loss_after] * 2, "closed form", ACCENT),
    ]
    return [
        Panel(
            "Turning two latents",
            _by_angle(lines, "loss, nats"),
            "The part of the loss that a rotation can change. Its least is reached without any"
            f" search: at {found.closed_degrees:.1f}°, and a quarter turn on, where the axes are"
            " swapped.",
        )
    ]


def _directions(restarts: Sequence[LinearVAE]) -> go.Figure:
    first = restarts[0]
    around = np.linspace(0.0, 2.0 * np.pi, 121)
    radii = np.sqrt(first.eigenvalues[:2])
    lines = [
        _line(
            radii[0] * np.cos(around),
            radii[1] * np.sin(around),
            "data, one deviation",
            GREY,
            fill="toself",
            fillcolor="rgba(138,148,160,0.12)",
        )
    ]
    for one in restarts:
        for at in range(2):
            x, y = first.axes[:, :2].T @ one.decoder[:, at]
            lines.append(_line([-x, x], [-y, y], "latents", (BLUE, ACCENT)[at]))
    return _plane(lines, "along the first principal axis", "along the second", square=True)


def _axis(degrees: float, name: str, colour: str, dash: str) -> go.Scatter:
    x, y = 3.0 * math.cos(math.radians(degrees)), 3.0 * math.sin(math.radians(degrees))
    return _line([-x, x], [-y, y], name, colour, line_dash=dash)


def _bands(codes: NDArray[np.float64], along: NDArray[np.float64]) -> NDArray[np.float64]:
    """The band of each code, from 1, with as many codes in each; their edges show a direction.

    A latent's sign is chance: here it rises where *along* does.
    """
    ranks = (codes * np.sign(codes @ along)).argsort().argsort()
    return np.floor(_BANDS * ranks / len(codes)) + 1.0


def _histogram(values: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    counts = np.histogram(values, edges)[0]
    return counts / (len(values) * (edges[1] - edges[0]))


def _coloured(points: NDArray[np.float64], colour: NDArray[np.float64], name: str) -> go.Scatter:
    hover = f"%{{x:.2f}}, %{{y:.2f}}<br>{name} %{{marker.color:.2f}}<extra></extra>"
    look = {"marker_size": 5, "marker_colorscale": "Viridis", "hovertemplate": hover}
    x, y = points[:, 0], points[:, 1]
    return dots(x, y, name, short(colour), showlegend=False, **look)


def _line(x: ArrayLike, y: ArrayLike, name: str, colour: str, **look: Any) -> go.Scatter:
    hover = f"{name}<br>%{{x:.4g}}: %{{y:.5g}}<extra></extra>"
    return line(short(x), y, name, colour, hovertemplate=hover, **look)


def _dots(x: ArrayLike, y: Any, name: str, colour: str, **look: Any) -> go.Scatter:
    hover = f"{name}<br>%{{x:.4g}}, %{{y}}<extra></extra>"
    return ring(short(x), y, name, colour, hovertemplate=hover, **look)


def _row(values: Sequence[float], row: str, name: str, colour: str, **look: Any) -> go.Scatter:
    """Dots in a row that has a name."""
    return _dots(values, [row] * len(values), name, colour, **look)


def _with_legend(traces: Sequence[go.Scatter], **look: Any) -> go.Figure:
    return figure(traces, height=340, showlegend=True, **look)


def _by_angle(traces: Sequence[go.Scatter], y: str) -> go.Figure:
    axis = {"tickvals": list(range(0, 181, 45)), "range": [0, 180]}
    return _with_legend(traces, x="angle of the rotation, degrees", y=y, xaxis=axis)


def _plane(
    traces: Sequence[go.Scatter], x: str, y: str, *, square: bool = False, **look: Any
) -> go.Figure:
    """Points of a plane; *square* gives both axes one unit, so that angles look as they are."""
    equal = {"yaxis_scaleanchor": "x", "yaxis_scaleratio": 1} if square else {}
    return figure(traces, x=x, y=y, height=360, **equal, **look)
