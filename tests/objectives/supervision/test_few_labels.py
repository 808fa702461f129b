# SPDX-License-Identifier: Apache-2.0
"""Few labels with any objective: golden losses, learned numbers, refusals, their worth."""

from __future__ import annotations

import importlib.util
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import unbraid as ub
from unbraid.core.errors import InputError
from unbraid.data import load
from unbraid.objectives import OBJECTIVES, factor_vae
from unbraid.objectives.ae import AE
from unbraid.objectives.beta_vae import BetaVAE
from unbraid.objectives.factor_vae import FactorVAE
from unbraid.objectives.hyper import stack
from unbraid.objectives.objective import Setting, total_loss
from unbraid.objectives.priors.isotropic import STANDARD
from unbraid.objectives.schedule import linear
from unbraid.objectives.supervision.few_labels import FewLabels, annealed
from unbraid.objectives.supervision.label_losses import LABEL_LOSSES
from unbraid.population.plan import make_plan
from unbraid.population.training_step import TrainingStep

ROOT = Path(__file__).resolve().parents[3]
RECORD = json.loads((ROOT / "tests" / "golden" / "few_labels.json").read_text())
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


def labelled_parts(labels, members=3, labelled=9, seed=3):
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
            for weight in labels.weights(SETTING)
        },
    }


def supervised(labels, forward):
    return labels.terms(forward)["supervised"].value


def golden_labels(golden, shift=0.0):
    """The golden labels, for images whose means are those of the batch."""
    return {
        "labelled_mean": golden.forward.mean + shift,
        "labels": torch.tensor(RECORD["labels"], dtype=torch.float32).unsqueeze(0),
        "label_sizes": torch.tensor([RECORD["factor_sizes"]]).float(),
    }


@pytest.mark.parametrize(("loss", "weight"), [("xent", 2.0), ("cov", 16.0)])
@pytest.mark.parametrize(
    ("name", "hyper", "regularizer"),
    [
        ("beta_vae", {"beta": 4}, "beta_vae_beta=4"),
        ("dip_vae_i", {"lambda_od": 5, "lambda_d_factor": 10}, "dip_i_od=5_factor=10"),
        ("dip_vae_ii", {"lambda_od": 5, "lambda_d_factor": 1}, "dip_ii_od=5_factor=1"),
        ("beta_tcvae", {"beta": 6}, "beta_tc_vae_beta=6"),
        ("ae", {}, None),
    ],
)
def test_golden_losses_of_the_s2_methods(golden, name, hyper, regularizer, loss, weight):
    objective, labels = OBJECTIVES.load(name)(**hyper), FewLabels(loss=loss, weight=weight)
    forward = replace(golden.forward, **golden_labels(golden))
    found = total_loss(objective.terms(forward) | labels.terms(forward))
    rest = golden.values["regularizer"][regularizer] if regularizer else 0.0
    expected = rest + weight * RECORD["values"][loss]
    assert found.item() == pytest.approx(expected, rel=golden.relative)


@pytest.mark.parametrize("name", ["dip_vae_i", "dip_vae_ii", "beta_tcvae", "info_vae"])
def test_labelled_images_are_no_part_of_the_regulariser(golden, name):
    points = torch.linspace(-1, 1, golden.forward.z.numel()).view_as(golden.forward.z)
    last = [
        list(
            OBJECTIVES.load(name)()
            .terms(replace(golden.forward, prior_points=points, **golden_labels(golden, shift)))
            .values()
        )[-1].value
        for shift in (0.0, 3.0)
    ]
    assert torch.equal(*last)


def test_beta_vae_by_hand(make_forward):
    # Means and variances of 1: half a nat for each of 3 latents. One labelled image, its mean 0:
    # log 2 for each of 2 factors.
    forward = make_forward(
        members=1,
        batch=4,
        latents=3,
        mean=torch.ones(1, 4, 3),
        logvar=torch.zeros(1, 4, 3),
        reconstruction=torch.full((1, 4), 7.0),
        labelled_mean=torch.zeros(1, 1, 3),
        labels=torch.tensor([[[2.0, 1.0]]]),
        label_sizes=torch.tensor([[3.0, 4.0]]),
    )
    terms = BetaVAE(beta=2).terms(forward) | FewLabels(weight=5).terms(forward)
    assert total_loss(terms).item() == pytest.approx(7 + 2 * 1.5 + 5 * 2 * math.log(2), rel=1e-6)


