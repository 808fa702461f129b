# SPDX-License-Identifier: Apache-2.0
"""Pairs follow the published laws exactly, stay on the grid, and serve any objective."""

from __future__ import annotations

import itertools
from dataclasses import replace
from math import comb

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency, chisquare

from unbraid.core import random
from unbraid.core.errors import InputError
from unbraid.core.grid import FactorGrid
from unbraid.core.random import Stream
from unbraid.objectives import OBJECTIVES, factor_vae
from unbraid.objectives.ada_gvae import AdaGVAE
from unbraid.objectives.ada_mlvae import AdaMLVAE
from unbraid.objectives.beta_vae import BetaVAE
from unbraid.objectives.gvae import GVAE
from unbraid.objectives.mlvae import MLVAE
from unbraid.objectives.objective import Setting
from unbraid.objectives.priors.isotropic import STANDARD
from unbraid.objectives.priors.mixture import Mixture
from unbraid.objectives.supervision.pairs import Pairs
from unbraid.population.plan import make_plan
from unbraid.population.training_step import TrainingStep

SEEDS = torch.tensor([3, -5], dtype=torch.int64)
LEAST_P = 1e-3
PAIRED = {"ada_gvae", "ada_mlvae", "gvae", "mlvae"}
MANY = (10_000,) * 4
"""Sizes at which a changed factor keeps its value by chance once in 10,000 times."""


def draw(rule, sizes, pairs=2000, steps=5, seeds=SEEDS):
    """Factor values of first and second images `(n, factors)`, and the labels `(n,)`, of all
    members and steps.
    """
    when = torch.arange(steps)
    first = random.integers(seeds, when, Stream.IMAGE_INDICES, (pairs,), 2**31 - 1) % int(
        np.prod(sizes, dtype=np.int64)
    )
    second, last = rule.second(seeds, when, first, sizes)
    grid = FactorGrid(tuple(f"factor_{number}" for number in range(len(sizes))), sizes)
    before, after = (
        grid.to_factors(part.numpy()).reshape(-1, len(sizes)) for part in (first, second)
    )
    return before, after, last.numpy().ravel()


def law(rule, factors, given=0):
    """Exact probabilities that 0..factors factors are chosen to change."""
    chosen = np.zeros(factors + 1)
    most = factors if rule == "michlo" else factors - 1
    for k in [given] if given else range(1, most + 1):
        share = 1.0 if given else 1.0 / most
        if rule == "michlo":
            chosen[k] += share
        else:
            chosen[1] += 0.5 * share
            chosen[k] += 0.5 * share
    return chosen


def test_laws_by_hand():
    assert law("locatello", 5) == pytest.approx([0, 5 / 8, 1 / 8, 1 / 8, 1 / 8, 0])
    assert law("locatello", 5, given=5) == pytest.approx([0, 1 / 2, 0, 0, 0, 1 / 2])
    assert law("michlo", 4) == pytest.approx([0, 1 / 4, 1 / 4, 1 / 4, 1 / 4])


@pytest.mark.parametrize("rule", ["locatello", "michlo"])
@pytest.mark.parametrize(("factors", "given"), [(2, 0), (3, 0), (6, 0), (5, 1), (5, 3), (4, 4)])
def test_number_of_differing_factors_has_its_exact_law(rule, factors, given):
    size = 4  # so that every fourth change is none
    before, after, _ = draw(Pairs(rule=rule, changed_factors=given), (size,) * factors)
    counts = np.bincount((before != after).sum(axis=1), minlength=factors + 1)
    chosen, moves = law(rule, factors, given), 1 - 1 / size
    expected = [
        sum(
            chosen[k] * comb(k, j) * moves**j * (1 - moves) ** (k - j)
            for k in range(j, factors + 1)
        )
        for j in range(factors + 1)
    ]
    possible = np.array(expected) > 0
    assert counts[~possible].sum() == 0
    assert chisquare(counts[possible], len(before) * np.array(expected)[possible]).pvalue > LEAST_P


@pytest.mark.parametrize("k", [1, 2, 3])
def test_every_set_of_factors_changes_equally_often_and_every_one_of_it_is_last_equally_often(k):
    before, after, last = draw(Pairs(rule="michlo", changed_factors=k), MANY)
    differ = before != after
    whole = differ.sum(axis=1) == k
    assert whole.mean() > 0.998
    assert differ[np.arange(len(last)), last][whole].all(), (
        "the last changed factor is one that changed"
    )
    cases = [(chosen, one) for chosen in itertools.combinations(range(4), k) for one in chosen]
    found = [
        (tuple(np.flatnonzero(row)), int(one))
        for row, one in zip(differ[whole], last[whole], strict=True)
    ]
    assert chisquare([found.count(case) for case in cases]).pvalue > LEAST_P


