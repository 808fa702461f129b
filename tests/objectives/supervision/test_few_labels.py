# SPDX-License-Identifier: Apache-2.0
"""What all objectives with few labels share: schedules, learned numbers, refusals, and labels that
stay with their images.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from unbraid.objectives.s2_beta_vae import S2BetaVAE
from unbraid.objectives.semi_supervised import annealed
from unbraid.objectives.supervised import Supervised

import unbraid as ub
from unbraid.core.errors import InputError
from unbraid.data import load
from unbraid.objectives import OBJECTIVES
from unbraid.objectives.hyper import stack
from unbraid.objectives.objective import Setting, total_loss
from unbraid.objectives.priors.isotropic import STANDARD
from unbraid.objectives.schedule import linear
from unbraid.objectives.supervision.label_losses import LABEL_LOSSES
from unbraid.population.plan import make_plan
from unbraid.population.training_step import TrainingStep

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "few_labels.json"
SEMI = ("s2_beta_vae", "s2_factor_vae", "s2_dip_vae_i", "s2_dip_vae_ii", "s2_beta_tcvae")
ALL = (*SEMI, "supervised")
SIZES = (3, 5, 4)
SETTING = Setting(latents=6, sample_shape=(1, 16, 16), factor_sizes=SIZES, dataset_size=60)
SMALL = {"image_size": 16, "x": 4, "y": 4, "scale": 3}
TINY = {
    "data": "sprites",
    "data_options": SMALL,
    "network": "mlp",
    "network_options": {"hidden": 16},
    "batch_size": 8,
    "latents": 4,
    "steps": 4,
}


def labelled_parts(objective, members=3, labelled=9, seed=3):
    """A labelled batch for `make_forward`, and learned numbers other than those of the start."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    sizes = torch.tensor(SIZES, dtype=torch.float64).expand(members, -1)
    return {
        "labelled_mean": normal(members, labelled, 6),
        "labels": torch.floor(
            torch.rand(members, labelled, 3, generator=generator, dtype=torch.float64)
            * sizes.unsqueeze(1)
        ),
        "label_sizes": sizes,
        "label_values": max(SIZES),
        "weights": {
            weight.name: weight.start + 0.3 * normal(members, *weight.shape)
            for weight in objective.weights(SETTING)
        },
        "permutation": torch.arange(8).expand(members, 6, 8),
        "auxiliary": lambda z: z[..., :2],
    }


def make(name, **hyper):
    return OBJECTIVES.load(name)(**hyper)


def test_golden_annealers():
    values = json.loads(GOLDEN.read_text())["values"]
    for kind in ("anneal", "fine_tune"):
        for step, expected in values[kind].items():
            assert float(annealed(kind, 4.0, torch.tensor(float(step)), 1000)) == pytest.approx(
                expected, rel=1e-6
            )


def test_annealers_by_hand_for_members_of_their_own():
    strength, threshold = torch.tensor([1.0, 4.0]), torch.tensor([10.0, 100.0])
    at = lambda kind, step: annealed(kind, strength, torch.tensor(float(step)), threshold).tolist()  # noqa: E731
    assert at("anneal", 5) == pytest.approx([0.5, 0.2])
    assert at("anneal", 50) == pytest.approx([1.0, 2.0])
    assert at("fine_tune", 10) == [0.0, 0.0]
    assert at("fine_tune", 11) == [1.0, 0.0]
    assert at("fine_tune", 101) == [1.0, 4.0]
    assert annealed("fixed", 4.0, torch.tensor(0.0), 10) == 4.0


@pytest.mark.parametrize("kind", ["fixed", "anneal", "fine_tune"])
def test_the_schedule_weighs_the_supervised_term(make_forward, kind):
    objective = S2BetaVAE(gamma_sup=4, annealing=kind, annealing_steps=1000)
    for step, expected in ((0, (4, 0, 0)), (250, (4, 1, 0)), (1000, (4, 4, 0)), (1001, (4, 4, 4))):
        forward = make_forward(
            latents=6, step=torch.tensor(float(step)), **labelled_parts(objective)
        )
        weight = expected[("fixed", "anneal", "fine_tune").index(kind)]
        assert float(objective.terms(forward)["supervised"].weight) == pytest.approx(weight)


def test_a_weight_on_a_schedule_reaches_the_term():
    stacked = stack([S2BetaVAE(gamma_sup=linear(0, 4, 100)), S2BetaVAE(gamma_sup=2)])
    assert stacked.at(torch.tensor(25.0)).gamma_sup.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("name", SEMI)