def test_a_labelled_image_reaches_the_latents_that_have_a_factor(make_forward):
    mean = torch.tensor([[[0.0, 3.0]]], dtype=torch.float64, requires_grad=True)
    forward = make_forward(
        members=1,
        latents=2,
        labelled_mean=mean,
        labels=torch.tensor([[[1.0]]], dtype=torch.float64),
        label_sizes=torch.tensor([[4.0]], dtype=torch.float64),
    )
    term = FewLabels(weight=3).terms(forward)["supervised"]
    # A logit of 0 costs log 2 whatever the target.
    assert term.value.tolist() == pytest.approx([math.log(2)], rel=1e-14)
    (slope,) = torch.autograd.grad(total_loss({"supervised": term}).sum(), mean)
    # The weight times (sigmoid 0 − 1/4) to the first latent; the second has no factor.
    assert slope.flatten().tolist() == pytest.approx([3 * 0.25, 0.0], rel=1e-14)


def test_the_study_s_strengths_are_a_sweep():
    swept = FewLabels(weight=[1, 2, 4, 6, 8, 16], count=[100, 1000]).sweep()
    assert {(one.weight, one.count) for one in swept} == {
        (g, n) for g in (1, 2, 4, 6, 8, 16) for n in (100, 1000)
    }
    members = make_plan(
        **TINY,
        objective=BetaVAE(beta=[1, 16]),
        supervision=["none", "labels:weight=1,2,count=10,20", FewLabels(loss="l2")],
    )[0].members
    assert [one.id for one in members] == list(range(2 * (1 + 4 + 1)))
    assert [one.supervision_hyper.get("count") for one in members[:6]] == [
        None,
        *(10, 10, 20, 20),
        100,
    ]
    assert members[6].label() == "beta_vae beta=16 seed=0"
    assert members[9].label() == "beta_vae beta=16 labels:count=20 seed=0"
    assert members[10].label() == "beta_vae beta=16 labels:count=20,weight=2 seed=0"
    assert members[11].settings()["labels_loss"] == "l2"


def test_golden_annealers():
    values = RECORD["values"]
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
    labels = FewLabels(weight=4, annealing=kind, annealing_steps=1000)
    for step, expected in ((0, (4, 0, 0)), (250, (4, 1, 0)), (1000, (4, 4, 0)), (1001, (4, 4, 4))):
        forward = make_forward(latents=6, step=torch.tensor(float(step)), **labelled_parts(labels))
        weight = expected[("fixed", "anneal", "fine_tune").index(kind)]
        assert float(labels.terms(forward)["supervised"].weight) == pytest.approx(weight)


def test_a_weight_on_a_schedule_reaches_the_term():
    stacked = stack([FewLabels(weight=linear(0, 4, 100)), FewLabels(weight=2)])
    assert stacked.at(torch.tensor(25.0)).weight.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("loss", LABEL_LOSSES)
def test_members_keep_to_themselves_with_every_loss(make_forward, loss):
    every = [
        FewLabels(loss=loss, learn_sigma="yes", embedding_sigma=sigma, weight=weight)
        for sigma, weight in ((1, 2), (0.5, 3), (2, 0))
    ]
    parts = labelled_parts(every[0])
    forward = make_forward(latents=6, **parts)
    stacked = stack(every, dtype=torch.float64)
    together = total_loss(stacked.terms(forward))
    assert torch.isfinite(together).all()
    for member, labels in enumerate(every):
        alone = total_loss(labels.terms(forward))[member]
        assert torch.allclose(alone, together[member], rtol=1e-13)
    torn = parts["labelled_mean"].clone()
    torn[1] = torch.nan
    broken = total_loss(stacked.terms(make_forward(latents=6, **parts | {"labelled_mean": torn})))
    assert torch.equal(broken[[0, 2]], together[[0, 2]])
    assert broken[1].isnan()


@pytest.mark.parametrize(
    ("loss", "embedding"), [("l2", "free"), ("embed", "free"), ("embed", "ordered")]
)
def test_learned_numbers_get_a_gradient(make_forward, loss, embedding):
    labels = FewLabels(loss=loss, embedding=embedding, learn_sigma="yes")
    parts = labelled_parts(labels)
    weights = {name: value.clone().requires_grad_() for name, value in parts["weights"].items()}
    value = supervised(labels, make_forward(latents=6, **parts | {"weights": weights}))
    for name, slope in zip(
        weights, torch.autograd.grad(value.sum(), list(weights.values())), strict=True
    ):
        assert slope.flatten(1).abs().sum(dim=1).min() > 0, name


