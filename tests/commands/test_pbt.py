# SPDX-License-Identifier: Apache-2.0
"""`pbt`: lineage, winner and page, by labels and without, in Python and on the command line."""

from __future__ import annotations

import pandas as pd
import pytest

import unbraid as ub
from unbraid.commands.pbt import PbtResult
from unbraid.report.page import is_page

DATA = {"image_size": 16, "x": 6, "y": 4, "scale": 1}
SMALL = {
    "network": "mlp", "network_options": {"hidden": 8}, "latents": 2, "population": 5, "epochs": 2,
    "epoch_images": 64, "batch_size": [16, 32], "hyper": {"beta": "1..8"}, "data_options": DATA,
    "device": "cpu", "quiet": True,
}  # fmt: skip
WORDS = (
    "sprites:image_size=16,x=6,y=4,scale=1", "beta_tcvae", "--network", "mlp:hidden=8",
    "--latents", "2", "--population", "5", "--epochs", "2", "--epoch-images", "64",
    "--batch-size", "16,32", "--device", "cpu",
)  # fmt: skip


@pytest.fixture(scope="module")
def by_labels(tmp_path_factory: pytest.TempPathFactory) -> PbtResult:
    out = tmp_path_factory.mktemp("pbt") / "run"
    return ub.pbt("sprites", "beta_tcvae", score="mig", out=out, **SMALL)


def test_lineage_winner_and_page(by_labels: PbtResult):
    first_and_second = by_labels.lineage.groupby("epoch").size().tolist()
    assert first_and_second == [10, 5], "with labels, twice as many in the first epoch"
    assert by_labels.score == by_labels.lineage["score"].max()
    assert is_page(by_labels.path / "pbt.html", "pbt")
    assert (by_labels.path / "pbt.json").is_file()
    winner = by_labels.winner
    assert winner.score("mig", quiet=True)["mig"].iloc[0] == pytest.approx(
        by_labels.score, abs=1e-12
    )
    assert winner.best("mig", collapsed=True).encode(winner.dataset.images([0, 1])).shape == (2, 2)
    assert repr(by_labels) == f"<PbtResult {by_labels.path}: 5 individuals by mig>"


def test_a_finished_search_is_opened_again(by_labels: PbtResult):
    again = ub.resume(by_labels.path, device="cpu", quiet=True)
    assert isinstance(again, PbtResult)
    pd.testing.assert_frame_equal(again.lineage, by_labels.lineage)


def test_the_report_of_a_winner_does_not_pass_for_plain_training(by_labels: PbtResult):
    page = by_labels.winner.report().read_text("utf-8")
    assert "the winner of a search; its settings changed on the way" in page
    assert "ub.train(" not in page


def test_the_command_by_a_few_labels(unbraid, tmp_path):
    out = str(tmp_path / "run")
    by = ("--score", "mig", "--labels", "20", "--beta", "1..8")
    answer = unbraid("pbt", *WORDS, *by, "--out", out)
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    assert lines[0].startswith("Best mig ")
    assert "beta " in lines[0]
    assert lines[-1] == f"Next:  unbraid score {out}"
    assert pd.read_parquet(tmp_path / "run" / "lineage.parquet").groupby(
        "epoch"
    ).size().tolist() == [10, 5]
    assert "searching: epoch 2 of 2, best mig" in answer.err
    again = unbraid("resume", out, "--device", "cpu")
    assert (again.code, again.out) == (0, answer.out)


def test_the_command_selects_without_labels_by_default(unbraid, tmp_path):
    words = list(WORDS)
    words[1] = "beta_tcvae:beta=1..8"
    answer = unbraid("pbt", *words, "--models", "3", "--out", str(tmp_path / "run"))
    assert answer.code == 0, answer.err
    assert answer.out.startswith("Best udr ")
    run = ub.open_run(tmp_path / "run", device="cpu")
    lineage = pd.read_parquet(tmp_path / "run" / "lineage.parquet")
    assert lineage.groupby("epoch").size().tolist() == [5, 5]
    assert lineage["beta"].between(1, 8).all()
    assert len(run.score("udr", quiet=True)) == 3
    assert run.best("udr", collapsed=True).member.id in (0, 1, 2)


def test_dead_codes_score_best_by_jemmig_and_do_not_win(unbraid, tmp_path):
    out = tmp_path / "run"
    words = (
        "sprites:image_size=16,x=6,y=4,scale=1", "beta_vae", "--beta", "0.1..100",
        "--network", "mlp:hidden=16", "--latents", "4", "--population", "5", "--epochs", "1",
        "--first-factor", "1", "--epoch-images", "1500", "--batch-size", "16",
        "--learning-rate", "5e-3..1e-2", "--device", "cpu", "--score", "jemmig",
    )  # fmt: skip
    answer = unbraid("pbt", *words, "--out", str(out))
    assert answer.code == 0, answer.err
    assert "\njemmig: dead codes can score well" in answer.err
    table = pd.read_parquet(out / "lineage.parquet")
    dead = table[table["collapsed"]]
    assert (dead["active_latents"] == 0).all()
    winner = ub.resume(out, device="cpu", quiet=True)
    assert dead["score"].max() > winner.score == table.loc[~table["collapsed"], "score"].max()
    # By the count of the run, on all images, it is not collapsed either.
    assert winner.winner.best("jemmig").member.id == 0
    page = (out / "pbt.html").read_text("utf-8")
    assert "An open circle is a collapsed individual" in page
    assert f"{len(dead)} of 5 individual epochs" in page
    assert "collapsed; went on" in page


def test_a_collapsed_winner_is_told_with_what_to_try(unbraid, tmp_path):
    out = str(tmp_path / "run")
    answer = unbraid("pbt", *WORDS, "--score", "mig", "--beta", "400..500", "--out", out)
    assert answer.code == 0, answer.err
    assert "best mig" in answer.err
    assert ", all collapsed" in answer.err
    remark = answer.out.splitlines()[1]
    assert remark.startswith("Every individual that had a score was collapsed")
    assert "Weaken the objective" in remark
    assert remark in (tmp_path / "run" / "pbt.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        ({"population": 3}, "population", 3),
        ({"score": "migg"}, "metric", "migg"),
        ({"models": 1}, "models", 1),
        ({"hyper": {"beta": "9..3"}}, "beta", "9..3"),
        ({"hyper": {"betta": 3}}, "option of beta_tcvae", "betta"),
        ({"device": "tpu"}, "device", "tpu"),
    ],
)
def test_a_bad_request_is_refused_by_name(tmp_path, refused, options, name, value):
    out = tmp_path / "run"
    found = refused(lambda: ub.pbt("sprites", out=out, **{**SMALL, **options}))
    assert (name, value) in [(one.name, one.value) for one in found]
    assert not out.exists()


@pytest.mark.parametrize(
    ("objective", "options", "rule"),
    [
        ("beta_vae:beta=2..8", {"hyper": {"beta": 3}}, "is given with beta_vae already"),
        ("beta_vae,vae", {}, "must be a single one in a search"),
        (
            "beta_vae",
            {"prior": "sparse:gamma=0.5,0.8", "network": "mlp"},
            "trains one prior and one supervision, of single values",
        ),
    ],
)
def test_nothing_that_was_asked_for_is_dropped(tmp_path, objective, options, rule):
    with pytest.raises(ub.InputError) as caught:
        ub.pbt("sprites", objective, out=tmp_path / "out", device="cpu", quiet=True, **options)
    assert [one.rule for one in caught.value.problems] == [rule]
    assert not (tmp_path / "out").exists()
