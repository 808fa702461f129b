# SPDX-License-Identifier: Apache-2.0
"""Files with a good checksum and a content that no command ever wrote: every reader says what it
cannot read, or makes again what can be made; none fails with a traceback.
"""

from __future__ import annotations

import copy
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

import unbraid as ub
from unbraid.core.errors import UnbraidError, UnreadableRecordError
from unbraid.core.store import (
    read_about_table,
    read_json,
    read_table,
    read_tensors,
    write_json,
    write_table,
    write_tensors,
)
from unbraid.data.perturbed.folder import read_record
from unbraid.population.run_folder import RunFolder
from unbraid.search.discover.plan import DiscoveryPlan
from unbraid.search.pbt.make_search import make_search
from unbraid.search.pbt.search import SearchRun
from unbraid.search.rpu.plan import make_recursion
from unbraid.search.rpu.recursion import Recursion

from .making import RECURSION, SEARCH, SMALL, SPRITES

Record = dict[str, Any]
DEEP: Any = []
for _ in range(60):
    DEEP = [DEEP]
STRANGE = (None, True, "x", "NaN", "", -1, 0, 1.5, 10**30, [], [1], {}, {"x": 1}, DEEP)
GONE = object()
SAMPLED = 40
"""Forgeries of each kind of record in the usual suite."""
Forgery = tuple[tuple[Any, ...], Any]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, a search and a recursion that were begun, and perturbed data."""
    home = tmp_path_factory.mktemp("forged")
    run = ub.train(
        "sprites", ub.BetaVAE(beta=[1, 4]), out=home / "run", steps=6, device="cpu", quiet=True,
        **SMALL,
    )  # fmt: skip
    run.score("mig", quiet=True)
    SearchRun.create(home / "pbt", *make_search("sprites", "beta_vae", **SEARCH))
    Recursion.create(home / "rpu", *make_recursion("sprites", "beta_vae", **RECURSION))
    ub.perturb("sprites", noise="uniform", out=home / "perturbed", data_options=SPRITES)
    search, _ = make_search("sprites", "beta_vae", **SEARCH)
    (home / "discover").mkdir()
    plan = DiscoveryPlan("x", "x", {}, None, 10, 1.0, search, None)
    write_json(home / "discover" / "discover.json", plan.record())
    return home


def read_discovery(folder: Path) -> DiscoveryPlan:
    from unbraid.core.records import read_object

    path = folder / "discover.json"
    return read_object(path, "a discovery", DiscoveryPlan.from_record, "Put a copy back.")


READERS: dict[str, Callable[[Path], Any]] = {
    "run/plan.json": RunFolder.open,
    "pbt/pbt.json": SearchRun.open,
    "rpu/rpu.json": Recursion.open,
    "discover/discover.json": read_discovery,
    "perturbed/perturbed.json": read_record,
}


def places(record: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every field of a record and of the records in it."""
    inside: Any = record.items() if isinstance(record, dict) else ()
    if isinstance(record, list):
        inside = enumerate(record)
    for key, value in inside:
        yield (*above, key)
        yield from places(value, (*above, key))


def forged(record: Record, place: tuple[Any, ...], value: object) -> Record:
    """*record* with another value at *place*, or nothing."""
    made = copy.deepcopy(record)
    *above, last = place
    inner: Any = made
    for key in above:
        inner = inner[key]
    if value is GONE:
        del inner[last]
    else:
        inner[last] = value
    return made


def check_forgeries(name: str, good: Record, tried: list[Forgery], folder: Path) -> None:
    """Each is read, or refused with the name of the file, of the field, and a remedy."""
    path, refusals = folder / Path(name).name, 0
    for place, value in tried:
        write_json(path, forged(good, place, value))
        try:
            READERS[name](folder)
        except UnreadableRecordError as error:
            refusals += 1
            (problem,) = error.problems
            assert problem.sentence.startswith(f"{path} is not a"), problem.sentence
            assert "this version can read: " in problem.sentence
            assert problem.remedy
    assert refusals > 0.25 * len(tried)  # options of data may be anything until they are read