def test_what_is_learned_and_where_it_starts():
    def told(**hyper):
        return [
            (weight.name, weight.shape, weight.start, weight.limit)
            for weight in FewLabels(**hyper).weights(SETTING)
        ]

    assert told() == told(loss="cov") == told(loss="l2_sigmoid") == []
    assert told(loss="l2") == [("supervision.label_scale", (1,), 1.0, 0.0)]
    free = [
        (f"supervision.embedding_{factor}", (5,), 0.0, math.sqrt(3 / size))
        for factor, size in enumerate(SIZES)
    ]
    sigma = ("supervision.embedding_sigma", (3,), 1.0, 0.0)
    assert told(loss="embed") == free
    assert told(loss="embed", learn_sigma="yes") == [*free, sigma]
    line = [
        (f"supervision.embedding_{part}", (3,), 0.0, math.sqrt(3)) for part in ("slope", "bias")
    ]
    assert told(loss="embed", embedding="ordered") == line
    assert told(loss="embed", labeller="binned", bins=4) == [
        (f"supervision.embedding_{factor}", (4,), 0.0, math.sqrt(3 / min(size, 4)))
        for factor, size in enumerate(SIZES)
    ]
    # Which two factors a member observes is not known to the layout, which all members of a chunk
    # share.
    assert told(loss="embed", labeller="partial") == [
        (f"supervision.embedding_{k}", (5,), 0.0, math.sqrt(3 / 5)) for k in (0, 1)
    ]


def test_values_on_a_line_by_hand(make_forward):
    """Values 0, 1, 2 on a line, a mean on the middle one, σ too large for any other."""
    ours = FewLabels(loss="embed", embedding="ordered", embedding_sigma=50)
    weights = {
        "supervision.embedding_slope": torch.tensor([[2.0]]),
        "supervision.embedding_bias": torch.tensor([[-1.0]]),
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
    assert supervised(ours, forward).tolist() == [5000.0]


NONSENSE = [
    ("weight", -1, "must be at least 0"),
    ("annealing", "never", "is unknown"),
    ("annealing_steps", 0, "must be at least 1"),
    ("annealing_steps", 1.5, "must be a whole number"),
    ("annealing_steps", "linear(1, 2, 3)", "cannot be on a schedule"),
    ("loss", "l1", "is unknown"),
    ("count", 0, "must be at least 1"),
    ("count", 10**7, "must be at most 1e+06"),
    ("count", 2.5, "must be a whole number"),
    ("labeller", "perfekt", "is unknown"),
    ("seed", -1, "must be at least 0"),
    ("seed", 0.5, "must be a whole number"),
    ("bins", 1, "must be at least 2"),
    ("noise", 1.1, "must be at most 1"),
    ("noise", -0.1, "must be at least 0"),
    ("observed_factors", 0, "must be at least 1"),
    ("embedding", "both", "is unknown"),
    ("embedding_sigma", 0, "must be above 0"),
    ("learn_sigma", True, "must be one of no, yes"),
    ("alone", "maybe", "is unknown"),
]


@pytest.mark.parametrize(("field", "value", "rule"), NONSENSE)
def test_nonsense_is_refused_by_name(field, value, rule):
    with pytest.raises(InputError) as caught:
        FewLabels(**{field: value})
    (problem,) = caught.value.problems
    assert (problem.name, problem.rule, problem.value) == (f"labels: {field}", rule, value)


def test_noise_on_a_schedule_is_refused():
    (problem,) = FewLabels(noise="linear(0, 1, 10)").problems(BetaVAE(), SETTING, STANDARD)
    assert (problem.name, problem.rule) == ("labels: noise", "cannot be on a schedule")
    assert problem.value == "linear(0, 1, 10)"


def refused(*args, **options):
    with pytest.raises(InputError) as caught:
        make_plan(*args, **options)
    return [(one.name, one.value, one.remedy) for one in caught.value.problems]


def test_plans_refuse_what_cannot_be_labelled():
    assert refused(**TINY | {"latents": 2}, supervision="labels") == [
        (
            "labels: latents",
            2,
            "Use {latents=3} or more, or labeller=partial with observed_factors=2.",
        )
    ]
    (found,) = refused(np.zeros((30, 16, 16), np.uint8), network="mlp", supervision="labels")
    assert found[:2] == ("labels: data", "none")
    partial = "labels:labeller=partial,observed_factors=9"
    assert refused(**TINY, supervision=partial, where="x > 0") == [
        ("labels: observed_factors", 9, "Use observed_factors=3 or less."),
        ("labels: where", "x > 0", "Leave it out."),
    ]


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ("label", "supervision", "label"),
        ("labels:counts=3", "labels option", "counts"),
        (BetaVAE(), "supervision", BetaVAE()),
        ([], "supervision", []),
        (7, "supervision", 7),
    ],
)
def test_what_is_no_supervision_is_refused(given, name, value):
    (found,) = refused(**TINY, supervision=given)
    assert found[:2] == (name, value)


