# SPDX-License-Identifier: Apache-2.0
"""Members are grouped, named and coloured by what distinguishes them."""

import unbraid as ub
from unbraid.population.plan import Plan, make_plan
from unbraid.report.train.settings import find_settings, swept_name, swept_value


def plan_of(objective: object, **options: object) -> Plan:
    return make_plan("pinwheel", objective, network="mlp", **options)[0]  # pyright: ignore[reportArgumentType]


def test_a_sweep_is_ordered_from_weak_to_strong() -> None:
    plan = plan_of(ub.BetaVAE(beta=[16, 1, 4]), seeds=2)
    settings = find_settings(plan)
    assert [setting.label for setting in settings] == [
        "β-VAE, β = 1",
        "β-VAE, β = 4",
        "β-VAE, β = 16",
    ]
    assert [setting.members for setting in settings] == [(2, 3), (4, 5), (0, 1)]
    assert len({setting.colour for setting in settings}) == 3
    assert swept_name(plan, settings) == "beta"
    assert [swept_value(plan, setting, "beta") for setting in settings] == ["1", "4", "16"]


def test_several_objectives_keep_their_own_hue_and_ticks() -> None:
    plan = plan_of([ub.FactorVAE(), ub.BetaVAE(beta=[1, 4]), ub.AE()])
    settings = find_settings(plan)
    assert [setting.label for setting in settings] == [
        "FactorVAE, γ = 10",
        "β-VAE, β = 1",
        "β-VAE, β = 4",
        "AE",
    ]
    assert [setting.tick for setting in settings] == ["γ = 10", "β = 1", "β = 4", "AE"]
    assert [setting.strength for setting in settings] == [10.0, 1.0, 4.0, None]
    assert settings[0].colour == "#0072b2"
    assert swept_name(plan, settings) is None


def test_two_swept_values_are_both_told() -> None:
    plan = plan_of(ub.BetaVAE(beta=[1, 4]), learning_rate=[1e-3, 1e-4])
    settings = find_settings(plan)
    assert settings[0].label == "β-VAE, β = 1, learning rate = 0.001"
    assert settings[0].tick == "β = 1<br>learning rate = 0.001"
    assert swept_name(plan, settings) is None


def test_a_swept_learning_rate_names_the_axis() -> None:
    plan = plan_of(ub.BetaVAE(), learning_rate=[1e-3, 1e-4])
    settings = find_settings(plan)
    assert [setting.tick for setting in settings] == [
        "learning rate = 0.001",
        "learning rate = 0.0001",
    ]
    assert swept_name(plan, settings) == "learning_rate"
    assert swept_value(plan, settings[1], "learning_rate") == "0.0001"


def test_swept_priors_are_told_and_may_name_the_axis() -> None:
    plan = plan_of(ub.BetaVAE(), prior=["isotropic", "sparse"])
    settings = find_settings(plan)
    assert [setting.label for setting in settings] == [
        "β-VAE, β = 4, prior = isotropic",
        "β-VAE, β = 4, prior = sparse, prior gamma = 0.8, prior spike = 0.05",
    ]
    assert swept_name(plan, settings) is None
    plan = plan_of(ub.BetaVAE(), prior=ub.Sparse(gamma=[0.1, 0.8]))  # type: ignore[attr-defined]
    settings = find_settings(plan)
    assert swept_name(plan, settings) == "prior_gamma"
    assert [swept_value(plan, setting, "prior_gamma") for setting in settings] == ["0.1", "0.8"]


def test_a_schedule_counts_by_where_it_ends() -> None:
    settings = find_settings(plan_of(ub.BetaVAE(beta=["linear(0, 8, 10)", 1, 16])))
    assert [setting.label for setting in settings] == [
        "β-VAE, β = 1",
        "β-VAE, β = linear(0, 8, 10)",
        "β-VAE, β = 16",
    ]
    assert [setting.strength for setting in settings] == [1.0, 8.0, 16.0]


def test_every_member_is_in_exactly_one_setting() -> None:
    plan = plan_of(
        [ub.BetaVAE(beta=[1, 2, 3]), ub.DIPVAEI(lambda_od=[1, 2], lambda_d_factor=[1, 5])], seeds=3
    )
    found = sorted(member for setting in find_settings(plan) for member in setting.members)
    assert found == [member.id for member in plan.members]


def test_many_objectives_have_colours_of_their_own() -> None:
    names = [
        "ae",
        "vae",
        "beta_vae",
        "annealed_vae",
        "factor_vae",
        "beta_tcvae",
        "dip_vae_i",
        "dip_vae_ii",
    ]
    assert len({setting.colour for setting in find_settings(plan_of(names))}) == len(names)