def test_the_last_factor_of_a_drawn_number_is_one_that_changed():
    before, after, last = draw(Pairs(), MANY)
    kept = (before == after)[np.arange(len(last)), last]
    assert kept.mean() < 1e-3
    assert chisquare(np.bincount(last, minlength=4)).pvalue > LEAST_P


def test_new_values_are_uniform_and_do_not_depend_on_the_old():
    sizes = (3, 8, 5)
    before, after, _ = draw(Pairs(rule="michlo", changed_factors=3), sizes, pairs=4000)
    for factor, size in enumerate(sizes):
        joint = np.zeros((size, size))
        np.add.at(joint, (before[:, factor], after[:, factor]), 1)
        assert chisquare(joint.ravel()).pvalue > LEAST_P
    for one, other in itertools.combinations(range(3), 2):
        joint = np.bincount(
            after[:, one] * sizes[other] + after[:, other], minlength=sizes[one] * sizes[other]
        )
        assert chisquare(joint).pvalue > LEAST_P


def dependence(one, other):
    """P-value of the independence of two columns of whole numbers."""
    table = np.zeros((one.max() + 1, other.max() + 1))
    np.add.at(table, (one, other), 1)
    return chi2_contingency(table[table.any(axis=1)][:, table.any(axis=0)]).pvalue


@pytest.mark.parametrize("rule", ["locatello", "michlo"])
@pytest.mark.parametrize("factors", [2, 4])
def test_how_many_which_and_what_are_independent(rule, factors):
    # One pair a step: the words of the first pair would coincide if two of the three took them from
    # one stream.
    before, after, last = draw(Pairs(rule=rule), (1000,) * factors, pairs=1, steps=4000)
    many = (before != after).sum(axis=1)
    value = after[np.arange(len(last)), last] // 125
    if factors > 2 or rule == "michlo":
        assert dependence(many, value) > LEAST_P
        assert dependence(many, last) > LEAST_P
    assert dependence(last, value) > LEAST_P


def test_members_and_steps_draw_independently():
    sizes, when = (1000,) * 4, torch.arange(2)
    first = torch.zeros(2, 2, 6000, dtype=torch.int64)
    second, last = Pairs(rule="michlo").second(SEEDS, when, first, sizes)
    values = np.stack(np.unravel_index(second.numpy(), sizes), axis=-1)
    many = (values != 0).sum(axis=-1)
    for one, other in (((0, 0), (1, 0)), ((0, 0), (0, 1))):  # another member, another step
        assert dependence(last[one].numpy(), last[other].numpy()) > LEAST_P
        assert dependence(many[one], many[other]) > LEAST_P
        both = (values[one] != 0) & (values[other] != 0)
        assert dependence(values[one][both] // 125, values[other][both] // 125) > LEAST_P


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=2, max_size=7).map(tuple),
    rule=st.sampled_from(["locatello", "michlo"]),
    k=st.integers(0, 7),
    seed=st.integers(-(2**63), 2**63 - 1),
)
def test_second_images_lie_on_the_grid_and_differ_in_at_most_k(sizes, rule, k, seed):
    k = min(k, len(sizes))
    # `draw` reads both indices by FactorGrid, which refuses what is off the grid.
    before, after, last = draw(
        Pairs(rule=rule, changed_factors=k), sizes, pairs=40, steps=2, seeds=torch.tensor([seed])
    )
    most = k or (len(sizes) if rule == "michlo" else len(sizes) - 1)
    assert (before != after).sum(axis=1).max() <= most
    assert 0 <= last.min() <= last.max() < len(sizes)
    only = (before != after).sum(axis=1) == 1
    if most == 1:
        assert (np.argmax(before != after, axis=1)[only] == last[only]).all()


def test_all_factors_redrawn_leave_nothing_of_the_first_image():
    when, rule, sizes = torch.arange(3), Pairs(rule="michlo", changed_factors=3), (4, 2, 5)
    low, high = torch.zeros(2, 3, 50, dtype=torch.int64), torch.full((2, 3, 50), 39)
    assert torch.equal(
        rule.second(SEEDS, when, low, sizes)[0], rule.second(SEEDS, when, high, sizes)[0]
    )