def training_of(**given):
    plan, dataset = make_plan(**TINY | given)
    return TrainingStep(plan, plan.members, dataset, torch.device("cpu")), dataset


def forward_of(training, state, step=0):
    leaves = training._leaves(training.layout, state.model)
    draws = training.draw(torch.tensor([step]))
    return leaves, training._forward(leaves, state, draws, 0)[0]


def test_labels_stay_with_their_images_and_are_taken_in_order():
    training, dataset = training_of(supervision=FewLabels(count=5, seed=[3, 4]))
    state = training.start()
    for step in range(3):
        forward = forward_of(training, state, step)[1].forward
        assert forward.mean.shape[1] == forward.labelled_mean.shape[1] == 8
        for member, seed in enumerate((3, 4)):
            known = FewLabels(count=5, seed=seed).request.draw(dataset)
            turn = [(8 * step + place) % 5 for place in range(8)]
            assert np.array_equal(forward.labels[member], known.labels[turn])
            images = training.sampler(torch.from_numpy(known.indices[turn]))
            weights = {
                name: value[member : member + 1]
                for name, value in training.kinds[0].layout.views(state.model.weights).items()
            }
            alone, _ = training.network.encode(weights, images.unsqueeze(0), None)
            assert torch.allclose(forward.labelled_mean[member], alone[0], atol=1e-6)


@pytest.mark.parametrize("labeller", ["perfect", "binned", "noisy", "partial", "permuted"])
@pytest.mark.parametrize("loss", LABEL_LOSSES)
def test_three_steps_with_every_loss_and_labeller(loss, labeller):
    labels = FewLabels(loss=loss, labeller=labeller, seed=[0, 1])
    training, _ = training_of(supervision=labels)
    state = training.start()
    before = training.kinds[0].layout.views(state.model.weights.clone())
    for _ in range(3):
        training.step(state)
    assert (state.diverged_at < 0).all()
    assert torch.isfinite(state.history[:, :3]).all()
    after = training.kinds[0].layout.views(state.model.weights)
    learned = [name for name in after if name.startswith("supervision.")]
    assert all(not torch.equal(before[name], after[name]) for name in learned)
    assert bool(learned) == (loss in ("l2", "embed"))


@pytest.mark.parametrize("name", list(OBJECTIVES.built_in))
def test_every_objective_learns_from_labels(name, monkeypatch):
    monkeypatch.setattr(factor_vae, "_HIDDEN", 16)
    # Codes whose network loses weights by itself move less from three steps of labels.
    training, _ = training_of(objective=name, supervision="labels:weight=0,9,loss=l2,count=8")
    state = training.start()
    for _ in range(3):
        training.step(state)
    assert (state.diverged_at < 0).all()
    assert training.kinds[0].quantities[len(training.kinds[0].objective.term_names)] == "supervised"
    without, with_labels = state.model.weights
    assert not torch.equal(without, with_labels)


def test_the_discriminator_sees_no_labelled_image(monkeypatch):
    monkeypatch.setattr(factor_vae, "_HIDDEN", 16)
    training, _ = training_of(objective=FactorVAE(), supervision="labels")
    _, one = forward_of(training, training.start())
    assert one.objective.auxiliary_input(one.forward).shape == (1, 2 * 8, 4)


def test_a_member_trains_the_same_beside_members_with_other_labels(tmp_path):
    options = TINY | {"steps": 30, "log_every": 30, "seeds": [5], "data": load("sprites", **SMALL)}
    del options["data_options"]
    alone, among = (
        ub.train(supervision=FewLabels(seed=seed), out=tmp_path / name, quiet=True, **options)
        for name, seed in (("one", 2), ("three", [1, 2, 3]))
    )
    one, three = (run.history.set_index("member")["supervised"] for run in (alone, among))
    assert one[0] == pytest.approx(three[1], rel=1e-5)
    assert abs(three[0] - three[2]) > 1e-3


def test_a_fine_tuned_member_is_the_unsupervised_one_until_then():
    fine = training_of(supervision=FewLabels(annealing="fine_tune", annealing_steps=3))[0]
    plain = training_of()[0]
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
    """Meta tensors have no values: a loss that looked at one would raise, as a CUDA graph would."""
    labels = FewLabels(loss=loss, embedding=embedding, learn_sigma="yes", annealing="anneal")
    forward = make_forward(latents=6, **labelled_parts(labels))
    parts = {
        name: value.to("meta")
        for name, value in vars(forward).items()
        if isinstance(value, torch.Tensor)
    }
    weights = {name: value.to("meta") for name, value in forward.weights.items()}
    stacked = stack([labels] * 3, device="meta", dtype=torch.float64)
    found = total_loss(stacked.terms(replace(forward, weights=weights, **parts)))
    assert found.is_meta
    assert found.shape == (3,)