@pytest.mark.parametrize("name", READERS)
def test_fields_are_there_and_of_their_types(name: str, folders: Path, tmp_path: Path) -> None:
    good = read_json(folders / name)
    every = [(place, value) for place in places(good) for value in (*STRANGE, GONE)]
    check_forgeries(name, good, random.Random(name).sample(every, SAMPLED), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_every_field_is_there_and_of_its_type(name: str, folders: Path, tmp_path: Path) -> None:
    good = read_json(folders / name)
    every = [(place, value) for place in places(good) for value in (*STRANGE, GONE)]
    check_forgeries(name, good, every, tmp_path)


FORGERIES = [
    ("members", []), ("members", "x"), ("steps", -1), ("steps", True), ("steps", "NaN"),
    ("latents", GONE), ("network_options", {"x": DEEP}), ("chunk_size", 0), ("log_every", 0),
    ("data_options", DEEP), ("likelihood", "x"), ("precision", "float3"), ("format", "2"),
]  # fmt: skip


@pytest.mark.parametrize("verb", ["score", "report", "resume"])
def test_forged_plans_are_one_message(verb: str, folders: Path, tmp_path: Path, unbraid) -> None:
    run = Path(shutil.copytree(folders / "run", tmp_path / "run"))
    good = read_json(run / "plan.json")
    unknown = forged(good, ("members", 0, "objective"), "no_vae")
    for record in (unknown, *(forged(good, (name,), value) for name, value in FORGERIES)):
        write_json(run / "plan.json", record)
        answer = unbraid(verb, str(run))
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.startswith(f"unbraid: {run / 'plan.json'} is not a plan this version can")
        assert answer.err.count("\n") == 1


def test_forged_values_that_can_be_read_are_not_used(
    folders: Path, tmp_path: Path, unbraid
) -> None:
    """Another plan than that of the checkpoints: nothing is trained, scored or shown by it."""
    run = Path(shutil.copytree(folders / "run", tmp_path / "run"))
    good = read_json(run / "plan.json")
    every = [forged(good, place, value) for place in places(good) for value in STRANGE]
    tried = random.Random(0).sample(every, 60)
    accepted = [record for record in tried if is_read(record, tmp_path / "tried")]
    for record in random.Random(0).sample([one for one in accepted if one != good], 4):
        write_json(run / "plan.json", record)
        for verb in ("report", "resume"):
            answer = unbraid(verb, str(run), *(("--device", "cpu") if verb == "resume" else ()))
            known = ("chunk_size", "mixed_chunks", "keep_optimiser", "former_digests")
            same = {k: v for k, v in record.items() if k not in known} == {
                k: v for k, v in good.items() if k not in known
            }
            assert answer.code in ((0, 1, 2) if same else (1, 2)), record
            assert "Traceback" not in answer.err


def is_read(record: Record, folder: Path) -> bool:
    folder.mkdir(exist_ok=True)
    write_json(folder / "plan.json", record)
    try:
        RunFolder.open(folder)
    except UnbraidError:
        return False
    return True


@pytest.mark.parametrize("name", ["members.parquet", "history.parquet", "scores.parquet"])
@pytest.mark.parametrize("how", ["column", "type", "rows"])
def test_forged_tables_are_made_again_or_refused(
    name: str, how: str, folders: Path, tmp_path: Path, unbraid
) -> None:
    run = Path(shutil.copytree(folders / "run", tmp_path / "run"))
    path = run / name
    table, about = read_table(path), read_about_table(path)
    expected = unbraid("report", str(run)).code, ub.open_run(run).members
    for column in [one for one in ("steps", "step", "value") if one in table]:
        changed: pd.DataFrame = table.drop(columns=column)
        if how == "type":
            changed = table.assign(**{column: "x"})
        elif how == "rows":
            changed = pd.concat([table, table.assign(member=99)])
        write_table(path, changed, about)
        answer = unbraid("report", str(run))
        if name == "scores.parquet":
            assert answer.code == 1
            assert answer.err.startswith(f"unbraid: {path} ")
            assert "Remove it and score again" in answer.err
        else:
            assert answer.code == expected[0]
            pd.testing.assert_frame_equal(ub.open_run(run).members, expected[1])


@pytest.mark.parametrize(
    "name",
    [
        "checkpoint/members-00000-00000.step-000000006.safetensors",
        "codes/member-00000.safetensors",
    ],
)
def test_forged_tensors_are_made_again_or_refused(
    name: str, folders: Path, tmp_path: Path, unbraid
) -> None:
    run = Path(shutil.copytree(folders / "run", tmp_path / "run"))
    path = run / name
    good, about = read_tensors(path)
    expected = ub.open_run(run).score("sap", quiet=True)
    (run / "scores.parquet").unlink()
    for tensor in good:
        rest = {key: value for key, value in good.items() if key != tensor}
        whole = good[tensor]
        for changed in (None, whole[:-1], torch.cat([whole, whole]), whole[..., :1], whole[None]):
            if changed is not None and changed.shape == whole.shape:
                continue
            more = {} if changed is None else {tensor: changed.contiguous()}
            write_tensors(path, {**rest, **more}, about)
            answer = unbraid("score", str(run), "--metrics", "sap", "--device", "cpu")
            if "checkpoint" in name and tensor == "history" and answer.code == 0:
                continue  # shorter curves are those of a shorter training
            if answer.code:
                assert answer.code == 1, answer.err
                assert answer.err.count("unbraid: ") == 1
                assert str(path) in answer.err
                assert "Run `unbraid resume" in answer.err
            else:
                assert "codes" in name
                found = ub.open_run(run).score("sap", quiet=True)
                pd.testing.assert_frame_equal(found, expected)
