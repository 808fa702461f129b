# SPDX-License-Identifier: Apache-2.0
"""Slices whose data are made from what a slice before them left: waiting, making, refusing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from unbraid.core.errors import DamagedFileError, InputError, invalid
from unbraid.core.registry import Citation
from unbraid.data.perturbed.by_pattern import write_by_pattern
from unbraid.data.perturbed.dataset import Perturbed
from unbraid.data.perturbed.pattern import standardised
from unbraid.studies.definition import definition
from unbraid.studies.pool import Pool, Slice, check_pools
from unbraid.studies.results import Results
from unbraid.studies.run_slices import run_slices
from unbraid.studies.standing import standing
from unbraid.studies.study import Study

CPU = torch.device("cpu")
PLAN: dict[str, Any] = {
    "data": "sprites",
    "data_options": {"x": 6, "y": 4, "scale": 2, "image_size": 16},
    "objective": "beta_vae",
    "network": "mlp",
    "network_options": {"hidden": 8},
    "latents": 3,
    "batch_size": 8,
    "learning_rate": 1e-3,
    "steps": 10,
    "seeds": [0],
}
SOURCE = "first/source"


@dataclass(frozen=True)
class MeanCode:
    """Leaves the first code of every image of the recorded sample, in the order of the data."""

    version: int = 1
    nothing: str = ""

    def definition(self) -> dict[str, Any]:
        return {"version": self.version}

    def take(self, run: Any, device: torch.device) -> Any:
        from unbraid.codes.codes import CodeStore

        if self.nothing:
            raise invalid("run", "must have a member that will do", self.nothing)
        codes = CodeStore(run).load(0)
        s = np.zeros(len(codes.indices), dtype=np.float32)
        s[codes.indices] = codes.mean[:, 0]
        return {"s": torch.from_numpy(s)}, {"member": 0}


@dataclass(frozen=True)
class Moved:
    """Perturbed by what was left."""

    after: str = SOURCE
    epsilon: float = 0.2

    def definition(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon}

    def make(self, base: Any, left: Any, folder: Path) -> Perturbed:
        tensors, made = left
        s = standardised(tensors["s"].numpy())[0]
        write_by_pattern(folder, base, s, epsilon=self.epsilon, provenance=made | {"latent": 0})
        return Perturbed(folder, base)


def study(folder: Path, leaves: MeanCode | None = None, made: Moved | None = None) -> Study:
    source = Slice("source", PLAN, ("mig",), latents=True, leaves=leaves or MeanCode())
    plan = PLAN | {"seeds": [0, 1]}
    moved = Slice("moved", plan, ("mig",), called="sprites_moved", made=made or Moved())
    pools = Pool("first", "", (source,)), Pool("second", "", (moved,))
    folder.mkdir(exist_ok=True)
    (folder / "claims.toml").write_text("")
    citation = Citation("Nobody", 2026, "A toy", "nowhere")
    return Study("toy", "", citation, folder, lambda *_: pools, {})


def run(results: Results, *pools: str, **options: Any) -> Any:
    parts = [part for part in results.slices() if not pools or part[0].name in pools]
    return run_slices(results, parts, CPU, quiet=True, **options)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Results:
    results = Results(study(tmp_path_factory.mktemp("made") / "study"), "small")
    assert run(results).made == [SOURCE, "second/moved"]
    return results


def test_the_second_slice_waits_for_the_first_and_says_so(tmp_path: Path):
    results = Results(study(tmp_path / "s"), "small")
    ended = run(results, "second")
    assert (ended.made, list(ended.waiting)) == ([], ["second/moved"])
    assert ended.waiting["second/moved"] == f"needs what {SOURCE} leaves; make that slice first."
    found = {one.name: one.state for one in standing(results, results.slices(), CPU).slices}
    assert found == {"source": "left", "moved": "waits"}
    assert "waits" in standing(results, results.slices(), CPU).summary()


def test_in_one_call_it_waits_until_the_first_is_scored(done: Results):
    table = done.table()
    assert table["data"].tolist() == ["sprites", "sprites_moved", "sprites_moved"]
    assert table["variance_by_latent"].iloc[0] is not None
    level = table["information_level"].iloc[0]
    assert len(level) == 3
    assert all(0 < 1 - one <= 1.01 for one in level)
    assert table["variance_by_latent"].iloc[1] is None


def test_what_was_left_is_enough_to_make_the_same_data_elsewhere(done: Results, tmp_path: Path):
    """Tables and what lies beside them travel; models and work folders do not."""
    import shutil

    elsewhere = Results(done.study, "small", tmp_path / "elsewhere")
    shutil.copytree(done.folder / "small", elsewhere.folder / "small")
    path = elsewhere.path(*elsewhere.slices()[1])
    path.unlink()
    assert run(elsewhere).made == ["second/moved"]
    again, before = elsewhere.about(*elsewhere.slices()[1]), done.about(*done.slices()[1])
    assert again["data_fingerprint"] == before["data_fingerprint"]
    assert again["made_from"] == before["made_from"]
    columns = ["mig", "seed"]
    assert elsewhere.table()[columns].equals(done.table()[columns])


def test_a_table_made_from_other_leavings_is_refused(done: Results, tmp_path: Path):
    import shutil

    results = Results(done.study, "small", tmp_path / "r")
    shutil.copytree(done.folder / "small", results.folder / "small")
    pool, one = results.part(SOURCE)
    tensors, about = results.left(SOURCE)
    results.leave(pool, one, ({"s": tensors["s"] + 1}, {"member": about["member"]}))
    with pytest.raises(InputError, match=f"got data from another {SOURCE}"):
        Results(done.study, "small", results.folder).check()


@pytest.mark.parametrize("damage", ["gone", "flipped"])
def test_what_is_lost_or_damaged_is_told(done: Results, tmp_path: Path, damage: str):
    import shutil

    results = Results(done.study, "small", tmp_path / "r")
    shutil.copytree(done.folder / "small", results.folder / "small")
    path = results.left_path(*results.part(SOURCE))
    if damage == "gone":
        path.unlink()
    else:
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    with pytest.raises(DamagedFileError, match=r"source\.safetensors.* make it again: unbraid"):
        results.left(SOURCE)
    results.path(*results.slices()[1]).unlink()
    ended = run(Results(done.study, "small", results.folder))
    assert "source.safetensors" in ended.waiting["second/moved"]


def test_without_the_first_table_the_second_can_still_be_read(done: Results, tmp_path: Path):
    import shutil

    results = Results(done.study, "small", tmp_path / "r")
    shutil.copytree(done.folder / "small", results.folder / "small")
    results.path(*results.part(SOURCE)).unlink()
    assert Results(done.study, "small", results.folder).table()["data"].nunique() == 1
    with pytest.raises(InputError, match="slice must be made before what needs it"):
        results.left(SOURCE)


def test_leavings_of_another_rule_are_refused(done: Results):
    newer = study(done.study.folder, MeanCode(version=2))
    with pytest.raises(InputError, match="what another slice leaves"):
        Results(newer, "small").left(SOURCE)


def test_a_slice_without_a_model_that_will_do_still_has_its_table(tmp_path: Path):
    results = Results(study(tmp_path / "s", MeanCode(nothing="0 of 1")), "small")
    ended = run(results)
    assert ended.made == [SOURCE]
    assert ended.waiting["second/moved"] == (
        f"slice must leave something for others; got '{SOURCE}'. run must have a member that will"
        " do; got '0 of 1'."
    )


def test_a_slice_must_come_after_what_it_needs():
    source = Slice("source", PLAN, ("mig",), leaves=MeanCode())
    moved = Slice("moved", PLAN, ("mig",), made=Moved())
    check_pools([Pool("first", "", (source, moved))])
    for pools in (
        [Pool("first", "", (moved, source))],
        [Pool("first", "", (replace(source, leaves=None), moved))],
        [Pool("first", "", (source,)), Pool("x", "", (replace(moved, made=Moved("first/b")),))],
    ):
        with pytest.raises(InputError, match="that leaves something"):
            check_pools(pools)


def test_the_definition_says_how_data_are_made_and_else_is_as_it_was():
    plain = Slice("a", PLAN, ("mig",))
    moved = replace(plain, called="sprites_moved", made=Moved())
    assert definition(moved).keys() - definition(plain).keys() == {"called", "made"}
    assert definition(moved)["made"] == {"after": SOURCE, "epsilon": 0.2}
    assert definition(replace(plain, leaves=MeanCode())) == definition(plain)
    assert definition(replace(plain, measures=("axes",))) == definition(plain) | {
        "measures": {"axes": 1}
    }
    assert (plain.data, moved.data) == ("sprites", "sprites_moved")
