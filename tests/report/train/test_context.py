# SPDX-License-Identifier: Apache-2.0
"""The page is whole, says what is true and loads nothing, for every kind of run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from unbraid.commands.run import Run, open_run
from unbraid.core.store import write_table
from unbraid.population.run_folder import RunFolder
from unbraid.report.train import context
from unbraid.report.train.context import heat_style, write_report
from unbraid.report.train.run_summary import summarise
from unbraid.scoring.collapse import ACTIVE
from unbraid.scoring.score_table import stored_scores

from ..conftest import KINDS, set_active_latents, small_train
from ..pages import Page, assert_sound


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_is_sound_and_loads_nothing(pages: dict[str, Page], kind: str) -> None:
    assert_sound(pages[kind], "report")


def test_a_sweep_in_words_and_figures(pages: dict[str, Page], runs: dict[str, Run]) -> None:
    page, run = pages["sweep"], runs["sweep"]
    scores = run.score("mig", quiet=True)["mig"]
    best = run.folder.plan.members[scores.idxmax()[0]]
    name = f"β-VAE, β = {best.hyper['beta']:g}, seed {best.seed}"
    assert (
        f"9 models trained on sprites for 20 steps. The best reaches MIG {scores.max():.2f}"
        f" ({name})." in page.text
    )
    assert list(page.figures) == sorted(
        ["score-mig", "score-sap", "curve-loss", "curve-reconstruction", "curve-kl"]
    )
    assert sorted(page.figures["score-mig"]["data"][1]["y"]) == pytest.approx(
        sorted(scores), rel=1e-4
    )
    assert page.figures["score-mig"]["layout"]["xaxis"]["ticktext"] == ["1", "4", "16"]
    assert len(page.figures["curve-loss"]["data"]) == 9
    assert "All 9 models" in page.text
    assert len(page.all("tr", class_="best")) == 1
    assert len(page.all("select")) == 3
    assert len(page.all("option")) == 9
    assert "ub.BetaVAE(beta=[16, 1, 4])" in page.text
    assert f"unbraid score {run.path} --metrics mig,sap" in page.text
    assert run.folder.plan.digest() in page.text
    assert run.folder.plan.data_fingerprint in page.text
    assert "Not scored yet: beta_vae_score, factor_vae_score, dci, modularity." in page.text


def test_two_objectives_share_the_page(pages: dict[str, Page]) -> None:
    page = pages["two"]
    assert "sprites · β-VAE, FactorVAE" in page.text
    assert page.figures["score-mig"]["layout"]["xaxis"]["ticktext"] == ["β = 1", "β = 4", "γ = 10"]
    assert len(page.figures["curve-total_correlation"]["data"]) == 2
    assert len(page.figures["curve-loss"]["data"]) == 6
    assert "MIG was computed for this page; it is not among the stored scores." in page.text


def test_a_population_of_one(pages: dict[str, Page]) -> None:
    page = pages["one"]
    assert "1 model trained on sprites for 20 steps. It reaches MIG" in page.text
    assert "The dot is the only model of this run." in page.text
    assert page.all("select") == []
    assert "One seed cannot tell luck from method: train at least three." in page.text


def test_data_without_factors_says_so(pages: dict[str, Page]) -> None:
    page = pages["own"]
    assert (
        "No factors are known for this data, so scores that compare codes with factors are left"
        " out." in page.text
    )
    assert "own images · β-VAE" in page.text
    assert "MIG" not in page.text
    assert "How much each latent says" in page.text
    assert {name for name in page.figures if name.startswith("score-")} == {
        "score-loss",
        "score-reconstruction",
        "score-kl",
    }
    bars = [figure for name, figure in page.figures.items() if name.startswith("bars-")]
    assert len(bars) == 2
    assert all(len(bar["data"][0]["y"]) == 4 for bar in bars)
    assert page.all("table", class_="heat") == []
    assert len(page.all("img", class_="strip")) >= 4


def test_points_are_drawn(pages: dict[str, Page]) -> None:
    assert "400 points" in pages["points"].text
    assert "arm" in pages["points"].text


def test_diverged_members_are_named(pages: dict[str, Page], runs: dict[str, Run]) -> None:
    steps = runs["diverged"].members["steps"].tolist()
    names = "; ".join(
        f"model {m} (β-VAE, β = 4, learning rate = 1e+06, seed {m - 2}) at step {steps[m]}"
        for m in (2, 3)
    )
    assert f"2 of 4 models diverged and were frozen: {names}." in pages["diverged"].text
    assert "2 of 4 models trained on sprites" in pages["diverged"].text
    assert "Some models diverged: try a smaller learning rate." in pages["diverged"].text


def test_nothing_left_to_look_at(pages: dict[str, Page]) -> None:
    page = pages["all_diverged"]
    assert "Every model diverged, so there is none to look at closely." in page.text
    assert "No model trained on sprites" in page.text
    assert page.all("img") == []


def test_a_collapsed_model_is_never_the_best(runs: dict[str, Run], tmp_path: Path) -> None:
    """Neither in words nor by a ring; the page says what happened and what to try."""
    folder = Path(shutil.copytree(runs["sweep"].path, tmp_path / "run"))
    run = open_run(folder, device="cpu")
    set_active_latents(run, 4)
    stored = stored_scores(run.folder)
    winner = summarise(run.folder).best
    stored.loc[(stored["metric"] == ACTIVE) & (stored["member"] == winner), "value"] = 1
    write_table(folder / "scores.parquet", stored)
    found = summarise(run.folder)
    assert found.collapsed == {winner}
    assert found.best not in (winner, None)
    assert max(range(9), key=found.rank) == winner
    page = Page(run.report())
    assert f"1 of 9 models collapsed: model {winner} " in page.text
    assert "with 1 of 4 latents active. That is fewer than half of the 3 factors" in page.text
    assert "Some models collapsed: weaken the objective" in page.text
    assert "a cross is a collapsed model" in page.text
    assert "1 (collapsed)" in page.text
    set_active_latents(run, 0)
    assert (summarise(run.folder).best, summarise(run.folder).best_metric) == (None, None)
    assert "Best first; choose" in page.text
    page = Page(run.report())
    assert "Best first" not in page.text
    assert "By their numbers, since none of them counts as best; choose" in page.text
    table = context.page_context(run.folder)["table"]
    assert [row["cells"][0][1] for row in table["rows"]] == list(range(9))
    assert table["sorted_by"] == ("Model", "ascending")
    assert "Every model collapsed: model 0 " in page.text
    assert "The best" not in page.text
    assert "Every model diverged" not in page.text


def test_a_remark_on_few_samples_is_folded_after_its_first_sentence(runs: dict[str, Run]) -> None:
    """On a phone it filled the first screen."""
    text = runs["sweep"].report().read_text("utf-8")
    (inside,) = re.findall('<details class="note warning" id="few-samples">(.*?)</details>', text)
    first, _, rest = inside.partition("</summary>")
    assert re.fullmatch(
        r"<summary>Too few samples: [0-9]+ rows of factors with [0-9, ]+ values\.", first
    )
    assert "These metrics need at least: " in rest


def test_no_factor_is_in_a_latent_of_a_collapsed_model(tmp_path: Path) -> None:
    """Its rescaled means seem to know factors; the page says so nowhere."""
    run = small_train(tmp_path / "run", hyper={"beta": 20}, steps=60)
    page = Page(run.report())
    assert "Every model collapsed: model 0 " in page.text
    assert "with 0 of 4 latents active" in page.text
    assert "This model is collapsed: 0 of its 4 latents are active" in page.text
    readings = [f"{name} is in no latent: none is active." for name in ("scale", "x", "y")]
    assert all(reading in page.text for reading in readings)
    assert "of its information" not in page.text
    assert "it carries" not in page.path.read_text("utf-8")
    assert page.text.count("not active") >= 2


def test_an_autoencoder_has_no_kl(pages: dict[str, Page]) -> None:
    page = pages["ae"]
    assert (
        "There is no KL divergence from the standard normal to sort by; latents whose codes spread"
        " most come first." in page.text
    )
    assert "curve-kl" not in page.figures
    assert "KL, nats" not in page.text


def test_what_comes_from_the_user_is_text_not_markup(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    folder = tmp_path / "<img src=x onerror=alert(2)>"
    folder.mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (40, 16, 16), dtype=np.uint8)
    np.savez(folder / "<b>images.npz", images=pixels, factors=np.arange(40)[:, None] % 4)
    run = small_train(
        tmp_path / "<i>run",
        data=folder / "<b>images.npz",
        data_options={"factor_names": [evil]},
        steps=5,
        command=f"unbraid train {evil} </code></pre>",
    )
    page = Page(run.report())
    assert len(page.all("script")) == 3
    assert all("onerror" not in attributes for _, attributes in page.tags)
    assert page.all("b") == []
    assert f"unbraid train {evil} </code></pre>" in page.text
    assert f"{evil} is" in page.text
    assert "<b>images.npz · β-VAE" in page.text
    source = run.path.joinpath("report.html").read_text(encoding="utf-8")
    assert evil not in source


def test_a_figure_cannot_end_its_script(
    runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    from unbraid.objectives.ae import AE

    monkeypatch.setattr(AE, "label", "</script><script>alert(1)</script>")
    page = Page(write_report(runs["ae"].folder))
    assert len(page.all("script")) == 3
    assert "</script>" in page.figures["curve-loss"]["data"][0]["name"]


def test_the_page_is_written_again_and_nothing_else_changes(runs: dict[str, Run]) -> None:
    run = runs["colour"].folder
    before = {
        file: file.read_bytes()
        for file in run.path.rglob("*")
        if file.is_file() and file.name != "report.html"
    }
    path = write_report(RunFolder.open(run.path))
    assert path == run.path / "report.html"
    assert {
        file: file.read_bytes()
        for file in run.path.rglob("*")
        if file.is_file() and file.name != "report.html"
    } == before


def test_a_run_that_recorded_nothing(tmp_path: Path) -> None:
    page = Page(small_train(tmp_path / "run", steps=3, log_every=10).report())
    assert "Nothing was recorded during training." in page.text
    assert list(page.figures) == ["score-mig"]


def test_a_long_table_is_folded(runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "_LONG_TABLE", 8)
    page = Page(write_report(runs["sweep"].folder))
    assert all("open" not in attributes for attributes in page.all("details"))
    monkeypatch.undo()
    page = Page(write_report(runs["sweep"].folder))
    assert "open" in page.all("details", class_="members")[0]


def test_heat_is_white_to_blue_with_readable_text() -> None:
    assert heat_style(0.0) == "background:#ffffff;color:#1b2430"
    assert heat_style(1.0) == "background:#0b4f8a;color:#ffffff"
    assert heat_style(float("nan")) == ""
