# SPDX-License-Identifier: Apache-2.0
"""Everything goes with everything that makes sense: each objective x prior x likelihood x network
takes three finite steps.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

import unbraid as ub
from unbraid.core.errors import InputError, Problem
from unbraid.core.random import Stream
from unbraid.data import load
from unbraid.data.dataset import Dataset
from unbraid.networks import NETWORKS
from unbraid.networks.layout import Layout
from unbraid.objectives import OBJECTIVES, factor_vae
from unbraid.objectives.beta_vae import BetaVAE
from unbraid.objectives.objective import Setting
from unbraid.objectives.priors import PRIORS
from unbraid.objectives.priors.isotropic import STANDARD
from unbraid.objectives.priors.sparse import Sparse
from unbraid.population.plan import Plan, make_plan
from unbraid.population.resolve import refusals, setting_of
from unbraid.population.training_step import TrainingStep

CPU = torch.device("cpu")
LIKELIHOODS = (
    "bernoulli",
    "gaussian",
    "laplace:scale=0.1",
    "gaussian:scale=learned",
    "bernoulli+gauss2",
    "gaussian+box3",
)
SIDES = {"conv_dcgan": 32, "conv_batchnorm": 32}
"""The smallest images of each network; 28 where none is told."""
OPTIONS = {"mlp": {"hidden": 8}}
PRIOR_OPTIONS: dict[str, dict[str, Any]] = {
    "anisotropic": {"variances": (2.0, 1.0, 1.0, 0.5), "learned": "yes"}
}
LATENTS = 4
VARIANCE_HEADS = ("encoder.logvar", "encoder.std", "encoder.log_std")
"""What nothing moves where an objective has no use for the posterior's variance."""


class OwnPrior(Sparse):
    """A prior that nobody has registered."""


@cache
def data(side: int) -> Dataset:
    return load("sprites", x=4, y=3, scale=2, shape=1, orientation=1, image_size=side)


def combined(objective: str, prior: str, likelihood: str, network: str) -> tuple[Plan, Dataset]:
    return make_plan(
        data(SIDES.get(network, 28)),
        objective,
        prior=prior,
        prior_options=PRIOR_OPTIONS.get(prior, {}),
        likelihood=likelihood,
        network=network,
        network_options=OPTIONS.get(network, {}),
        latents=LATENTS,
        batch_size=4,
        steps=3,
        learning_rate=1e-3,
    )


def reasons(objective: str, prior: str) -> str:
    return OBJECTIVES.load(objective)().refuses(PRIORS.load(prior)())


@pytest.fixture
def quick_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """FactorVAE's discriminator small, and a network's first weights drawn once: both would take
    most of the time.
    """
    monkeypatch.setattr(factor_vae, "_HIDDEN", 16)
    drawn: dict[Any, torch.Tensor] = {}
    draw = Layout.initial

    def initial(self: Layout, seed: torch.Tensor, stream: Stream) -> torch.Tensor:
        key = (self.weights, self.added, tuple(seed.tolist()), stream)
        if key not in drawn:
            drawn[key] = draw(self, seed, stream)
        return drawn[key].clone()

    monkeypatch.setattr(Layout, "initial", initial)


def assert_three_finite_steps(objective: str, prior: str, likelihood: str, network: str) -> None:
    plan, dataset = combined(objective, prior, likelihood, network)
    program = TrainingStep(plan, plan.members, dataset, CPU)
    state = program.start()
    before = state.model.weights.clone()
    for _ in range(3):
        program.step(state)
    what = f"{objective} with {prior}, {likelihood}, {network}"
    assert state.diverged_at.tolist() == [-1], f"{what} diverged"
    assert torch.isfinite(state.history).all(), f"{what} has a loss that is not finite"
    assert torch.isfinite(state.model.weights).all(), f"{what} has weights that are not finite"
    learned = program.layout.views(state.model.weights - before)
    for name, moved in learned.items():
        still = not program.kinds[0].objective.samples_latents and name.startswith(VARIANCE_HEADS)
        assert still or moved.any(), f"{what} never moved {name}"


@pytest.mark.parametrize("objective", OBJECTIVES.built_in)
def test_every_prior_and_likelihood_takes_three_finite_steps(objective: str, quick_start: None):
    priors = [prior for prior in PRIORS.built_in if not reasons(objective, prior)]
    assert priors, f"{objective} goes with no prior at all"
    for prior, likelihood in itertools.product(priors, LIKELIHOODS):
        assert_three_finite_steps(objective, prior, likelihood, "mlp")


