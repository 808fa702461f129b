# SPDX-License-Identifier: Apache-2.0
"""Names that people give to latents: kept with the run, bound to it, damage and nonsense told."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import unbraid as ub
from unbraid.codes import latent_names as names_module
from unbraid.codes.latent_names import LOCK, LONGEST, NAMES, latent_names, name_latent
from unbraid.core.errors import DamagedFileError, InputError
from unbraid.core.files import only_one
from unbraid.core.store import write_json
from unbraid.population.run_folder import RunFolder

SMALL = {
    "data_options": {"image_size": 16, "x": 6, "y": 4, "scale": 1},
    "network": "mlp",
    "network_options": {"hidden": 8},
    "latents": 3,
    "steps": 2,
    "quiet": True,
    "device": "cpu",
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("names") / "run"
    ub.train("sprites", "beta_vae", seeds=2, out=folder, **SMALL)  # type: ignore[arg-type]
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> RunFolder:
    return RunFolder.open(shutil.copytree(trained, tmp_path / "run"))


def test_nobody_gave_any(run: RunFolder):
    assert latent_names(run) == {}
    assert not (run.path / NAMES).exists()


def test_names_are_kept_changed_and_forgotten(run: RunFolder):
    assert name_latent(run, 1, 2, "  horizontal\n position ") == {1: {2: "horizontal position"}}
    name_latent(run, 1, 0, "<b>größe</b> 大きさ")
    name_latent(run, 0, 0, "x")
    again = RunFolder.open(run.path)
    kept = {1: {0: "<b>größe</b> 大きさ", 2: "horizontal position"}, 0: {0: "x"}}
    assert latent_names(again) == kept
    name_latent(again, 1, 2, "می‌خواهم 👩‍🔬")
    name_latent(again, 1, 2, "width")
    assert name_latent(again, 0, 0, " ") == {1: {0: "<b>größe</b> 大きさ", 2: "width"}}
    assert latent_names(again) == {1: {0: "<b>größe</b> 大きさ", 2: "width"}}


@pytest.mark.parametrize(
    ("member", "latent", "name", "about"),
    [
        (2, 0, "x", "member"),
        (-1, 0, "x", "member"),
        (0, 3, "x", "latent"),
        (0, -1, "x", "latent"),
        (0, 0, "x" * (LONGEST + 1), "name"),
        (0, 0, "bell\x07", "name"),
        (0, 0, "‮turned", "name"),
        (0, 0, "\u200bnothing", "name"),
        (0, 0, 7, "name"),
    ],
)
def test_nonsense_is_refused_and_loses_nothing(
    run: RunFolder, member: int, latent: int, name: str, about: str
):
    name_latent(run, 0, 1, "kept")
    with pytest.raises(InputError) as error:
        name_latent(run, member, latent, name)
    assert [problem.name for problem in error.value.problems] == [about]
    assert latent_names(run) == {0: {1: "kept"}}


def test_names_of_another_run_are_refused(run: RunFolder, tmp_path: Path):
    other = ub.train("sprites", "vae", out=tmp_path / "other", **SMALL)  # type: ignore[arg-type]
    name_latent(other.folder, 0, 0, "x")
    shutil.copy(other.path / NAMES, run.path / NAMES)
    with pytest.raises(DamagedFileError, match="another run"):
        latent_names(run)


@pytest.mark.parametrize("names", [{"5": {"0": "x"}}, {"0": {"9": "x"}}, {"a": {"0": "x"}}])
def test_names_of_latents_that_are_not_there_are_refused(run: RunFolder, names: object):
    write_json(run.path / NAMES, {"plan": run.plan.digest(), "names": names})
    with pytest.raises(DamagedFileError, match="Remove it"):
        latent_names(run)


def test_damage_is_told_and_nothing_is_written_over_it(run: RunFolder):
    name_latent(run, 0, 0, "x")
    path = run.path / NAMES
    damaged = path.read_bytes().replace(b'"x"', b'"y"')
    path.write_bytes(damaged)
    with pytest.raises(DamagedFileError, match="checksum"):
        name_latent(run, 0, 1, "z")
    assert path.read_bytes() == damaged


def test_one_person_writes_at_a_time(run: RunFolder, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(names_module, "_PATIENCE", 0.0)
    with only_one(run.path, LOCK), pytest.raises(InputError, match="another process"):
        name_latent(run, 0, 0, "x")


def test_more_steps_and_more_seeds_keep_them(tmp_path: Path):
    run = ub.train(
        "sprites", "beta_vae", seeds=1, out=tmp_path / "run", keep_optimiser=True, **SMALL
    )  # type: ignore[arg-type]
    name_latent(run.folder, 0, 0, "x")
    ub.resume(run.path, seeds=2, quiet=True, device="cpu")
    assert latent_names(RunFolder.open(run.path)) == {0: {0: "x"}}
    name_latent(RunFolder.open(run.path), 1, 1, "y")
    ub.resume(run.path, steps=4, quiet=True, device="cpu")
    assert latent_names(RunFolder.open(run.path)) == {0: {0: "x"}, 1: {1: "y"}}


def test_the_report_shows_them(run: RunFolder):
    from unbraid.report.train.member_view import view_member

    name_latent(run, 1, 2, "<i>tilt</i>")
    assert view_member(run, 1, "", "").named == {2: "<i>tilt</i>"}
    assert view_member(run, 0, "", "").named == {}
    page = ub.report(run.path).read_text()
    assert "<i>tilt</i>" not in page