def test_without_weight_it_is_the_unsupervised_objective(make_forward, name):
    parent = make(name.removeprefix("s2_"))
    objective = make(name, gamma_sup=0)
    forward = make_forward(latents=6, **labelled_parts(objective))
    assert torch.equal(total_loss(objective.terms(forward)), total_loss(parent.terms(forward)))
    assert objective.term_names == (*parent.term_names, "supervised")
    kept = ("prior_kind", "permutes", "strength", "samples_latents", "needs_prior_points")
    assert [getattr(objective, what) for what in kept] == [getattr(parent, what) for what in kept]
    assert type(objective.auxiliary_network()) is type(parent.auxiliary_network())


@pytest.mark.parametrize("loss", LABEL_LOSSES)
@pytest.mark.parametrize("name", ALL)
def test_members_keep_to_themselves_with_every_loss(make_forward, name, loss):
    hyper = [
        {"embedding_sigma": sigma} | ({} if name == "supervised" else {"gamma_sup": gamma})
        for sigma, gamma in ((1, 2), (0.5, 3), (2, 0))
    ]
    objectives = [make(name, label_loss=loss, learn_sigma="yes", **one) for one in hyper]
    parts = labelled_parts(objectives[0])
    forward = make_forward(latents=6, **parts)
    together = total_loss(stack(objectives, dtype=torch.float64).terms(forward))
    assert torch.isfinite(together).all()
    for member, objective in enumerate(objectives):
        assert torch.allclose(
            total_loss(objective.terms(forward))[member], together[member], rtol=1e-13
        )
    torn = parts["labelled_mean"].clone()
    torn[1] = torch.nan
    broken = total_loss(
        stack(objectives, dtype=torch.float64).terms(
            make_forward(latents=6, **parts | {"labelled_mean": torn})
        )
    )
    assert torch.equal(broken[[0, 2]], together[[0, 2]])
    assert broken[1].isnan()


@pytest.mark.parametrize(
    ("loss", "embedding"), [("l2", "free"), ("embed", "free"), ("embed", "ordered")]
)
def test_learned_numbers_get_a_gradient(make_forward, loss, embedding):
    objective = S2BetaVAE(label_loss=loss, embedding=embedding, learn_sigma="yes")
    parts = labelled_parts(objective)
    weights = {name: value.clone().requires_grad_() for name, value in parts["weights"].items()}
    value = total_loss(objective.terms(make_forward(latents=6, **parts | {"weights": weights})))
    for name, slope in zip(
        weights, torch.autograd.grad(value.sum(), list(weights.values())), strict=True
    ):
        assert slope.flatten(1).abs().sum(dim=1).min() > 0, name


def test_what_is_learned_and_where_it_starts():
    def told(**hyper):
        return [
            (weight.name, weight.shape, weight.start, weight.limit)
            for weight in S2BetaVAE(**hyper).weights(SETTING)
        ]

    assert told() == told(label_loss="cov") == told(label_loss="l2_sigmoid") == []
    assert told(label_loss="l2") == [("objective.label_scale", (1,), 1.0, 0.0)]
    free = [
        (f"objective.embedding_{factor}", (5,), 0.0, math.sqrt(3 / size))
        for factor, size in enumerate(SIZES)
    ]
    sigma = ("objective.embedding_sigma", (3,), 1.0, 0.0)
    assert told(label_loss="embed") == free
    assert told(label_loss="embed", learn_sigma="yes") == [*free, sigma]
    line = [(f"objective.embedding_{part}", (3,), 0.0, math.sqrt(3)) for part in ("slope", "bias")]
    assert told(label_loss="embed", embedding="ordered") == line
    assert told(label_loss="embed", labeller="binned", label_bins=4) == [
        (f"objective.embedding_{factor}", (4,), 0.0, math.sqrt(3 / min(size, 4)))
        for factor, size in enumerate(SIZES)
    ]
    # Which two factors a member observes is not known to the layout, which all members of a chunk
    # share.
    assert told(label_loss="embed", labeller="partial") == [
        (f"objective.embedding_{k}", (5,), 0.0, math.sqrt(3 / 5)) for k in (0, 1)
    ]


