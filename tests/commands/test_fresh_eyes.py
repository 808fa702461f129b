# SPDX-License-Identifier: Apache-2.0
"""Mistakes that a review found, each kept from coming back."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

import unbraid as ub
from unbraid.codes.codes import CodeStore
from unbraid.commands.command_line import main
from unbraid.core import store
from unbraid.core.errors import InputError, UnbraidError
from unbraid.objectives.beta_vae import BetaVAE
from unbraid.population.plan import make_plan
from unbraid.population.run_folder import RunFolder

SMALL = {"x": 6, "y": 4, "scale": 1, "image_size": 28}


def small_run(folder: Path, **options) -> ub.Run:
    wanted = {
        "steps": 8,
        "batch_size": 8,
        "latents": 3,
        "network": "mlp",
        "network_options": {"hidden": 8},
        **options,
    }
    return ub.train(
        "sprites",
        options.pop("objective", "vae"),
        data_options=SMALL,
        out=folder,
        device="cpu",
        quiet=True,
        **wanted,
    )


def test_weights_of_an_earlier_step_are_never_scored_as_final(tmp_path: Path):
    run = small_run(tmp_path / "run")
    final = run.score("mig", quiet=True)["mig"].tolist()
    chunk = run.folder.chunks()[0]
    run.folder.checkpoints(chunk).files()[0][1].unlink()  # leaves the halfway checkpoint
    (run.path / "scores.parquet").unlink()
    again = ub.open_run(run.path)
    for ask in (
        lambda: again.score("mig", quiet=True),
        again.report,
        lambda: again.model(0),
        lambda: CodeStore(again.folder).encode(torch.device("cpu")),
    ):
        with pytest.raises(
            InputError,
            match=(
                r"^run must be trained to the end; got .*, unfinished\. Go on with: unbraid resume "
            ),
        ):
            ask()
    assert again.resume(quiet=True).score("mig", quiet=True)["mig"].tolist() == final


def test_an_unreadable_file_is_not_taken_for_a_damaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run = small_run(tmp_path / "run")
    checkpoints = run.folder.checkpoints(run.folder.chunks()[0])
    before = checkpoints.files()

    def busy(*args, **options):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("safetensors.safe_open", busy)
    with pytest.raises(UnbraidError, match=r"cannot be read: Too many open files\.$"):
        checkpoints.load(torch.device("cpu"), print)
    assert checkpoints.files() == before


def test_an_objective_that_is_not_registered_is_refused_by_its_name():
    @dataclass(frozen=True)
    class Mine(BetaVAE):
        pass

    told = (
        r"^objective Mine is not registered, so a run could not find it again; "
        r"call unbraid\.OBJECTIVES\.register\('my_objective', Mine\), or add it to the entry points"
        r" 'unbraid\.objectives'"
    )
    with pytest.raises(InputError, match=told):
        make_plan("sprites", Mine(), data_options=SMALL)


def test_members_that_are_the_same_are_refused():
    with pytest.raises(
        InputError,
        match=(
            r"^members must differ from each other; got 'beta_vae beta=4 seed=0' twice\. List each"
            r" value once\.$"
        ),
    ):
        make_plan("sprites", BetaVAE(beta=[4, 4]), data_options=SMALL)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 10**15}, "batch_size must be at most 100000; got 1000000000000000."),
        ({"seeds": 10**14}, "seeds must be at most 1000000; got 100000000000000."),
        (
            {"learning_rate": 10**400},
            f"learning_rate must be a finite number above 0; got {10**400}.",
        ),
    ],
)
def test_absurd_sizes_are_refused_before_memory_is_asked_for(options, message):
    with pytest.raises(InputError) as caught:
        make_plan("sprites", "vae", data_options=SMALL, **options)
    assert str(caught.value) == message


def test_numpy_numbers_are_numbers():
    plan, _ = make_plan(
        "sprites",
        "vae",
        data_options=SMALL,
        steps=np.int64(5),
        learning_rate=np.float32(0.5),
        seeds=np.arange(2),
    )
    assert (plan.steps, [m.seed for m in plan.members], plan.members[0].learning_rate) == (
        5,
        [0, 1],
        0.5,
    )
    assert type(plan.steps) is int


def run_cli(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["unbraid", *words])
    with pytest.raises(SystemExit) as caught:
        main()
    return int(caught.value.code or 0)


TINY = (
    "--steps",
    "2",
    "--network",
    "mlp:hidden=4",
    "--batch_size",
    "4",
    "--latents=2",
    "--device",
    "cpu",
)


def test_the_objective_may_be_left_out_before_its_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    code = run_cli(
        monkeypatch,
        "train",
        "sprites:x=3,y=2,scale=1",
        "--beta",
        "1,4",
        *TINY,
        "--out",
        str(tmp_path / "run"),
    )
    assert code == 0
    assert [member.hyper["beta"] for member in RunFolder.open(tmp_path / "run").plan.members] == [
        1.0,
        4.0,
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--beta", "1", "--beta", "4"),
            "option --beta may be given once; got twice. For a sweep write --beta 1,4.",
        ),
        (
            ("--out", "file.txt/sub"),
            "out must be a folder; got 'file.txt/sub'. Choose another name.",
        ),
        (("--out", "n" * 300), "out must be a folder that can be made; got"),
    ],
)
def test_bad_words_are_exit_code_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, words, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file.txt").write_text("mine")
    assert run_cli(monkeypatch, "train", "sprites:x=3,y=2,scale=1", "beta_vae", *TINY, *words) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file.txt"]


def test_two_scorings_at_once_do_not_lose_each_other(tmp_path: Path):
    run = small_run(tmp_path / "run")
    with (
        store.only_one(run.path, ".scores.lock"),
        pytest.raises(InputError, match="is being written by another process"),
    ):
        run.score("mig", quiet=True)
    assert len(run.score("mig", quiet=True)) == 1


def test_a_flipped_bit_in_the_directory_of_an_npz_is_one_message(tmp_path: Path):
    path = tmp_path / "bad.npz"
    np.savez(path, images=np.zeros((4, 28, 28), np.uint8))
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02")] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(InputError, match=r"bad\.npz must be a complete"):
        ub.load(path)
