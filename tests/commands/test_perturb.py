# SPDX-License-Identifier: Apache-2.0
"""The door to perturbed data: the right member and latent, every problem at once, and data that
trains like any other.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import unbraid as ub
from unbraid.commands.run import open_run
from unbraid.core import begun
from unbraid.core.errors import InputError
from unbraid.core.store import write_table
from unbraid.data.perturbed import folder as folder_module
from unbraid.data.perturbed.dataset import Perturbed
from unbraid.population.run_folder import RunFolder
from unbraid.scoring.score_table import stored_scores

SPRITES = {"x": 6, "y": 4, "scale": 2, "image_size": 28}
SMALL: dict[str, Any] = {
    "network": "mlp",
    "network_options": {"hidden": 16},
    "latents": 3,
    "batch_size": 8,
    "steps": 20,
}
SMALL |= {"learning_rate": 1e-3, "quiet": True, "device": "cpu"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "run"
    ub.train("sprites", ub.BetaVAE(beta=1), data_options=SPRITES, seeds=3, out=folder, **SMALL)
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


def perturb(run: Any, out: Path, **options: Any) -> Any:
    data, data_options = options.pop("data", "sprites"), options.pop("data_options", SPRITES)
    return ub.perturb(
        data, from_=run, out=out, data_options=data_options, device="cpu", quiet=True, **options
    )


def refused(make: Any) -> str:
    with pytest.raises(InputError) as caught:
        make()
    return str(caught.value)


def test_s_is_the_least_noisy_latent_of_the_member_with_the_lowest_mig(run: Path, tmp_path: Path):
    opened = open_run(run, device="cpu")
    opened.score("mig", quiet=True)
    stored = stored_scores(opened.folder)
    for lowest in (2, 1):
        stored["value"] = np.where(stored["member"] == lowest, 0.01, 0.5)
        stored.loc[stored["quantity"] == "count", "value"] = 3  # active latents
        write_table(run / "scores.parquet", stored)
        made = perturb(run, tmp_path / f"p{lowest}", epsilon=0.2)
        told = made.data.record["provenance"]
        assert (told["member"], told["mig"], told["run"]) == (lowest, 0.01, str(run))
        mean, logvar = opened.model(lowest).posterior(
            opened.dataset.images(np.arange(len(opened.dataset)))
        )
        noise = np.exp(logvar.astype(np.float64)).mean(axis=0)
        assert told["noise_per_latent"] == pytest.approx(noise, rel=1e-4)
        assert told["latent"] == noise.argmin()
        s = mean[:, told["latent"]]
        assert made.data.s == pytest.approx((s - s.mean()) / s.std(), abs=1e-3)
        assert made.data.s.std() == pytest.approx(1.0, rel=1e-5)
        assert made.data.pattern.first_rows(made.data.half_rows).min() >= 0
        # 6 positions are the finest factor: 4 rows for each of 6 steps.
        assert (told["steps"], told["rows_per_step"], told["shift_scale"]) == (
            6,
            pytest.approx(4.0),
            pytest.approx(6.9282, abs=1e-4),
        )
    shown = made.summary().splitlines()
    assert shown[0] == "epsilon 0.2, pattern noise, clipped to [0, 1], seed 0"
    assert shown[1].startswith(
        "member 1 (beta_vae beta=1 seed=1), whose MIG of 0.0100 is the lowest"
    )
    assert [line.split()[0] for line in shown[7:11]] == ["scale", "x", "y", "s"]
    assert shown[-1] == f"Next:  unbraid train {tmp_path / 'p1'} beta_vae"
    assert "<= 0.2" in shown[-3]


def test_a_chosen_member_and_the_scale_of_s(run: Path, tmp_path: Path):
    one = perturb(
        open_run(run, device="cpu"), tmp_path / "a", member=2, rows_per_step=2.0, seed=7, clip=False
    )
    other = perturb(
        run,
        tmp_path / "b",
        member=2,
        shift_scale=one.data.record["provenance"]["shift_scale"],
        seed=7,
        clip=False,
    )
    assert one.data.record["provenance"]["mig"] is None
    assert one.data.record["provenance"]["rows_per_step"] == pytest.approx(2.0)
    assert other.data.fingerprint() == one.data.fingerprint()
    assert other.data.clip is False
    assert not (run / "scores.parquet").exists()


@pytest.mark.parametrize("noise", ["pattern", "uniform"])
def test_it_trains_reopens_and_goes_on(run: Path, tmp_path: Path, noise: str):
    made = perturb(run if noise == "pattern" else None, tmp_path / "data", noise=noise)
    assert made.summary()
    out = tmp_path / "again"
    ub.train(tmp_path / "data", "beta_vae", seeds=2, out=out, **SMALL)
    assert open_run(out, device="cpu").score("mig", quiet=True)["mig"].notna().all()
    reopened = open_run(out, device="cpu")
    assert isinstance(reopened.dataset, Perturbed)
    assert reopened.dataset.fingerprint() == made.data.fingerprint()
    assert reopened.folder.plan.data_options == {"source": str(tmp_path / "data")}
    # As if it had stopped before the end: training goes on to the same weights.
    weights = [state.weights.clone() for _, state in reopened.folder.results()]
    shutil.rmtree(out / "checkpoint")
    reopened.resume(quiet=True)
    assert all(
        torch.equal(state.weights, old)
        for (_, state), old in zip(reopened.folder.results(), weights, strict=True)
    )
    shutil.move(tmp_path / "data", tmp_path / "moved")
    told = "where it was moved, give its new place with data=NEW_PLACE"
    assert told in refused(lambda: open_run(out).dataset)
    assert open_run(out, data=tmp_path / "moved").dataset.options == {
        "source": str(tmp_path / "moved")
    }


def test_everything_wrong_is_told_at_once(run: Path, tmp_path: Path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    options = {
        "epsilon": 0,
        "seed": -1,
        "noise": "patern",
        "rows_per_step": 0.0,
        "shift_scale": 1e9,
        "member": 9,
    }
    assert refused(lambda: perturb(run, tmp_path / "full", **options)).splitlines() == [
        f"out must be a new or empty folder; got '{tmp_path / 'full'}'. Choose another folder.",
        "seed must be a whole number in 0..4611686018427387904; got -1.",
        "epsilon must be a number from 1e-06 to 1; got 0.",
        "noise 'patern' is unknown; did you mean 'pattern'? Known: pattern, uniform.",
        "rows_per_step and shift_scale say the same; got both. Give one of them.",
        "rows_per_step must be a number above 0 and at most 64; got 0.0.",
        "shift_scale must be a number above 0 and at most 1024; got 1000000000.0.",
        "member must be a whole number in 0..2; got 9.",
    ]
    for epsilon in (1.5, float("nan"), "much", True, None):
        assert "epsilon must be a number from 1e-06 to 1" in refused(
            lambda epsilon=epsilon: perturb(run, tmp_path / "new", epsilon=epsilon)
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full", "run"]


def test_the_data_must_be_the_runs_own(run: Path, tmp_path: Path):
    out = tmp_path / "p"
    assert (
        refused(lambda: perturb(run, out, data_options=SPRITES | {"x": 5}))
        == f"data must be what {run} was trained on, sprites:x=6; got sprites:x=5. Give the run's"
        " own data."
    )
    assert (
        refused(lambda: perturb(run, out, data="xysquares", data_options={}))
        == f"data must be what {run} was trained on, sprites; got xysquares. Give the run's own"
        " data."
    )
    assert (
        refused(lambda: perturb(None, out))
        == "from_ must name a run on the same data, to read s from; got nothing. Give"
        " from_=FOLDER, or noise=uniform for the control."
    )
    missing = refused(lambda: perturb(tmp_path / "none", out, data="dsprite", data_options={}))
    assert "dataset 'dsprite' is unknown; did you mean 'dsprites'?" in missing
    assert "run must exist" in missing
    assert refused(lambda: perturb(run, out, noise="uniform", member=1)).splitlines() == [
        (
            f"from_ belongs to the pattern, and uniform noise has no use for it; got {run}."
            " Leave it out."
        ),
        "member belongs to the pattern, and uniform noise has no use for it; got 1. Leave it out.",
    ]
    assert not out.exists()


def test_an_unfinished_run_gives_no_s(run: Path, tmp_path: Path):
    shutil.rmtree(run / "checkpoint")
    for options in ({}, {"member": 0}):
        assert (
            refused(lambda options=options: perturb(run, tmp_path / "p", **options))
            == f"run must be trained to the end; got {run}, unfinished. Go on with: unbraid resume"
            f" {run}"
        )
    assert not (tmp_path / "p").exists()


def test_without_factors_a_member_must_be_named(tmp_path: Path):
    np.save(tmp_path / "own.npy", ub.load("sprites", **SPRITES).images(np.arange(48)))
    ub.train(tmp_path / "own.npy", "vae", out=tmp_path / "run", **SMALL)
    own: dict[str, Any] = {"data": tmp_path / "own.npy", "data_options": {}}
    assert (
        refused(lambda: perturb(tmp_path / "run", tmp_path / "p", **own))
        == "member must be given where the data has no factors, since MIG cannot choose then; got"
        " none. Choose one with member, in 0..0."
    )
    made = perturb(tmp_path / "run", tmp_path / "p", member=0, **own)
    assert made.data.record["provenance"]["steps"] == 14  # half the side
    assert made.report.table().index.tolist() == ["s"]
    assert "MIG" not in made.summary()


def test_a_collapsed_member_gives_s_only_where_it_is_chosen(run: Path, tmp_path: Path):
    opened = open_run(run, device="cpu")
    opened.score("mig", quiet=True)
    stored = stored_scores(opened.folder)
    counts = stored["quantity"] == "count"
    stored.loc[counts, "value"] = [0, 3, 3]
    stored.loc[stored["quantity"] == "score", "value"] = [0.01, 0.04, 0.03]
    write_table(run / "scores.parquet", stored)
    made = perturb(run, tmp_path / "p")
    assert made.data.record["provenance"]["member"] == 2
    stored.loc[counts, "value"] = 0
    write_table(run / "scores.parquet", stored)
    assert refused(lambda: perturb(run, tmp_path / "q")).startswith(
        "run needs a restart of beta_vae:beta=1 with 2 active latents or more; got member 0 has 0,"
        " member 1 has 0, member 2 has 0. Weaken the objective"
    )
    made = perturb(run, tmp_path / "q", member=2)
    assert made.data.record["provenance"]["collapsed"], "trained for a moment only"
    assert "it is collapsed" in made.summary().splitlines()[1]


def test_a_restart_that_lost_two_factors_gives_no_s(run: Path, tmp_path: Path):
    """Of three factors two latents are enough, and one is not, however low its MIG."""
    opened = open_run(run, device="cpu")
    opened.score("mig", quiet=True)
    stored = stored_scores(opened.folder)
    stored.loc[stored["quantity"] == "count", "value"] = [1, 2, 3]
    stored.loc[stored["quantity"] == "score", "value"] = [0.01, 0.03, 0.04]
    write_table(run / "scores.parquet", stored)
    made = perturb(run, tmp_path / "p")
    told = made.data.record["provenance"]
    assert (told["member"], told["among"], told["refused"]) == (1, "beta_vae:beta=1", {"0": 1})
    assert made.summary().splitlines()[1] == (
        "member 1 (beta_vae beta=1 seed=1), whose MIG of 0.0300 is the lowest of 3 restarts of"
        " beta_vae:beta=1; refused, with fewer than 2 active latents: 0 (1)"
    )


def test_restarts_of_several_settings_are_not_mixed(tmp_path: Path):
    opened = ub.train(
        "sprites", ub.BetaVAE(beta=[1, 2]), data_options=SPRITES, seeds=2, out=tmp_path / "run",
        **SMALL,
    )  # fmt: skip
    opened.score("mig", quiet=True)
    stored = stored_scores(opened.folder)
    stored.loc[stored["quantity"] == "count", "value"] = 3
    stored.loc[stored["quantity"] == "score", "value"] = [0.2, 0.3, 0.05, 0.01]
    write_table(tmp_path / "run" / "scores.parquet", stored)
    told = refused(lambda: perturb(tmp_path / "run", tmp_path / "p"))
    assert told == (
        "among must name one objective and strength, whose restarts are compared; got none of"
        " beta_vae:beta=1, beta_vae:beta=2. Give one, as in among=beta_vae:beta=1, or choose a"
        " member."
    )
    told = refused(lambda: perturb(tmp_path / "run", tmp_path / "p", among="beta_vae:beta=3"))
    assert "objective and strength of the run 'beta_vae:beta=3' is unknown" in told
    assert (
        "leave out one"
        in refused(
            lambda: perturb(tmp_path / "run", tmp_path / "p", among="beta_vae:beta=1", member=1)
        ).lower()
    )
    weak = [one.id for one in opened.folder.plan.members if one.hyper["beta"] == 1]
    made = perturb(tmp_path / "run", tmp_path / "p", among="beta_vae:beta=1")
    assert made.data.record["provenance"]["member"] in weak


def test_autoencoders_have_no_noise_to_compare(tmp_path: Path):
    opened = ub.train("sprites", ["ae", "vae"], data_options=SPRITES, out=tmp_path / "run", **SMALL)
    opened.score("mig", quiet=True)
    stored = stored_scores(opened.folder)
    stored.loc[stored["quantity"] == "count", "value"] = 3  # active latents
    write_table(tmp_path / "run" / "scores.parquet", stored)
    told = refused(lambda: perturb(tmp_path / "run", tmp_path / "p", member=0))
    assert told == "member must have noisy latents, to find the least noisy; got ae seed=0."
    assert perturb(tmp_path / "run", tmp_path / "p").data.record["provenance"]["member"] == 1
    ub.train("sprites", "ae", data_options=SPRITES, out=tmp_path / "alone", **SMALL)
    told = refused(lambda: perturb(tmp_path / "alone", tmp_path / "q"))
    assert told == "run needs members with noisy latents, to find the least noisy; got ae."


def test_a_diverged_member_gives_no_s(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    opened = open_run(run, device="cpu")
    table = opened.members
    table.loc[table["member"] == 2, "status"] = "diverged"
    monkeypatch.setattr(RunFolder, "members", lambda folder: table)
    told = refused(lambda: perturb(run, tmp_path / "p", member=2))
    assert told.startswith("member must be one that did not diverge; got 2, whose loss")
    assert told.endswith(" Choose another, such as member=0.")


def test_a_latent_that_says_nothing_is_refused(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def constant(
        network: Any, weights: Any, samples: Any, indices: torch.Tensor, precision: Any
    ) -> Any:
        return torch.ones(1, len(indices), 3), torch.zeros(1, len(indices), 3)

    monkeypatch.setattr("unbraid.analysis.perturbation.least_noisy.encode_images", constant)
    told = refused(lambda: perturb(run, tmp_path / "p", member=0))
    assert told == "s must vary over the data; got mean 1, deviation 0. Choose another member."
    monkeypatch.setattr(
        "unbraid.analysis.perturbation.least_noisy.encode_images",
        lambda *given: (constant(*given)[0] * torch.nan, constant(*given)[1]),
    )
    assert (
        refused(lambda: perturb(run, tmp_path / "p", member=0))
        == "member must have finite codes; got 0. Choose another."
    )
    assert not (tmp_path / "p").exists()


def test_without_a_folder_the_next_free_one_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    made = [
        ub.perturb("sprites", data_options={"x": 4, "y": 3, "scale": 1}, noise="uniform")
        for _ in range(2)
    ]
    assert [one.data.folder for one in made] == [
        tmp_path / "perturbed" / f"sprites-uniform-{n}" for n in (1, 2)
    ]


def test_a_folder_whose_writing_was_killed_can_be_used_again(
    run: Path, tmp_path: Path, monkeypatch
):
    out = tmp_path / "out"

    def killed(*given: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(begun, "remove_leftovers", lambda folder: None)
        patch.setattr(folder_module.store, "write_json", killed)
        with pytest.raises(KeyboardInterrupt):
            perturb(run, out)
    assert (out / "perturbation.safetensors").is_file()
    assert perturb(run, out).data.record["noise"] == "pattern"