def test_values_on_a_line_by_hand(make_forward):
    """Values 0, 1, 2 at slope · v + bias; a mean on the middle one and σ so large that the others
    cannot be meant.
    """
    objective = Supervised(label_loss="embed", embedding="ordered", embedding_sigma=50)
    weights = {
        "objective.embedding_slope": torch.tensor([[2.0]]),
        "objective.embedding_bias": torch.tensor([[-1.0]]),
    }
    labels = {
        "labels": torch.tensor([[[1.0]], [[0.0]]]).view(1, 2, 1),
        "label_sizes": torch.tensor([[3.0]]),
        "label_values": 3,
    }
    forward = make_forward(
        members=1,
        latents=1,
        labelled_mean=torch.tensor([[[1.0], [1.0]]]),
        weights=weights,
        **labels,
    )
    # The first image costs nothing, the second (2 · 50)² nats; their mean.
    assert objective.terms(forward)["supervised"].value.tolist() == [5000.0]


NONSENSE = [
    ("gamma_sup", -1, "must be at least 0; got -1."),
    ("annealing", "never", "'never' is unknown. Known: anneal, fine_tune, fixed."),
    ("annealing_steps", 0, "must be at least 1; got 0."),
    ("annealing_steps", 1.5, "must be a whole number; got 1.5."),
    (
        "annealing_steps",
        "linear(1, 2, 3)",
        "cannot be on a schedule; got linear(1, 2, 3). Give a whole number.",
    ),
    (
        "label_loss",
        "l1",
        "'l1' is unknown; did you mean 'l2'? Known: cov, embed, l2, l2_sigmoid, xent.",
    ),
    ("label_count", 0, "must be at least 1; got 0."),
    ("label_count", 10**7, "must be at most 1e+06; got 10000000."),
    ("label_count", 2.5, "must be a whole number; got 2.5."),
    (
        "labeller",
        "perfekt",
        (
            "'perfekt' is unknown; did you mean 'perfect'? Known: binned, noisy, partial, perfect,"
            " permuted."
        ),
    ),
    ("label_seed", -1, "must be at least 0; got -1."),
    ("label_seed", 0.5, "must be a whole number; got 0.5."),
    ("label_bins", 1, "must be at least 2; got 1."),
    ("label_noise", 1.1, "must be at most 1; got 1.1."),
    ("label_noise", -0.1, "must be at least 0; got -0.1."),
    ("observed_factors", 0, "must be at least 1; got 0."),
    ("embedding", "both", "'both' is unknown. Known: free, ordered."),
    ("embedding_sigma", 0, "must be above 0; got 0."),
    ("learn_sigma", True, "must be one of no, yes; got True."),
]


@pytest.mark.parametrize(("field", "value", "told"), NONSENSE)
def test_nonsense_is_refused_by_name(field, value, told):
    with pytest.raises(InputError) as caught:
        S2BetaVAE(**{field: value})
    assert str(caught.value) == f"s2_beta_vae: {field} {told}"


def test_noise_on_a_schedule_is_refused():
    assert S2BetaVAE(label_noise="linear(0, 1, 10)").problems(SETTING, STANDARD) == [
        "s2_beta_vae: label_noise cannot be on a schedule; got linear(0, 1, 10). Labels are made"
        " once; give a number."
    ]


@pytest.mark.parametrize("name", ALL)
def test_plans_refuse_what_cannot_be_labelled(name):
    with pytest.raises(InputError) as caught:
        make_plan(**TINY | {"latents": 2}, objective=name)
    assert (
        str(caught.value)
        == f"{name}: latents must be at least the 3 labelled factors, one for each; got 2. "
        "Use latents=3 or more, or labeller=partial with observed_factors=2."
    )
    with pytest.raises(InputError) as caught:
        make_plan(np.zeros((30, 16, 16), np.uint8), name, network="mlp")
    assert (
        str(caught.value)
        == f"{name}: data needs known factors to take labels from; got none. Load it with factors"
        " (a factors.csv, a key factors, factors=...), or use an objective without."
    )
    with pytest.raises(InputError) as caught:
        make_plan(
            **TINY,
            objective=name,
            hyper={"labeller": "partial", "observed_factors": 9},
            where="x > 0",
        )
    assert str(caught.value).splitlines() == [
        (
            f"{name}: observed_factors must be at most the 3 factors of the data; got 9. Use"
            " observed_factors=3 or less."
        ),
        (
            f"{name}: where cannot be used, since labelled images are drawn from all images; got 'x"
            " > 0'. Leave it out."
        ),
    ]


def program_of(**given):
    plan, dataset = make_plan(**TINY | given)
    return TrainingStep(plan, plan.members, dataset, torch.device("cpu")), dataset