def test_pairs_depend_on_seed_and_step_alone():
    rule, sizes, when = Pairs(), (3, 4, 5, 6), torch.arange(100, 116)
    first = random.integers(SEEDS, when, Stream.IMAGE_INDICES, (32,), 360)
    second, last = rule.second(SEEDS, when, first, sizes)
    again = rule.second(SEEDS, when, first, sizes)
    assert torch.equal(second, again[0])
    assert torch.equal(last, again[1])
    alone = rule.second(SEEDS[1:], when, first[1:], sizes)
    assert torch.equal(second[1:], alone[0])
    assert torch.equal(last[1:], alone[1])
    for at in (0, 7):
        one = rule.second(SEEDS, when[at : at + 1], first[:, at : at + 1], sizes)
        assert torch.equal(second[:, at : at + 1], one[0])
        assert torch.equal(last[:, at : at + 1], one[1])
    assert not torch.equal(rule.second(SEEDS[[1, 0]], when, first, sizes)[0], second)
    assert not torch.equal(rule.second(SEEDS, when + 1, first, sizes)[0], second)


@pytest.mark.gpu
@pytest.mark.parametrize("rule", ["locatello", "michlo"])
def test_same_bits_on_cuda(rule):
    when, sizes = torch.arange(16), (3, 6, 40, 32, 32)
    first = random.integers(SEEDS, when, Stream.IMAGE_INDICES, (256,), 737_280)
    there = Pairs(rule=rule).second(SEEDS.cuda(), when.cuda(), first.cuda(), sizes)
    for ours, theirs in zip(Pairs(rule=rule).second(SEEDS, when, first, sizes), there, strict=True):
        assert torch.equal(ours, theirs.cpu())


def test_a_plan_draws_the_second_images_behind_the_first():
    plan, dataset = make_plan(
        "sprites",
        GVAE(),
        data_options={"x": 6, "y": 4, "scale": 2, "image_size": 28},
        network="mlp",
        latents=5,
        batch_size=8,
        steps=4,
        seeds=[3, -5],
    )
    program = TrainingStep(plan, plan.members, dataset, torch.device("cpu"))
    draws = program.draw(torch.arange(4))
    first, second = draws.indices.chunk(2, dim=-1)
    assert torch.equal(
        first, random.integers(SEEDS, torch.arange(4), Stream.IMAGE_INDICES, (8,), len(dataset))
    )
    expected, last = GVAE().supervision.second(SEEDS, torch.arange(4), first, dataset.factor_sizes)
    assert torch.equal(second, expected)
    assert draws.changed is not None
    assert torch.equal(draws.changed, last)
    assert draws.noise.shape == (2, 4, 16, 5), "both images have noise of their own"


GRID = Setting(
    latents=4, sample_shape=(1, 8, 8), factor_sizes=(3, 4, 5), complete=True, dataset_size=60
)
NO_FACTORS = ("data", "needs known factors to draw pairs from", "none")
NO_GRID = (
    "data",
    "needs one image for every combination of factor values, in the order of the grid, to draw"
    " pairs from",
    "59 images for 60 combinations",
)
ONE_FACTOR = ("data", "needs at least two factors to draw pairs from", "1")
TOO_MANY = ("changed_factors", "must be at most the 3 factors of the data", 4)
WHERE = (
    "where",
    "cannot be used, since the second image of a pair may break the rule",
    "shape=0",
)
FEW_LATENTS = ("latents", "must be at least the 3 factors of the data, one for each", 2)
NO_VARIANCE = "must have posteriors with a variance, which the two images of a pair share"


BETA_VAE = BetaVAE()


def refused(pairs, objective=BETA_VAE, prior=STANDARD, name="pairs", **setting):
    found = pairs.problems(objective, replace(GRID, **setting), prior)
    assert all(one.remedy and one.name.startswith(f"{name}: ") for one in found)
    return [(one.name.removeprefix(f"{name}: "), one.rule, one.value) for one in found]