@pytest.mark.parametrize("objective", OBJECTIVES.built_in)
@pytest.mark.parametrize("network", NETWORKS.built_in)
def test_every_network_takes_three_finite_steps(network: str, objective: str, quick_start: None):
    # All likelihoods in turn: each meets every network.
    place = list(OBJECTIVES.built_in).index(objective) % len(LIKELIHOODS)
    assert_three_finite_steps(objective, "isotropic", LIKELIHOODS[place], network)


@pytest.mark.parametrize(
    ("objective", "prior"), list(itertools.product(OBJECTIVES.built_in, PRIORS.built_in))
)
def test_what_makes_no_sense_is_refused_with_a_reason(objective: str, prior: str):
    reason = reasons(objective, prior)
    if not reason:
        combined(objective, prior, "bernoulli", "mlp")
        return
    with pytest.raises(InputError) as caught:
        combined(objective, prior, "bernoulli", "mlp")
    assert (
        str(caught.value) == f"{objective}: prior {reason}; got '{prior}'. Use the prior isotropic."
    )


def test_reasons_by_name():
    assert reasons("factor_vae", "mixture") == "must have independent latents"
    assert (
        reasons("dip_vae_i", "student_t")
        == "must be the standard normal, to whose moments the latents are drawn"
    )
    assert reasons("ae", "sparse") == "is not used by this objective"
    assert not reasons("decomposition", "mixture")
    assert not any(reasons(name, "isotropic") for name in OBJECTIVES.built_in)


@pytest.mark.parametrize(
    ("given", "name", "hyper"),
    [
        ("iso", "isotropic", {}),
        ("student-t:df=5", "student_t", {"df": 5.0}),
        ("sparse:gamma=0.5,spike=0.1", "sparse", {"gamma": 0.5, "spike": 0.1}),
        (ub.Sparse(gamma=0.3), "sparse", {"gamma": 0.3, "spike": 0.05}),  # type: ignore[attr-defined]
    ],
)
def test_priors_by_other_names_and_with_options(given: Any, name: str, hyper: dict[str, float]):
    plan, _ = make_plan(data(28), "beta_vae", prior=given, network="mlp", latents=LATENTS)
    assert [(one.prior, one.prior_hyper) for one in plan.members] == [(name, hyper)]


def test_several_priors_are_a_sweep():
    plan, _ = make_plan(
        data(28),
        "beta_vae",
        prior=["isotropic", ub.Sparse(gamma=[0.0, 0.8])],
        network="mlp",
        seeds=2,
    )  # type: ignore[attr-defined]
    assert [(one.prior, one.prior_hyper.get("gamma"), one.seed) for one in plan.members] == [
        (*kind, seed)
        for kind in (("isotropic", None), ("sparse", 0.0), ("sparse", 0.8))
        for seed in (0, 1)
    ]
    assert [len(group) for group in plan.siblings()] == [2, 2, 2]
    assert Plan.from_record(plan.record()).members == plan.members


@pytest.mark.parametrize(
    ("prior", "options", "told"),
    [
        (
            "sparce",
            {},
            (
                "prior 'sparce' is unknown; did you mean 'sparse'? Known:"
                f" {', '.join(sorted(PRIORS))}."
            ),
        ),
        (
            "sparse",
            {"gama": 1},
            "sparse option 'gama' is unknown; did you mean 'gamma'? Known: gamma, spike.",
        ),
        ("isotropic", {"scale": 1}, "prior isotropic has no options; got 'scale'."),
        ("sparse", {"gamma": 2}, "sparse: gamma must be at most 1; got 2."),
        ([], {}, "prior needs at least one; got []."),
        (
            [3],
            {},
            (
                "prior must be a prior, its name, or a list of them; got 3. For example 'sparse' or"
                " unbraid.Sparse(gamma=0.8)."
            ),
        ),
        (
            3,
            {},
            (
                "prior must be a prior, its name, or a list of them; got 3. For example 'sparse' or"
                " unbraid.Sparse(gamma=0.8)."
            ),
        ),
        (
            None,
            {},
            (
                "prior must be a prior, its name, or a list of them; got None. For example 'sparse'"
                " or unbraid.Sparse(gamma=0.8)."
            ),
        ),
        ("sparse", 3, "prior_options must be a dictionary; got 3. For example {'gamma': 0.8}."),
        (
            OwnPrior(),
            {},
            (
                "prior OwnPrior is not registered, so a run could not find it again; call"
                " unbraid.PRIORS.register('my_prior', OwnPrior), or add it to the entry points"
                " 'unbraid.priors' of an installed package."
            ),
        ),
    ],
)
def test_bad_priors_are_refused_by_name(prior: Any, options: dict[str, Any], told: str):
    with pytest.raises(InputError) as caught:
        make_plan(data(28), "beta_vae", prior=prior, prior_options=options, network="mlp")
    assert str(caught.value) == told