def test_labels_stay_with_their_images_and_are_taken_in_order():
    program, dataset = program_of(objective=S2BetaVAE(label_count=5, label_seed=[3, 4]))
    state = program.start()
    for step in range(3):
        draws = program.draw(torch.tensor([step]))
        forward = program._forward(
            program.objective, program._leaves(program.layout, state.model), state, draws, 0
        )
        assert forward.mean.shape[1] == forward.labelled_mean.shape[1] == 8
        for member, seed in enumerate((3, 4)):
            known = S2BetaVAE(label_count=5, label_seed=seed).labels.draw(dataset)
            turn = [(8 * step + place) % 5 for place in range(8)]
            assert np.array_equal(forward.labels[member], known.labels[turn])
            images = program.sampler(torch.from_numpy(known.indices[turn]))
            weights = {
                name: value[member : member + 1]
                for name, value in program.layout.views(state.model.weights).items()
            }
            alone, _ = program.network.encode(weights, images.unsqueeze(0), None)
            assert torch.allclose(forward.labelled_mean[member], alone[0], atol=1e-6)


@pytest.mark.parametrize("labeller", ["perfect", "binned", "noisy", "partial", "permuted"])
@pytest.mark.parametrize("loss", LABEL_LOSSES)
def test_three_steps_with_every_loss_and_labeller(loss, labeller):
    both = [
        S2BetaVAE(label_loss=loss, labeller=labeller, label_seed=[0, 1]),
        Supervised(label_loss=loss, labeller=labeller),
    ]
    plan, dataset = make_plan(**TINY, objective=both)
    for members in (plan.members[:2], plan.members[2:]):
        program = TrainingStep(plan, members, dataset, torch.device("cpu"))
        state = program.start()
        for _ in range(3):
            program.step(state)
        assert (state.diverged_at < 0).all()
        assert torch.isfinite(state.history[:, :3]).all()
        learned = [
            name
            for name in program.layout.views(state.model.weights)
            if name.startswith("objective.")
        ]
        before, after = (
            program.layout.views(rows)
            for rows in (program.start().model.weights, state.model.weights)
        )
        assert all(not torch.equal(before[name], after[name]) for name in learned)
        assert bool(learned) == (loss in ("l2", "embed"))


def test_a_member_trains_the_same_beside_members_with_other_labels(tmp_path):
    options = TINY | {"steps": 30, "log_every": 30, "seeds": [5], "data": load("sprites", **SMALL)}
    del options["data_options"]
    alone = ub.train(objective=S2BetaVAE(label_seed=2), out=tmp_path / "one", quiet=True, **options)
    among = ub.train(
        objective=S2BetaVAE(label_seed=[1, 2, 3]), out=tmp_path / "three", quiet=True, **options
    )
    one, three = (run.history.set_index("member")["supervised"] for run in (alone, among))
    assert one[0] == pytest.approx(three[1], rel=1e-5)
    assert abs(three[0] - three[2]) > 1e-3


def test_a_fine_tuned_member_is_the_unsupervised_one_until_then():
    fine = program_of(objective=S2BetaVAE(annealing="fine_tune", annealing_steps=3))[0]
    plain = program_of(objective="beta_vae")[0]
    states = [fine.start(), plain.start()]
    apart = []
    for _ in range(6):
        fine.step(states[0])
        plain.step(states[1])
        apart.append((states[0].model.weights - states[1].model.weights).abs().max().item())
    # Updates 0 to 3 have no supervised term, and only rounding differs; update 4 has.
    assert max(apart[:4]) < 1e-6
    assert apart[4] > 1e-5


@pytest.mark.parametrize("embedding", ["free", "ordered"])
@pytest.mark.parametrize("loss", LABEL_LOSSES)
def test_no_step_asks_for_a_tensors_value(make_forward, loss, embedding):
    """Meta tensors have no values: a loss that looked at one, which a captured step on a GPU
    cannot, would raise.
    """
    objective = S2BetaVAE(
        label_loss=loss, embedding=embedding, learn_sigma="yes", annealing="anneal"
    )
    forward = make_forward(latents=6, **labelled_parts(objective))
    parts = {
        name: value.to("meta")
        for name, value in vars(forward).items()
        if isinstance(value, torch.Tensor)
    }
    weights = {name: value.to("meta") for name, value in forward.weights.items()}
    stacked = stack([objective] * 3, device="meta", dtype=torch.float64)
    found = total_loss(stacked.terms(replace(forward, weights=weights, **parts)))
    assert found.is_meta
    assert found.shape == (3,)
