# SPDX-License-Identifier: Apache-2.0
"""What a page says of a run at a glance: its models, data, training and network."""

from __future__ import annotations

from unbraid.data.dataset import Dataset
from unbraid.data.where_rule import count_images
from unbraid.population.plan import Plan
from unbraid.population.run_folder import RunFolder
from unbraid.report.train.settings import shown, symbol


def facts(run: RunFolder) -> list[tuple[str, str]]:
    """Names and values, in the order of the page."""
    plan, dataset = run.plan, run.dataset
    height, width, channels = dataset.image_shape
    samples = f"{len(dataset):,} images, {height}×{width}" + (
        f"×{channels}" if channels > 1 else ""
    )
    if len(dataset.sample_shape) != 3:
        samples = f"{len(dataset):,} points"
    options = ", ".join(f"{name} {shown(value)}" for name, value in plan.network_options.items())
    rates = list(dict.fromkeys(member.learning_rate for member in plan.members))
    seeds = len({member.seed for member in plan.members})
    return [
        ("Models", f"{len(plan.members):,}" + (f" ({seeds} seeds)" if seeds > 1 else "")),
        ("Data", samples),
        *_part(plan, dataset),
        *dataset.about,
        ("Training", _training(plan)),
        ("Learning rate", ", ".join(map(shown, rates))),
        ("Latents", f"{plan.latents}"),
        ("Network", plan.network + (f" ({options})" if options else "")),
        ("Likelihood", plan.likelihood),
        *_unusual_facts(plan),
        ("Precision", plan.precision),
        (
            "Made with",
            ", ".join(
                f"{name} {plan.made_with[name]}"
                for name in ("unbraid", "torch")
                if name in plan.made_with
            ),
        ),
    ]


def _unusual_facts(plan: Plan) -> list[tuple[str, str]]:
    """Priors, standardised samples and numbers stated in another convention, if any."""
    told = []
    priors = list(dict.fromkeys(member.prior for member in plan.members))
    if priors != ["isotropic"]:
        told.append(("Prior", ", ".join(priors)))
    if plan.standardise:
        told.append(("Samples", "standardised to mean 0 and variance 1"))
    given = {
        (name, shown(value), shown(member.hyper[name]))
        for member in plan.members
        for name, value in member.given.items()
    }
    if given:
        stated = ", ".join(
            f"{symbol(name)} {mean} is {total} of sums" for name, mean, total in sorted(given)
        )
        told.append(("Stated for means", stated))
    return told


def _training(plan: Plan) -> str:
    """How long, on how many images at a time."""
    batch = "every image at each" if plan.full_batch else f"batch {plan.batch_size:,}"
    return f"{plan.steps:,} steps, {batch}" + (", AMSGrad" if plan.amsgrad else "")


def _part(plan: Plan, dataset: Dataset) -> list[tuple[str, str]]:
    """The rule by which training picked its images, if any."""
    if not plan.where:
        return []
    seen = f"{count_images(plan.where, dataset):,} of {len(dataset):,} images; scores are of all"
    return [("Trained where", f"{plan.where} ({seen})")]