def test_weights_of_means_are_converted_and_both_numbers_are_kept():
    plan, dataset = make_plan(
        data(28),
        "beta_vae",
        hyper={"beta": [0.003, "linear(0, 0.003, 10)"]},
        convention="mean",
        network="mlp",
    )
    factor = np.prod(dataset.sample_shape) / plan.latents
    assert plan.members[0].hyper["beta"] == pytest.approx(0.003 * factor)
    assert plan.members[1].build().beta.end == pytest.approx(0.003 * factor)  # type: ignore[attr-defined]
    assert [one.given for one in plan.members] == [
        {"beta": 0.003},
        {"beta": "linear(0, 0.003, 10)"},
    ]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"convention": "median"}, "convention must be one of sum, mean; got 'median'."),
        ({"standardise": 3}, "standardise must be True or False; got 3."),
        (
            {"convention": "mean"},
            (
                "convention can be mean only where beta is given, since its default is meant for"
                " sums; got beta_vae without it. Give beta as the paper states it."
            ),
        ),
        (
            {"objective": "dip_vae_i", "convention": "mean"},
            (
                "convention can be mean for objectives whose KL has a weight of its own; got"
                " 'dip_vae_i'. Use the convention sum."
            ),
        ),
    ],
)
def test_bad_conventions_are_refused(options: dict[str, Any], told: str):
    with pytest.raises(InputError) as caught:
        make_plan(data(28), **{"objective": "beta_vae", "network": "mlp", **options})
    assert str(caught.value) == told


def test_standardised_samples_have_mean_0_and_variance_1_and_no_bernoulli():
    plan, dataset = make_plan(
        data(28), "beta_vae", standardise=True, network="mlp", network_options={"hidden": 8}
    )
    assert plan.likelihood == "gaussian"
    assert not plan.bounded(dataset)
    x = dataset.sampler("cpu")(torch.arange(len(dataset)))
    seen = plan.build_network().standardise(x.unsqueeze(0))  # type: ignore[attr-defined]
    assert abs(float(seen.mean())) < 1e-5
    assert float(seen.std()) == pytest.approx(1.0, abs=1e-3)
    with pytest.raises(InputError, match="likelihood needs samples between 0 and 1"):
        make_plan(data(28), "beta_vae", standardise=True, likelihood="bernoulli", network="mlp")


def test_a_whole_table_in_order_has_pairs_and_another_has_not():
    images = np.zeros((6, 8, 8, 1), dtype=np.uint8)
    rows = np.array([[a, b] for a in range(2) for b in range(3)])
    assert setting_of(load(images, factors=rows), LATENTS).complete
    assert not setting_of(load(images, factors=rows[::-1]), LATENTS).complete
    assert not setting_of(load(images[:5], factors=rows[:5]), LATENTS).complete
    assert setting_of(load(images), LATENTS).factor_sizes == ()


@pytest.mark.parametrize("given", ["mlp:hidden=8", "mlp"])
def test_a_network_may_be_spelled_with_its_options(given: str):
    options = {} if ":" in given else {"hidden": 8}
    plan, _ = make_plan(data(28), "vae", network=given, network_options=options)
    assert (plan.network, plan.network_options["hidden"]) == ("mlp", 8)


def test_modules_given_as_a_network_hear_of_the_class_to_derive_from():
    with pytest.raises(InputError) as caught:
        make_plan(data(28), "vae", network=(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)))  # type: ignore[arg-type]
    assert (
        str(caught.value)
        == "network must be a name or a network object; got a tuple. Plain torch modules become one"
        " by a class derived from unbraid.networks.ModuleNetwork (examples/own_network.py)."
    )