@pytest.mark.parametrize(
    ("pairs", "setting", "told"),
    [
        (Pairs(), {}, []),
        (Pairs(changed_factors=3), {}, []),
        (Pairs(), {"factor_sizes": ()}, [NO_FACTORS]),
        (Pairs(), {"complete": False, "dataset_size": 59}, [NO_GRID]),
        (Pairs(), {"factor_sizes": (60,)}, [ONE_FACTOR]),
        (Pairs(changed_factors=4), {}, [TOO_MANY]),
        (Pairs(), {"where": "shape=0"}, [WHERE]),
        (Pairs(), {"latents": 2}, []),
        (Pairs(which="named"), {"latents": 2}, [FEW_LATENTS]),
        (Pairs(which="named"), {"latents": 3}, []),
        (
            Pairs(changed_factors=4),
            {"complete": False, "dataset_size": 59, "where": "shape=0"},
            [NO_GRID, TOO_MANY, WHERE],
        ),
    ],
)
def test_data_without_pairs_is_refused_in_full(pairs, setting, told):
    assert refused(pairs, **setting) == told


def test_a_method_with_pairs_of_its_own_is_called_by_its_name():
    method = AdaGVAE(changed_factors=4)
    assert refused(method.supervision, method, name="ada_gvae") == [TOO_MANY]


@pytest.mark.parametrize("name", ["ae", "wae", "qlae"])
def test_codes_without_a_variance_cannot_be_averaged(name):
    objective = OBJECTIVES.load(name)()
    assert refused(Pairs(), objective) == [("objective", NO_VARIANCE, name)]


def test_priors_with_dependent_latents_are_refused():
    found = refused(Pairs(), prior=Mixture())
    assert found == [("prior", "must have independent latents", "mixture")]


def test_a_plan_refuses_data_without_factors_and_pairs_twice():
    images = np.zeros((20, 8, 8), dtype=np.uint8)
    images[::2] = 255
    with pytest.raises(InputError) as caught:
        make_plan(images, AdaGVAE(), network="mlp", steps=2)
    assert [one.name for one in caught.value.problems] == ["ada_gvae: data"]
    with pytest.raises(InputError) as caught:
        make_plan("sprites", AdaGVAE(), network="mlp", steps=2, supervision=Pairs())
    (problem,) = caught.value.problems
    assert (problem.name, problem.value) == ("supervision", "pairs")
    assert problem.rule == "cannot be pairs for ada_gvae, which has pairs of its own"


SMALL = {
    "data_options": {"x": 6, "y": 4, "scale": 2, "image_size": 28},
    "network": "mlp",
    "network_options": {"hidden": 8},
    "latents": 4,
    "batch_size": 8,
    "steps": 4,
}


def trained(objective, supervision=None):
    plan, dataset = make_plan("sprites", objective, supervision=supervision, **SMALL)
    training = TrainingStep(plan, plan.members, dataset, torch.device("cpu"))
    state = training.start()
    for _ in range(4):
        training.step(state)
    return training, state


@pytest.mark.parametrize(
    ("method", "pairs"),
    [
        (AdaGVAE(beta=3), "pairs"),
        (AdaMLVAE(beta=3), "pairs:average=harmonic"),
        (GVAE(beta=3), "pairs:which=named,changed_factors=1"),
        (MLVAE(beta=3), "pairs:which=named,changed_factors=1,average=harmonic"),
    ],
)
def test_the_papers_methods_are_beta_vae_with_pairs(method, pairs):
    _, ours = trained(method)
    _, composed = trained(BetaVAE(beta=3), pairs)
    assert torch.equal(ours.model.weights, composed.model.weights)
    _, without = trained(BetaVAE(beta=3))
    assert not torch.equal(ours.model.weights, without.model.weights)


@pytest.mark.parametrize("name", sorted(set(OBJECTIVES.built_in) - {"ae", "wae", "qlae"} - PAIRED))
def test_every_objective_with_posteriors_learns_from_pairs(name, monkeypatch):
    monkeypatch.setattr(factor_vae, "_HIDDEN", 16)
    training, state = trained(name, Pairs(threshold=[0.3, 1]))
    assert (state.diverged_at < 0).all()
    draws = training.draw(torch.tensor([0]))
    assert draws.indices.shape == (2, 1, 16)
    leaves = training._leaves(training.layout, state.model)
    forward = training._forward(leaves, state, draws, 0)[0].forward
    first, second = forward.mean.chunk(2, dim=1)
    # With threshold 1 all latents but one are shared.
    assert ((first == second).sum(dim=2)[1] >= 3).all()


def test_pairs_and_labels_go_together():
    training, state = trained(AdaGVAE(), "labels:count=5")
    assert training.kinds[0].quantities == ("reconstruction", "kl", "supervised", "loss")
    assert training.draw(torch.tensor([0])).indices.shape == (1, 1, 24)
    assert (state.diverged_at < 0).all()