# Labels alone: the supervised baseline.


def test_cut_off_posteriors_are_the_same_numbers_without_a_way_back():
    mean, logvar = (torch.ones(1, 2, 3, requires_grad=True) for _ in range(2))
    cut = FewLabels(alone="yes").posterior(mean, logvar, None)
    assert all(torch.equal(part, mean) and not part.requires_grad for part in cut)
    assert FewLabels().posterior(mean, logvar, None)[0] is mean


@pytest.mark.parametrize("objective", [AE(), BetaVAE()])
def test_labels_teach_the_encoder_and_images_the_decoder(objective):
    training, _ = training_of(objective=objective, supervision="labels:alone=yes")
    leaves, one = forward_of(training, training.start())
    terms = one.objective.terms(one.forward) | one.supervision[0].terms(one.forward)
    for term, taught, other in (
        ("reconstruction", "decoder", "encoder"),
        ("supervised", "encoder", "decoder"),
    ):
        value = terms[term].mean().sum()
        slopes = torch.autograd.grad(
            value, list(leaves.values()), materialize_grads=True, retain_graph=True
        )
        named = dict(zip(leaves, slopes, strict=True))
        assert not any(slope.any() for name, slope in named.items() if name.startswith(other))
        # The head of the variances is used by nothing.
        assert all(
            slope.any()
            for name, slope in named.items()
            if name.startswith(taught) and "logvar" not in name
        )


def test_a_few_labels_are_learned_by_heart():
    training, _ = training_of(
        objective="ae",
        supervision="labels:alone=yes,count=16,loss=l2",
        network_options={"hidden": 32},
        batch_size=16,
        latents=5,
        steps=400,
        learning_rate=3e-3,
        log_every=50,
    )
    state = training.start()
    for _ in range(400):
        training.step(state)
    squares = state.history[0, :, training.kinds[0].quantities.index("supervised")]
    # 16 images with 3 labels each: from their squares' sum to less than a tenth of a value off, on
    # average.
    assert squares[0] > 20 * squares[-1]
    assert squares[-1] < 16 * 3 * 0.1**2
    images = state.history[0, :, training.kinds[0].quantities.index("reconstruction")]
    assert images[-1] < 0.5 * images[0]


# What labels are worth.


def benchmark():
    path = ROOT / "benchmarks" / "few_labels.py"
    spec = importlib.util.spec_from_file_location("few_labels", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def assert_labels_help(mig):
    """A hundred labels: the worst seed beats the best without, and by 0.3 on average."""
    without = [*mig["no labels, β 1"], *mig["no labels, β 4"]]
    assert min(mig["perfect"]) > max(without), mig
    best = max(np.mean(mig["no labels, β 1"]), np.mean(mig["no labels, β 4"]))
    assert np.mean(mig["perfect"]) > best + 0.3, mig


def test_labels_bring_the_means_of_other_images_to_their_factors():
    """On images without labels, each of the first latents follows its factor, and no other."""
    training, dataset = training_of(
        supervision="labels:count=60,weight=5", steps=400, learning_rate=3e-3, batch_size=32
    )
    state = training.start()
    for _ in range(400):
        training.step(state)
    every = torch.arange(len(dataset))
    weights = training.kinds[0].layout.views(state.model.weights)
    mean, _ = training.network.encode(weights, training.sampler(every).unsqueeze(0), None)
    unseen = np.setdiff1d(every.numpy(), FewLabels(count=60).request.draw(dataset).indices)
    factors = dataset.factors(unseen)
    sizes = len(dataset.factor_sizes)
    found = np.corrcoef(mean[0].detach().numpy()[unseen, :sizes].T, factors.T)[:sizes, sizes:]
    assert (np.abs(found).argmax(axis=1) == np.arange(sizes)).all(), found
    assert np.diag(found).min() > 0.6, found


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_labels_help_when_trained_again(tmp_path):
    module = benchmark()
    names = ("no labels, β 1", "no labels, β 4", "perfect", "noisy", "labels alone")
    scores = {
        name: module.scores_of_seeds(*module.SETTINGS[name], 3, 1500, tmp_path / name)["mig"]
        for name in names
    }
    assert_labels_help(scores)
    assert np.mean(scores["no labels, β 4"]) < np.mean(scores["noisy"]) < np.mean(scores["perfect"])
