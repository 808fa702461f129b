# SPDX-License-Identifier: Apache-2.0
"""The doors to searches: `evolve`, `recurse`, `resume_search`, and the commands `pbt`, `rpu`,
`reduce`, `discover`, `resume`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import unbraid as ub
from unbraid.commands.pbt import Recursed
from unbraid.commands.train import Run
from unbraid.core.errors import InputError, StoppedError
from unbraid.report.pbt.context import MARK
from unbraid.report.rpu.context import MARK as RECURSION_MARK
from unbraid.search.rpu.recursion import Recursion, Stage, make_recursion

DATA = {"image_size": 16, "x": 6, "y": 4, "scale": 1}
SMALL = {
    "network": "mlp", "network_options": {"hidden": 8}, "latents": 2, "population": 5, "epochs": 2, "epoch_images": 64,
    "batch_size": [16, 32], "hyper": {"beta": "1..8"}, "data_options": DATA, "device": "cpu", "quiet": True,
}  # fmt: skip
WORDS = (
    "sprites:image_size=16,x=6,y=4,scale=1", "beta_tcvae", "--beta", "1..8", "--network", "mlp:hidden=8", "--latents", "2",
    "--population", "5", "--epochs", "2", "--epoch-images", "64", "--batch-size", "16,32", "--device", "cpu",
)  # fmt: skip


def test_evolve_gives_lineage_winner_and_page(tmp_path):
    search = ub.evolve("sprites", "beta_tcvae", score="mig", out=tmp_path / "run", **SMALL)
    assert search.lineage.groupby("epoch").size().tolist() == [
        10,
        5,
    ]  # twice as many in the first epoch
    assert search.score == search.lineage["score"].max()
    assert MARK in (tmp_path / "run" / "search.html").read_bytes()
    assert search.winner.score("mig", quiet=True)["mig"].iloc[0] == pytest.approx(
        search.score, abs=1e-12
    )
    assert search.winner.best("mig").encode(search.winner.dataset.images([0, 1])).shape == (2, 2)
    again = ub.resume_search(tmp_path / "run", device="cpu", quiet=True)
    pd.testing.assert_frame_equal(again.lineage, search.lineage)
    assert repr(search) == f"<Search {tmp_path / 'run'}: 5 individuals by mig>"


def test_recurse_gives_stages_and_final_populations(tmp_path):
    made = ub.recurse("sprites", "beta_tcvae", out=tmp_path / "run", leaf_runs=1, levels=2, models=2, every_final=True,
                      active_nats=0.0, leaf_images=64, **SMALL)  # fmt: skip
    names = [stage.name for stage in made.stages]
    assert names[0] == "root"
    table = made.table()
    assert table["stage"].tolist() == names
    if names[-1] == "final-1":
        assert table.set_index("stage").loc["final-0", "mig"] == pytest.approx(
            made.final(0).winner.score("mig")["mig"].iloc[0]
        )
    (tmp_path / "run" / "recursion.html").unlink()
    again = ub.resume_search(tmp_path / "run", device="cpu", quiet=True)
    assert [stage.name for stage in again.stages] == names
    assert RECURSION_MARK in (tmp_path / "run" / "recursion.html").read_bytes()


def test_a_recursion_ends_with_a_page_and_a_summary(tmp_path):
    made = ub.recurse(
        "sprites",
        "beta_tcvae",
        out=tmp_path / "run",
        leaf_runs=0,
        levels=1,
        models=2,
        active_nats=0.0,
        **SMALL,
    )
    assert RECURSION_MARK in (tmp_path / "run" / "recursion.html").read_bytes()
    root, final = made.stages
    (scores,) = made.final_scores.values()
    mig, dci = f"{scores['mig']:.4f}", f"{scores['dci']:.4f}"
    lines = made.summary().splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["stage", "images", "score", "active", "mig", "dci", "ended"],
        ["root", "24", f"{root.score:.4f}", f"{len(root.active)}", *root.ended.split()],
        ["final-0", "24", f"{final.score:.4f}", mig, dci],
    ]
    assert lines[3:] == [
        "Every stage is a search of its own, with a search.html in its folder.",
        f"Open in a browser: {tmp_path / 'run' / 'recursion.html'}",
        f"Next:  unbraid report {tmp_path / 'run' / 'final-0'}",
    ]


@pytest.mark.parametrize("ended", ["Variance explained: no combination of the best intervals of all latents holds enough images.",
                                   f"the models do not agree on anything (best score 0.053) {'and so on ' * 20}", ""])  # fmt: skip
def test_a_summary_fits_120_columns(tmp_path, ended):
    class Scored(Recursed):
        final_scores = {31: {"mig": 0.25, "dci": float("nan")}}  # noqa: RUF012  (read alone)

    plan, dataset = make_recursion(
        "sprites", data_options=DATA, leaf_runs=31, levels=10, network="mlp"
    )
    stages = [Stage("root", 10**9, 0.9, (0, 1)), Stage("leaf-31/level-10", 10**9, 0.05, (), ended),
              Stage("leaf-30/level-10", 0, float("nan"), (), ended), Stage("final-31", 10**9, 0.75)]  # fmt: skip
    lines = (
        Scored(Recursion(tmp_path, plan, dataset), stages, torch.device("cpu"))
        .summary()
        .splitlines()
    )
    table = lines[: len(stages) + 1]
    assert max(map(len, table)) <= 120
    assert table[1].split() == ["root", "1,000,000,000", "0.9000", "2"]
    assert table[4].split() == ["final-31", "1,000,000,000", "0.7500", "0.2500"]
    assert table[3].split()[0] == "leaf-30/level-10"
    words = ended.partition(":")[0].split()
    assert table[2].split()[4 : 4 + min(5, len(words))] == words[:5]


def test_an_unknown_option_is_refused_by_name(tmp_path):
    with pytest.raises(
        InputError, match="option 'populatoin' is unknown; did you mean 'population'"
    ):
        ub.evolve("sprites", populatoin=5, out=tmp_path / "run")
    with pytest.raises(InputError, match="option 'steps' is unknown"):
        ub.evolve("sprites", steps=5, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_command_supervised(unbraid, tmp_path):
    told = unbraid(
        "pbt",
        "supervised",
        *WORDS,
        "--first-factor",
        "2",
        "--labels",
        "20",
        "--out",
        str(tmp_path / "run"),
    )
    assert told.code == 0
    lines = told.out.splitlines()
    assert lines[0].startswith("Best mig ")
    assert lines[-1] == f"Next:  unbraid score {tmp_path / 'run'}"
    lineage = pd.read_parquet(tmp_path / "run" / "lineage.parquet")
    assert lineage.groupby("epoch").size().tolist() == [10, 5]
    assert "searching: epoch 2 of 2, best mig" in told.err
    again = unbraid("resume", str(tmp_path / "run"), "--device", "cpu")
    assert again.code == 0
    assert again.out == told.out


def test_the_command_unsupervised_and_model_selection(unbraid, tmp_path):
    told = unbraid("pbt", "unsupervised", *WORDS, "--models", "3", "--out", str(tmp_path / "run"))
    assert told.code == 0
    assert told.out.startswith("Best udr ")
    scored = unbraid("score", str(tmp_path / "run"), "--metrics", "udr", "--device", "cpu")
    assert scored.code == 0
    assert len(ub.open_run(tmp_path / "run", device="cpu").score("udr", quiet=True)) == 3
    assert ub.open_run(tmp_path / "run", device="cpu").best("udr").member.id in (0, 1, 2)


def test_ctrl_c_while_final_winners_are_scored_says_how_to_go_on(tmp_path, monkeypatch):
    def interrupted(*given, **named):
        raise StoppedError("stopped; the scores so far are kept. The same command goes on.")

    path = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(Run, "score", interrupted)
        with pytest.raises(StoppedError) as told:
            ub.recurse(
                "sprites",
                "beta_tcvae",
                out=path,
                leaf_runs=0,
                levels=1,
                models=2,
                active_nats=0.0,
                **SMALL,
            )
    assert (
        str(told.value)
        == f"stopped; everything so far is in {path}. Go on with: unbraid resume {path}"
    )
    again = ub.resume_search(path, device="cpu", quiet=True)
    assert (path / "recursion.html").is_file()
    home = (path / "root" / "search.html").read_text()
    assert '<a href="../recursion.html">the recursion</a>' in home
    assert "root of a recursion" in home
    assert "gap with surrogate labels" in (path / "final-0" / "search.html").read_text()
    table = again.table()
    assert table["active"].isna().tolist() == [
        False,
        True,
    ], "a final population has no labels of its own"


def test_the_command_rpu(unbraid, tmp_path):
    told = unbraid(
        "rpu",
        "run",
        *WORDS,
        "--models",
        "2",
        "--leaf-runs",
        "0",
        "--levels",
        "1",
        "--out",
        str(tmp_path / "run"),
    )
    assert told.code == 0
    assert told.out.split()[:4] == ["stage", "images", "score", "active"]
    assert told.out.splitlines()[-2] == f"Open in a browser: {tmp_path / 'run' / 'recursion.html'}"
    assert told.out.splitlines()[-1].startswith(f"Next:  unbraid report {tmp_path / 'run'}/")
    assert RECURSION_MARK in (tmp_path / "run" / "recursion.html").read_bytes()
    again = unbraid("resume", str(tmp_path / "run"), "--device", "cpu")
    assert again.code == 0
    assert again.out == told.out


def test_the_command_reduce(unbraid, tmp_path):
    steps = np.repeat(np.arange(8.0), 50)[np.random.default_rng(0).permutation(400)]
    np.save(tmp_path / "codes.npy", steps + 0.01 * np.random.default_rng(1).standard_normal(400))
    told = unbraid("reduce", str(tmp_path / "codes.npy"), "--out", str(tmp_path / "cut"))
    assert told.code == 0
    kept = np.load(tmp_path / "cut" / "kept.npy")
    assert len(kept) == 50
    assert len(np.unique(steps[kept])) == 1


def test_the_command_discover(unbraid, tmp_path):
    images = ub.load("sprites", image_size=28, x=12, y=6, scale=1).images(np.arange(72))
    np.savez(tmp_path / "mine.npz", images=images)
    words = (
        "--steps",
        "12",
        "--models",
        "2",
        "--latents",
        "2",
        "--device",
        "cpu",
        "--out",
        str(tmp_path / "found"),
    )
    told = unbraid("discover", str(tmp_path / "mine.npz"), *words)
    assert told.code == 0
    lines = told.out.splitlines()
    assert lines[-2] == f"Open in a browser: {tmp_path / 'found' / 'report.html'}"
    assert lines[-1].startswith("Next:  unbraid discover ")
    again = unbraid("resume", str(tmp_path / "found"), "--device", "cpu")
    assert again.out == told.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("pbt", "supervised", "sprites", "--population", "3"),
            (
                "population must be a whole number of at least 5; got 3. Below 5 there is no fifth"
                " to replace."
            ),
        ),
        (
            ("pbt", "supervised", "sprites", "--eval", "migg"),
            "metric 'migg' is unknown; did you mean 'mig'?",
        ),
        (
            ("pbt", "unsupervised", "sprites", "--models", "1"),
            "models must be a whole number of at least 2 for the score udr; got 1.",
        ),
        (
            ("pbt", "supervised", "sprites", "--beta", "9..3"),
            "beta must be two numbers above 0, the smaller first",
        ),
        (
            ("pbt", "unsupervised", "sprites", "--eval", "mig"),
            (
                "eval must be a metric without labels, such as udr; got 'mig'. Select by labels"
                " with: unbraid pbt supervised"
            ),
        ),
        (("rpu", "run", "sprites", "--levels", "1"), "levels must be at least 2 for leaf-runs"),
        (
            ("discover", "nowhere/"),
            "data must be an existing folder or file; got 'nowhere/', which does not exist.",
        ),
        (("reduce", "nowhere.npy"), "labels must be a file that exists; got 'nowhere.npy'."),
    ],
)
def test_bad_words_are_one_message(unbraid, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    told = unbraid(*words)
    assert told.code == 2
    assert message in told.err
    assert not list(tmp_path.iterdir())


def test_the_report_of_a_winner_does_not_pass_for_plain_training(tmp_path):
    search = ub.evolve("sprites", "beta_tcvae", score="mig", out=tmp_path / "run", **SMALL)
    page = search.winner.report().read_text("utf-8")
    assert "the winner of a search; its settings changed on the way" in page
    assert "ub.train(" not in page
