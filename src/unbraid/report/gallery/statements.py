# SPDX-License-Identifier: Apache-2.0
"""Statements of papers: the function that computes each, its figures, and whether it held.

To add one, append a `Statement` to `STATEMENTS`; the page and the command line need nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from unbraid.analysis.theory.beta_vae_theorems import (
    TheoremOne,
    TheoremTwo,
    theorem_one,
    theorem_two,
)
from unbraid.analysis.theory.impossibility import Impossibility, impossibility
from unbraid.analysis.theory.local_axes import LocalAxes, local_axes
from unbraid.analysis.theory.optimal_rotation import RotationSweep, rotation_sweep
from unbraid.analysis.theory.overlap_and_information import (
    OverlapAndInformation,
    overlap_and_information,
)
from unbraid.analysis.theory.pca_alignment import PcaAlignment, pca_alignment
from unbraid.analysis.theory.pinwheel_decomposition import (
    PinwheelDecomposition,
    pinwheel_decomposition,
)
from unbraid.analysis.theory.three_overlaps import ThreeOverlaps, three_overlaps
from unbraid.core.registry import Citation
from unbraid.report.gallery.figures import (
    Panel,
    impossibility_panels,
    local_axes_panels,
    pca_panels,
    rotation_panels,
    theorem_one_panels,
    theorem_two_panels,
)
from unbraid.report.gallery.overlap_figures import information_panels, three_overlaps_panels
from unbraid.report.gallery.pinwheel_figures import pinwheel_panels

LOCATELLO = Citation(
    "Locatello et al.",
    2019,
    "Challenging Common Assumptions in the Unsupervised Learning of Disentangled Representations",
    "ICML",
)
MATHIEU = Citation(
    "Mathieu et al.", 2019, "Disentangling Disentanglement in Variational Autoencoders", "ICML"
)
ROLINEK = Citation(
    "Rolinek et al.", 2019, "Variational Autoencoders Pursue PCA Directions (by Accident)", "CVPR"
)
LUCAS = Citation(
    "Lucas et al.",
    2019,
    "Don't Blame the ELBO! A Linear VAE Perspective on Posterior Collapse",
    "NeurIPS",
)
ZIETLOW = Citation(
    "Zietlow et al.",
    2021,
    "Demystifying Inductive Biases for (Beta-)VAE Based Architectures",
    "ICML",
)

EXACT = 1e-6
"""Nats within which an equation counts as met."""
UNLIKELY = 1e-3
"""Smallest p value, corrected for the number of tests, at which laws still count as equal."""


@dataclass(frozen=True)
class Verdict:
    """Whether the statement held in this computation, and by which numbers."""

    holds: bool
    numbers: tuple[tuple[str, str], ...]
    """What was measured and its value, as shown on the page."""
    line: str
    """The decisive ones in a few words, for the command line."""


@dataclass(frozen=True)
class Statement:
    """One statement of the theory, from the paper to the verdict."""

    key: str
    """A word for links and files."""
    title: str
    papers: tuple[Citation, ...]
    text: str
    """For a reader who has not read the paper."""
    compute: Callable[[int], Any]
    """The evidence, from a seed."""
    panels: Callable[[Any], list[Panel]]
    verdict: Callable[[Any], Verdict]
    call: str
    """How to compute the same in Python."""


def _impossibility(found: Impossibility) -> Verdict:
    p = found.smallest_p
    same = found.log_density_gap < EXACT and found.data_gap < EXACT and p > UNLIKELY
    return Verdict(
        same and found.smallest_slope > 0 and found.mig_before > 0.9 and found.mig_after < 0.1,
        (
            ("MIG of z", f"{found.mig_before:.3f}"),
            ("MIG of f(z)", f"{found.mig_after:.3f}"),
            ("Largest difference of log densities", f"{found.log_density_gap:.1e} nats"),
            ("Smallest p value of equal laws, corrected", f"{p:.2f}"),
            ("Smallest |entry| of the Jacobian", f"{found.smallest_slope:.1e}"),
            ("Largest difference of the data", f"{found.data_gap:.1e}"),
        ),
        f"MIG {found.mig_before:.3f} → {found.mig_after:.3f} while log densities agree to"
        f" {found.log_density_gap:.0e} nats",
    )


def _theorem_one(found: TheoremOne) -> Verdict:
    return Verdict(
        found.largest_gap < EXACT,
        (
            ("Largest difference between the sides", f"{found.largest_gap:.1e} nats"),
            ("β", f"{found.betas.min():g} to {found.betas.max():g}"),
        ),
        f"both sides agree to {found.largest_gap:.0e} nats for β from {found.betas.min():g} to"
        f" {found.betas.max():g}",
    )


def _theorem_two(found: TheoremTwo) -> Verdict:
    exact = max(found.full_gap, found.permutation_gap, found.aligned_gap) < EXACT
    return Verdict(
        exact and found.diagonal_loss > 1e-3,
        (
            ("Full covariance: largest change with the angle", f"{found.full_gap:.1e} nats"),
            ("Diagonal: lost at the worst angle", f"{found.diagonal_loss:.3f} nats"),
            ("Diagonal: lost on the posterior's own axes", f"{found.aligned_gap:.1e} nats"),
            ("Diagonal: largest change by swaps and flips", f"{found.permutation_gap:.1e} nats"),
        ),
        f"full covariance changes by {found.full_gap:.0e} nats over all angles, diagonal loses up"
        f" to {found.diagonal_loss:.3f}",
    )


def _pca(found: PcaAlignment) -> Verdict:
    spread = found.equal_spread
    exact = found.largest_loss_gap < EXACT and found.largest_variance_gap < EXACT
    return Verdict(
        exact and found.smallest_cosine > 0.99 and spread > 5.0,
        (
            ("Smallest |cosine| with a principal axis", f"{found.smallest_cosine:.6f}"),
            ("Restarts", f"{len(found.distinct)} each"),
            ("Largest distance from the closed form's loss", f"{found.largest_loss_gap:.1e} nats"),
            ("Largest distance from its posterior variances", f"{found.largest_variance_gap:.1e}"),
            ("Equal variances: axes of restarts differ by up to", f"{spread:.0f}° of at most 45°"),
        ),
        f"|cosine| with the principal axes ≥ {found.smallest_cosine:.6f}; with equal variances"
        f" restarts differ by {spread:.0f}°",
    )


def _local_axes(found: LocalAxes) -> Verdict:
    turned, flat = found.median("rippled", "degrees"), found.median("flat", "degrees")
    ours, theirs = (
        found.median("rippled", "column_cosine"),
        found.median("autoencoders", "column_cosine"),
    )
    return Verdict(
        abs(turned - found.predicted_degrees) < 8.0
        and abs(flat) < 8.0
        and ours < 0.15
        and theirs > 2.0 * ours,
        (
            ("Angle without the ripple", f"{flat:.1f}° (closed form 0°)"),
            (
                "Angle with the ripple",
                f"{turned:.1f}° (closed form {found.predicted_degrees:.1f}°)",
            ),
            ("Angle of PCA with the ripple", f"{found.pca_degrees:.1f}°"),
            ("|Cosine| between columns, VAE", f"{ours:.2f}"),
            ("|Cosine| between columns, autoencoder", f"{theirs:.2f}"),
            ("|Cosine| with local axes, VAE", f"{found.median('rippled', 'local_cosine'):.2f}"),
            ("|Cosine| with PCA's axes, VAE", f"{found.median('rippled', 'global_cosine'):.2f}"),
        ),
        f"axis at {turned:.1f}° (closed form {found.predicted_degrees:.1f}°, PCA"
        f" {found.pca_degrees:.1f}°); columns' |cosine| {ours:.2f}, autoencoder {theirs:.2f}",
    )


def _rotation(found: RotationSweep) -> Verdict:
    gap = found.searched_loss - found.closed.loss_after
    return Verdict(
        abs(gap) < EXACT and bool((found.losses >= found.closed.loss_after - 1e-12).all()),
        (
            ("Angle by the closed form", f"{found.closed_degrees:.4f}°"),
            ("Angle by search", f"{found.searched_degrees:.4f}°"),
            ("Loss before the rotation", f"{found.closed.loss_before:.4f} nats"),
            ("Loss after the rotation", f"{found.closed.loss_after:.4f} nats"),
            ("Search minus closed form", f"{gap:.1e} nats"),
        ),
        f"closed form {found.closed_degrees:.3f}°, search {found.searched_degrees:.3f}°; loss"
        f" {found.closed.loss_before:.3f} → {found.closed.loss_after:.3f} nats",
    )


def _pinwheel(found: PinwheelDecomposition) -> Verdict:
    alphas, betas = found.alphas(), found.betas()
    divergences = [found.mean_kl(alpha=alpha) for alpha in alphas]
    last = found.of(alpha=alphas[-1])[0]
    spread = [found.of(beta=beta)[0].posterior_std for beta in (betas[0], betas[-1])]
    one, other = found.at_equal_width()[-1]
    return Verdict(
        found.falls_with_alpha
        and float(last.shares.min()) > 0.15
        and found.overlap_rises_with_beta
        and found.nearer_at_equal_width,
        (
            *(
                (f"KL(p‖q), α = {alpha:g}", f"{nats:.3f} nats")
                for alpha, nats in zip(alphas, divergences, strict=True)
            ),
            (
                f"Share of the latents in each cluster, α = {alphas[-1]:g}",
                ", ".join(f"{share:.2f}" for share in last.shares),
            ),
            (
                f"Posterior deviation, β = {betas[0]:g} and {betas[-1]:g}",
                f"{spread[0]:.3f} and {spread[1]:.3f}",
            ),
            (
                f"KL(p‖q) at equal deviation, β = {one.beta:g} and α = {other.alpha:g}",
                f"{one.kl.nats:.2f} and {other.kl.nats:.2f} nats",
            ),
        ),
        f"KL(p‖q) {divergences[0]:.2f} → {divergences[-1]:.2f} nats as α rises from {alphas[0]:g}"
        f" to {alphas[-1]:g}; at equal width of posteriors {other.kl.nats:.2f} with α,"
        f" {one.kl.nats:.2f} with β",
    )


def _three_overlaps(found: ThreeOverlaps) -> Verdict:
    little, right, much = found.models
    return Verdict(
        found.overlap_rises
        and right.covered > little.covered + 0.25
        and right.error < 0.5 * much.error,
        tuple(
            (f"β = {one.beta:g}: overlap, prior covered, error", numbers)
            for one in found.models
            for numbers in [f"{one.overlap:.3f}, {one.covered:.0%}, {one.error:.3f}"]
        ),
        f"q(z) covers {little.covered:.0%} of the prior with too little overlap,"
        f" {right.covered:.0%} with the right one; points are {right.error:.2f} and with too much"
        f" {much.error:.2f} off",
    )


def _information(found: OverlapAndInformation) -> Verdict:
    reach = found.information / found.most
    middle = abs(reach - 0.5).argmin()
    apart = float(found.ball_overlap.max())
    return Verdict(
        bool(reach[0] < 0.05 and reach[-1] > 0.95 and apart < 0.01)
        and bool(found.normal_overlap[middle] > 0.5),
        (
            ("I(x; z) of the balls", f"{reach[0]:.0%} to {reach[-1]:.0%} of log n"),
            ("Largest overlap of balls", f"{apart:.1e}"),
            (
                "Overlap of normal posteriors with half of log n",
                f"{found.normal_overlap[middle]:.2f}",
            ),
        ),
        f"I(x; z) from {reach[0]:.0%} to {reach[-1]:.0%} of log n while balls overlap by"
        f" {apart:.0e}; normal posteriors with half of it by {found.normal_overlap[middle]:.2f}",
    )


STATEMENTS: list[Statement] = [
    Statement(
        "impossibility",
        "Data alone cannot disentangle",
        (LOCATELLO,),
        "Take any continuous latents that are independent of each other. There is a map f that"
        " mixes all of them and yet gives latents of exactly the same law. A second model that"
        " undoes f before its decoder makes the same data with the same probabilities, so no amount"
        " of unlabelled data tells which of the two is right. In the first every latent is a"
        " factor; in the second every latent depends on every factor.",
        lambda seed: impossibility(seed=seed),
        impossibility_panels,
        _impossibility,
        "from unbraid.analysis.theory.impossibility import"
        " impossibility\nimpossibility(seed={seed})",
    ),
    Statement(
        "beta_prior",
        "What β does: a sharper prior and wider posteriors",
        (MATHIEU,),
        "A β-VAE weighs its KL term by β. With β above 1 that is the same as an ordinary VAE with a"
        " narrower prior and a reward for the entropy of its posteriors; with β below 1 the prior"
        " is wider and entropy is punished. Both sides of the equation are computed by separate"
        " means here.",
        lambda seed: theorem_one(seed=seed),
        theorem_one_panels,
        _theorem_one,
        "from unbraid.analysis.theory.beta_vae_theorems import"
        " theorem_one\ntheorem_one(seed={seed})",
    ),
    Statement(
        "beta_rotation",
        "What β does not do: choose axes",
        (MATHIEU,),
        "Turn the latents of a model and undo the turn in front of its decoder. If posteriors may"
        " have any covariance the objective stays the same, whatever β is: nothing prefers one set"
        " of axes. With diagonal covariances, which nearly all VAEs have, only swaps and changes of"
        " sign leave it as it was: what prefers axes is the shape of the posterior, not β.",
        lambda seed: theorem_two(beta=4.0, seed=seed),
        theorem_two_panels,
        _theorem_two,
        "from unbraid.analysis.theory.beta_vae_theorems import theorem_two\ntheorem_two(beta=4.0,"
        " seed={seed})",
    ),
    Statement(
        "linear_pca",
        "A linear VAE finds the principal axes",
        (ROLINEK, LUCAS),
        "A VAE whose encoder and decoder are linear learns the axes of PCA themselves, not just the"
        " plane they span. Its diagonal posterior is the cause. Where two axes have the same"
        " variance there is nothing to choose, and it does not choose.",
        lambda seed: pca_alignment(seed=seed),
        pca_panels,
        _pca,
        "from unbraid.analysis.theory.pca_alignment import"
        " pca_alignment\npca_alignment(seed={seed})",
    ),
    Statement(
        "local_axes",
        "A nonlinear VAE follows local axes",
        (ROLINEK, ZIETLOW),
        "Two factors of unequal variance, and a fine ripple along their diagonal. The ripple hardly"
        " counts in the data's global covariance, so PCA hardly sees it, yet it makes small steps"
        " along the diagonal the most visible ones. A VAE puts its least noisy latent there. An"
        " autoencoder without noise has no such preference.",
        lambda seed: local_axes(seed=seed),
        local_axes_panels,
        _local_axes,
        "from unbraid.analysis.theory.local_axes import local_axes\nlocal_axes(seed={seed})",
    ),
    Statement(
        "optimal_rotation",
        "The best rotation, from the decoder's Jacobian",
        (ROLINEK, ZIETLOW),
        "Around a point a decoder is nearly linear, with a Jacobian J. Of all rotations of the"
        " latents the cheapest makes the columns of J orthogonal: its axes are the right singular"
        " vectors of J, and each posterior variance follows from a singular value. No search is"
        " needed, and none finds better.",
        lambda seed: rotation_sweep(seed=seed),
        rotation_panels,
        _rotation,
        "from unbraid.analysis.theory.optimal_rotation import"
        " rotation_sweep\nrotation_sweep(seed={seed})",
    ),
    Statement(
        "pinwheel",
        "Overlap and structure are two knobs",
        (MATHIEU,),
        "Points in four spiral arms, and a prior of four clusters. q(z) is the law of all latents"
        " together. α weighs how far q(z) is from the prior: raising it brings q(z) to the four"
        " clusters. β weighs the KL of each posterior by itself: raising it widens the posteriors,"
        " so that they overlap more, and brings q(z) to the prior only as far as that takes it."
        " Compare panels whose posteriors are equally wide: α leaves q(z) nearer to the prior.",
        lambda seed: pinwheel_decomposition(seed=seed),
        pinwheel_panels,
        _pinwheel,
        "from unbraid.analysis.theory.pinwheel_decomposition import"
        " pinwheel_decomposition\npinwheel_decomposition(seed={seed})",
    ),
    Statement(
        "three_overlaps",
        "Too little overlap, the right one, too much",
        (MATHIEU,),
        "Points on a cross, and a prior that is a cross. With too little overlap each point has a"
        " place of its own: latents are a lookup table, and q(z) is a set of dots that no prior"
        " forms. With too much every posterior is nearly the prior, and the point is forgotten."
        " Between them neighbours share latents: q(z) takes the prior's form, and points are still"
        " told apart.",
        lambda seed: three_overlaps(seed=seed),
        three_overlaps_panels,
        _three_overlaps,
        "from unbraid.analysis.theory.three_overlaps import"
        " three_overlaps\nthree_overlaps(seed={seed})",
    ),
    Statement(
        "overlap_information",
        "Information does not measure overlap",
        (MATHIEU,),
        "An encoder that sends a sample to a tiny ball of its own with probability λ, and else to a"
        " draw of the prior, tells any amount about the sample, as λ says. Yet the balls never"
        " touch: neighbouring latents mean unrelated samples however little they tell. Normal"
        " posteriors that tell as much lie in each other.",
        lambda seed: overlap_and_information(seed=seed),
        information_panels,
        _information,
        "from unbraid.analysis.theory.overlap_and_information import"
        " overlap_and_information\noverlap_and_information(seed={seed})",
    ),
]
