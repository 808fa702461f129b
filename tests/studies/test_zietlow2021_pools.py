# SPDX-License-Identifier: Apache-2.0
"""What the study of Zietlow et al. 2021 trains, at each scale, and the data it is trained on."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import torch
from tests.studies.worlds import SCALES
from tests.studies.zietlow2021_tables import WORLDS

from unbraid.core.errors import InputError
from unbraid.data import load
from unbraid.objectives import OBJECTIVES
from unbraid.population.plan import make_plan
from unbraid.studies.definition import definition, model_steps, models
from unbraid.studies.pool import Slice
from unbraid.studies.zietlow2021 import STUDY
from unbraid.studies.zietlow2021.modified import LeastNoisy, Modified, Noisy
from unbraid.studies.zietlow2021.pools import PILOTS
from unbraid.studies.zietlow2021.settings import (
    DSPRITES,
    MODIFIED,
    NOISE,
    SHAPES,
    STEPS,
    STRENGTH,
    Training,
)

pool, plan_of, every = WORLDS.pool, WORLDS.plan, WORLDS.slices


def settings(slices: list[Slice]) -> Counter:
    """How many seeds each data, objective and strength has."""
    found = Counter()
    for one in slices:
        for member in plan_of(one).members:
            strength = member.hyper.get(STRENGTH.get(member.objective, ""))
            found[one.data, member.objective, strength] += 1
    return found


def test_strengths_are_those_that_objectives_sweep():
    for name, hyper in STRENGTH.items():
        own = OBJECTIVES.load(name)
        assert hyper in {*own().hyper()}
        assert own.strength in (hyper, "beta")


def test_the_stated_strengths_have_ten_seeds_of_four_methods():
    for own in (DSPRITES, SHAPES):
        slices = [
            *(one for one in pool("gpu", "table1").slices if one.plan["data"] == own.data),
            *(one for one in pool("gpu", "table2").slices if one.plan["data"] == own.data),
        ]
        found = settings(slices)
        names = [own.data, f"{own.data}_{MODIFIED}", f"{own.data}_{NOISE}"]
        wanted = Counter(
            {(name, one, value): 10 for name in names for one, value in own.stated.items()}
        )
        wanted |= Counter({(name, "ae", None): 10 for name in names[:2]})
        assert found == wanted


def test_every_version_has_the_same_other_strengths():
    found = settings([*pool("gpu", "scaled").slices])
    for own in (DSPRITES, SHAPES):
        for version in ("", f"_{MODIFIED}", f"_{NOISE}"):
            for method, stated in own.stated.items():
                for times in (0.5, 2.0, 4.0):
                    assert found[own.data + version, method, times * stated] == 10
    assert found.total() == 2 * 3 * 3 * 3 * 10


@pytest.mark.parametrize("scale", SCALES)
def test_each_modified_version_comes_from_the_stated_beta_vaes_of_its_own_data(scale):
    parts = {f"{made.name}/{one.name}": one for made, one in every(scale)}
    modified = [one for one in parts.values() if isinstance(one.made, Modified)]
    assert len(modified) >= 5
    for one in modified:
        source = parts[one.made.after]
        assert source.plan["data"] == one.plan["data"]
        assert source.made is None
        assert isinstance(source.leaves, LeastNoisy)
        assert source.leaves.among in source.plan["objective"]
        assert one.data == f"{source.data}_{MODIFIED}"
    noisy = [one for one in parts.values() if isinstance(one.made, Noisy)]
    by_data = {one.plan["data"]: one.made.epsilon for one in modified}
    assert all(one.made.epsilon == by_data[one.plan["data"]] for one in noisy)


@pytest.mark.parametrize("scale", SCALES)
def test_every_latent_is_told(scale):
    assert all(one.latents for _, one in every(scale))


def test_as_many_latents_as_factors():
    for _, one in every("gpu"):
        if one.plan["data"] == "with_s":
            base = one.plan["data_options"]["of"]
            assert one.plan["latents"] == {"dsprites": 6, "shapes3d_drawn": 7}[base]
        else:
            assert one.plan["latents"] == (5 if one.plan["data"] == "dsprites" else 6)


def test_the_pilot_has_seeds_of_its_own_and_no_claim():
    pilots, others = (
        {seed for made, one in every("gpu") if (made.name in PILOTS) == own
         for seed in one.plan["seeds"]}
        for own in (True, False)
    )  # fmt: skip
    assert not pilots & others
    fresh = {seed for made in STUDY.pools("gpu", 1_000) for one in made.slices
             for seed in one.plan["seeds"] if made.name not in PILOTS}  # fmt: skip
    assert not pilots & fresh  # the seeds that docs/studies tell readers to take
    (rates,) = pool("gpu", "pilot-rate").slices
    assert rates.stages == (20_000, 40_000)
    assert {one.learning_rate for one in plan_of(rates).members} == {1e-4, 2e-4, 5e-4}


def test_a_part_of_the_pilot_is_the_same_whatever_it_decides(monkeypatch):
    """Else following its rules would make its own tables those of another version."""
    before = {made.name: [definition(one) for one in made.slices] for made in STUDY.pools("gpu", 0)}
    chosen = Training(20_000, 20_000, 1e-4)
    pools = import_module("unbraid.studies.zietlow2021.pools")
    monkeypatch.setitem(pools.SETTINGS, "gpu", chosen)
    after = {made.name: [definition(one) for one in made.slices] for made in STUDY.pools("gpu", 0)}
    assert before["pilot-rate"] == after["pilot-rate"]
    assert before["pilot-strengths"] != after["pilot-strengths"]
    shapes = replace(SHAPES, stated={**SHAPES.stated, "beta_vae": 8.0}, epsilon=0.2)
    monkeypatch.setattr(pools, "SHAPES", shapes)
    last = {made.name: [definition(one) for one in made.slices] for made in STUDY.pools("gpu", 0)}
    assert after["pilot-strengths"] == last["pilot-strengths"]
    assert after["pilot-epsilon"] != last["pilot-epsilon"]
    monkeypatch.setattr(pools, "SHAPES", replace(shapes, epsilon=0.15))
    end = {made.name: [definition(one) for one in made.slices] for made in STUDY.pools("gpu", 0)}
    assert end["pilot-epsilon"] == last["pilot-epsilon"]


def test_the_scale_of_a_gpu_costs_about_what_was_planned():
    """For 40,000 updates; the pilot may choose others."""
    steps = Counter()
    for made, one in every("gpu"):
        if not made.needs:
            steps[made.name] += model_steps(definition(one)) * 40_000 / STEPS
    assert steps["table1"] + steps["table2"] + steps["scaled"] + steps["extra-factor"] < 35e6
    assert sum(steps.values()) < 45e6


def test_the_scale_small_is_small():
    assert sum(model_steps(definition(one)) for _, one in every("small")) < 70_000
    assert sum(models(definition(one)) for _, one in every("small")) < 160
    assert {one.plan["data"] for _, one in every("small")} == {"sprites", "with_s"}


def test_plans_of_drawn_data_are_accepted():
    for made in ("table1", "extra-factor"):
        plan = make_plan(**pool("gpu", made).slices[0].plan)[0]
        assert plan.latents in (5, 6)


def scored_with(monkeypatch: pytest.MonkeyPatch, units: dict[int, float]) -> None:
    """Stored scores say so many active units, whatever the models have."""
    from unbraid.scoring import score_table

    stored = score_table.stored_scores

    def read(run):
        scores = stored(run)
        own = (scores["metric"] == "active_units") & (scores["quantity"] == "score")
        told = [units.get(one, 2.0) for one in scores.loc[own, "member"]]
        scores.loc[own, "value"] = told
        return scores

    monkeypatch.setattr(score_table, "stored_scores", read)


def test_s_is_taken_from_the_restart_of_lowest_mig_that_is_not_pruned(tmp_path, monkeypatch):
    """The whole way: models trained, s left in 16 bits, data made from it twice alike."""
    import unbraid as ub
    from unbraid.analysis.perturbation import least_noisy

    base = {"image_size": 16, "x": 6, "y": 5, "scale": 1}
    run = ub.train("sprites", ["beta_vae:beta=1,2", "ae"], data_options=base, seeds=3, steps=30,
                   network="mlp", network_options={"hidden": 8}, latents=2, batch_size=8,
                   learning_rate=1e-3, quiet=True, device="cpu", out=tmp_path / "run")  # fmt: skip
    scores = run.score(["mig", "active_units"], quiet=True).reset_index()
    members = [one.id for one in run.folder.plan.members if one.hyper.get("beta") == 2]
    units = dict.fromkeys(members, 2.0) | {members[0]: 0.0}
    scored_with(monkeypatch, units)
    tensors, made = LeastNoisy("beta_vae:beta=2").take(run.folder, torch.device("cpu"))
    mig = scores.set_index("member")["mig"]
    assert made["member"] == min(members[1:], key=lambda one: mig[one])
    assert made["refused"] == {str(members[0]): 0}
    assert made["latent"] == int(np.argmin(made["noise_per_latent"]))
    assert "run" not in made
    assert tensors["s"].dtype == torch.float16
    data = load("sprites", **base)
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
    modified = Modified("table1/x", 0.2)
    one, other = (modified.make(data, (tensors, made), tmp_path / place) for place in ("a", "b"))
    assert one.fingerprint() == other.fingerprint()
    exact, _ = least_noisy.read_s(run.folder, torch.device("cpu"), made["member"], quiet=True)
    assert one.s == pytest.approx(exact, abs=5e-3)
    noisy = Noisy(0.2).make(data, None, tmp_path / "b")
    assert noisy.fingerprint() != one.fingerprint()
    assert noisy.epsilon == one.epsilon


def test_restarts_that_are_all_pruned_leave_nothing(tmp_path, monkeypatch):
    import unbraid as ub

    run = ub.train("sprites", "beta_vae:beta=1", data_options={"image_size": 16}, seeds=2, steps=2,
                   network="mlp", network_options={"hidden": 4}, latents=3, batch_size=4,
                   quiet=True, device="cpu", out=tmp_path / "run")  # fmt: skip
    run.score(["mig", "active_units"], quiet=True)
    scored_with(monkeypatch, dict.fromkeys(range(2), 1.0))
    with pytest.raises(
        InputError, match="needs a restart of beta_vae:beta=1 with 2 active latents"
    ):
        LeastNoisy("beta_vae:beta=1").take(run.folder, torch.device("cpu"))
