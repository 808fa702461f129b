# SPDX-License-Identifier: Apache-2.0
"""Figures of overlap: three models on a cross, and information that is no measure of overlap."""

from __future__ import annotations

from unbraid.analysis.theory.overlap_and_information import OverlapAndInformation
from unbraid.analysis.theory.three_overlaps import ThreeOverlaps
from unbraid.report.figure import ACCENT, BLUE, GREY, figure, line, short
from unbraid.report.gallery.figures import Panel
from unbraid.report.gallery.pinwheel_figures import density_figure


def three_overlaps_panels(found: ThreeOverlaps) -> list[Panel]:
    """The prior, and q(z) of each model."""
    names = ("too little", "right", "too much")
    return [Panel("The prior p(z)", density_figure(found.prior, found.line), "A cross.")] + [
        Panel(
            f"β = {one.beta:g}: {name}",
            density_figure(one.density, found.line),
            f"q(z). Overlap {one.overlap:.3f}; it covers {one.covered:.0%} of the prior, and points"
            f" are decoded {one.error:.2f} off.",
        )
        for one, name in zip(found.models, names, strict=True)
    ]


def information_panels(found: OverlapAndInformation) -> list[Panel]:
    """Overlap against information, of balls and of normal posteriors."""
    x = short(found.information)
    traces = [
        line(x, short(found.ball_overlap), "balls that hold the information", BLUE),
        line(x, short(found.normal_overlap), "normal posteriors", ACCENT),
        line([found.most] * 2, [0.0, 1.0], "log n, the most there can be", GREY, line_dash="dot"),
    ]
    axes = {"x": "I(x; z), nats", "y": "overlap with the neighbour"}
    drawn = figure(traces, height=340, showlegend=True, **axes)
    caption = (
        "Both encoders tell as much about the sample. What tells it overlaps in one and never in"
        " the other."
    )
    return [Panel("One information, two overlaps", drawn, caption)]