def test_numbers_after_a_comma_go_on_with_the_vector():
    plan, _ = make_plan(
        data(28), "beta_vae", prior="anisotropic:variances=4,2,1,1", latents=4, network="mlp"
    )
    assert plan.members[0].prior_hyper["variances"] == (4.0, 2.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("objective", "steps", "told"),
    [
        (
            ub.BetaVAE(beta="linear(0, 4, 100)"),
            50,
            ["beta_vae: beta is 2 after 50 steps, where linear(0, 4, 100) would go on to 4"],
        ),  # type: ignore[attr-defined]
        (ub.BetaVAE(beta="linear(0, 4, 100)"), 100, []),  # type: ignore[attr-defined]
        (ub.BetaVAE(beta="cyclic(0, 4, 100)"), 50, []),  # type: ignore[attr-defined]
        (
            ub.AnnealedVAE(),
            30_000,
            [
                "annealed_vae: the capacity reaches 7.5 of 25 nats in 30,000 steps; ramp_steps is"
                " 100000"
            ],
        ),  # type: ignore[attr-defined]
        (ub.AnnealedVAE(ramp_steps=10), 30, []),  # type: ignore[attr-defined]
        (
            ub.FewLabels(annealing="fine_tune"),  # type: ignore[attr-defined]
            10_000,
            ["labels: the supervised term never counts in 10,000 steps; annealing_steps is 10,000"],
        ),
        (ub.FewLabels(annealing="anneal", annealing_steps=9), 10, []),  # type: ignore[attr-defined]
    ],
)
def test_what_does_not_come_to_its_end_is_remarked_on(objective: Any, steps: int, told: list[str]):
    assert objective.remarks(steps) == told


def test_a_member_remarks_on_its_objective_and_its_supervision():
    plan, _ = make_plan(
        data(28), "annealed_vae", network="mlp", supervision="labels:annealing=anneal", steps=9
    )
    found = plan.members[0].remarks(9)
    assert [line.partition(":")[0] for line in found] == ["annealed_vae", "labels"]


def test_schedules_of_supervision_that_do_not_end_are_remarked_once():
    given = {"network": "mlp", "steps": 4}
    labels = make_plan(data(28), "beta_vae", supervision="labels:weight=linear(0, 1, 5)", **given)
    (line,) = labels[0].members[0].remarks(4)
    assert line.startswith("labels: weight is 0.8 after 4 steps")
    own = make_plan(data(28), "ada_gvae:threshold=linear(0, 1, 5)", **given)
    (line,) = own[0].members[0].remarks(4)
    assert line.startswith("ada_gvae: threshold is 0.8 after 4 steps")


def test_a_problem_of_any_value_is_refused_once():
    @dataclass(frozen=True)
    class Picky(BetaVAE):
        def problems(self, setting, prior):
            return 2 * [Problem("picky: factors", "must be two", list(setting.factor_sizes))]

    found = refusals([Picky()], [STANDARD], [None], Setting(2, (1, 8, 8), (3, 4, 5)))
    assert [(one.name, one.value) for one in found] == [("picky: factors", [3, 4, 5])]


def problems_of(objective: Any, **options: Any) -> list[tuple[str, str]]:
    with pytest.raises(InputError) as caught:
        make_plan(data(28), objective, network="mlp", steps=2, **options)
    return [(one.name, one.rule) for one in caught.value.problems]


def test_words_go_on_with_the_option_before_them():
    def of(objective: Any, **options: Any) -> list[Any]:
        plan, _ = make_plan(data(28), objective, network="mlp", steps=2, **options)
        return [
            one.hyper.get("divergence") or one.supervision_hyper["loss"] for one in plan.members
        ]

    assert of("ada_gvae:divergence=kl,symmetric_kl") == ["kl", "symmetric_kl"]
    assert of("beta_vae", supervision="labels:loss=xent,l2,count=10") == ["xent", "l2"]


def test_an_option_is_said_once():
    assert problems_of("beta_vae:beta=1,beta=4") == [("option beta", "may be given once")]
    assert problems_of("beta_vae:beta=1", hyper={"beta": 4}) == [
        ("beta", "is given with beta_vae already")
    ]
    (found,) = problems_of("beta_vae", hyper={"steps": 4})
    assert found == ("steps", "is no hyperparameter, but a parameter of its own")


def test_a_number_among_objectives_is_a_list_with_blanks():
    assert problems_of(["beta_vae", "4"]) == [("objective", "must be a name")]
