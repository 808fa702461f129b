# SPDX-License-Identifier: Apache-2.0
"""Standard errors: what they say beside what fresh samples do, where they are kept and shown."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unbraid as ub
from unbraid.commands.run import Run, open_run
from unbraid.core.errors import InputError, Problem
from unbraid.core.store import read_table, write_table
from unbraid.metrics import METRICS
from unbraid.metrics._resampled import STANDARD_ERROR
from unbraid.scoring.metric_inputs import MetricInputs, evaluate
from unbraid.scoring.metric_names import revision
from unbraid.scoring.own_codes import printed, score_codes
from unbraid.scoring.run_scores import score_run
from unbraid.scoring.score_table import SCORES, stored_scores
from unbraid.scoring.standard_errors import standard_error, with_error

from .conftest import SETTINGS, SPRITES

SIZES = (3, 5, 6, 8)
KINDS = ("noisy", "rotated", "mixed", "discrete")
CHEAP = [name for name in METRICS.built_in if with_error([name], "cheap")]
DEAR = ["beta_vae_score", "kim_mnih_score", "explicitness", "infomec", "dci"]
WITHIN = {1_000: (0.65, 1.5), 10_000: (0.7, 1.4)}
"""The mean over kinds of code of the error beside the truth."""


def sample(kind: str, rows: int, seed: int, sizes: tuple[int, ...] = SIZES) -> MetricInputs:
    """Codes of a known distribution: what differs between seeds is the sample alone."""
    generator, fixed = np.random.default_rng([7, seed]), np.random.default_rng(99)
    factors = generator.integers(sizes, size=(rows, len(sizes)))
    spread = np.sqrt((np.square(sizes) - 1) / 12)
    unit = (factors - (np.array(sizes) - 1) / 2) / spread
    noise = generator.normal(size=(rows, 8))
    if kind == "noisy":
        codes = np.column_stack(
            [unit + 0.5 * noise[:, : len(sizes)], noise[:, len(sizes) :][:, :2]]
        )
    elif kind == "rotated":
        turn = np.linalg.qr(fixed.normal(size=(len(sizes), len(sizes))))[0]
        codes = unit @ turn + 0.1 * noise[:, : len(sizes)]
    elif kind == "mixed":
        mixing = fixed.normal(size=(len(sizes), 8)) * (fixed.random((len(sizes), 8)) < 0.4)
        codes = np.tanh(0.7 * unit @ mixing) + fixed.choice([0.05, 0.2, 1.0], 8) * noise
    elif kind == "faint":
        codes = 0.4 * unit + noise[:, : len(sizes)]
    else:
        wrong = generator.random(factors.shape) < 0.2
        codes = np.where(wrong, generator.integers(sizes, size=factors.shape), factors) * 1.0
    logvar = np.log(0.1 + 0.3 * generator.random(codes.shape))
    nats = 100 + 10 * generator.normal(size=rows) + np.square(codes).sum(axis=1)
    return MetricInputs(codes, round(rows * 2 / 3), factors, codes, logvar, nats)


def ratio(name: str, kind: str, rows: int, fresh: int, repeated: int) -> float:
    """The mean standard error beside the deviation over *fresh* samples."""
    scores = [evaluate(name, sample(kind, rows, seed)).score for seed in range(fresh)]
    if METRICS.load(name).needs == "grid" and np.mean(scores) > 0.995:
        return math.nan  # all votes agree, and next to nothing scatters
    said = [
        standard_error(name, sample(kind, rows, 1_000 + seed), seed=seed, member=0)
        for seed in range(repeated)
    ]
    return float(np.mean(said) / np.std(scores, ddof=1))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("mig", "mixed"),
        ("modularity", "rotated"),
        ("hoyer", "noisy"),
        ("jemmig", "discrete"),
        ("total_correlation", "noisy"),
        ("pairwise_information", "rotated"),
    ],
)
def test_an_error_is_what_fresh_samples_scatter(name: str, kind: str):
    assert 0.65 < ratio(name, kind, 1_000, 60, 6) < 1.5


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1_000, 10_000])
@pytest.mark.parametrize("name", CHEAP)
def test_cheap_errors_are_what_fresh_samples_scatter(name: str, rows: int):
    fresh, repeated = (150, 12) if rows == 1_000 else (100, 6)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = [ratio(name, kind, rows, fresh, repeated) for kind in KINDS]
    known = [one for one in found if not math.isnan(one)]
    assert known, found
    low, high = WITHIN[rows]
    assert low < math.exp(np.mean(np.log(known))) < high, found


@pytest.mark.slow
@pytest.mark.parametrize("name", DEAR)
def test_dear_errors_are_what_fresh_samples_scatter(name: str):
    found = [ratio(name, kind, 1_000, 40, 3) for kind in ("noisy", "faint")]
    known = [one for one in found if not math.isnan(one)]
    assert known, found
    assert 0.6 < math.exp(np.mean(np.log(known))) < 1.6, found


@pytest.mark.parametrize("name", ["mig", "irs", "total_correlation", "pairwise_information"])
def test_a_few_rows_of_noise_are_not_said_to_be_sure(name: str):
    drawn = np.random.default_rng(0).normal(size=(5, 3))
    factors = np.random.default_rng(1).integers(2, size=(5, 2))
    for population in (None, 100):
        inputs = MetricInputs(drawn, 3, factors, population=population)
        assert math.isnan(standard_error(name, inputs, seed=0, member=0))


def test_drawn_noise_leaves_chance_on_a_whole_grid(tmp_path: Path):
    run = ub.train("sprites", "vae", data_options=SPRITES, out=tmp_path / "run", **SETTINGS)
    table = run.score("mig,elbo", representation="mean,sampled", quiet=True)
    errors = {kind: rows for kind, rows in table.groupby("representation")}
    assert (errors["mean"]["mig_se"] == 0).all(), "all images, and no noise"
    assert (errors["sampled"]["mig_se"] > 0).all()
    assert (errors["mean"]["elbo_se"] > 0).all(), "reconstructions are of one draw"


def test_a_score_without_a_value_has_no_error_and_makes_no_table(tmp_path: Path):
    data = {"image_size": 16, "x": 30, "y": 1, "scale": 1}
    run = ub.train("sprites", "vae", data_options=data, out=tmp_path / "run", **SETTINGS)
    assert run.score("modularity,mig_sup", quiet=True).empty
    assert run.score("modularity,mig_sup", quiet=True).attrs["remarks"] == []


def test_more_rows_of_a_grid_leave_less_to_chance():
    def error(population: int | None, name: str = "mig") -> float:
        drawn = sample("mixed", 1_000, 0)
        inputs = MetricInputs(drawn.codes, 667, drawn.factors, population=population)
        return standard_error(name, inputs, seed=0, member=0)

    free = error(None)
    assert error(10**9) == free
    # The variance of 1,000 rows of 2,000 is half of that of 1,000 free ones.
    assert error(2_000) == pytest.approx(free / math.sqrt(2), rel=0.3)
    assert error(1_000) == 0.0
    assert error(1_000, "sap") > 0.0, "the split is left to chance"
    assert error(1_000, "factor_vae_score") > 0.0, "so are the batches"


@pytest.mark.parametrize(
    ("name", "deciding"),
    [("sap", 333), ("sap:continuous=true", 667), ("sap:continuous=false", 333)],
)
def test_the_rows_that_decide_a_score_leave_less_of_a_grid_to_chance(name: str, deciding: int):
    drawn = sample("mixed", 1_000, 0)

    def error(population: int | None) -> float:
        inputs = MetricInputs(drawn.codes, 667, drawn.factors, population=population)
        return standard_error(name, inputs, seed=0, member=0)

    assert error(1_000) == pytest.approx(error(None) * math.sqrt(1 - deciding / 1_000))


def ratio_of_a_grid(name: str, grid: MetricInputs, fresh: int, repeated: int) -> float:
    """The mean standard error beside the deviation over *fresh* samples of two thirds of *grid*."""
    whole, factors = len(grid.codes), grid.factors
    assert factors is not None

    def drawn(seed: int) -> MetricInputs:
        rows = np.random.default_rng(seed).permutation(whole)[: whole * 2 // 3]
        train = round(len(rows) * 2 / 3)
        return MetricInputs(grid.codes[rows], train, factors[rows], population=whole)

    scores = [evaluate(name, drawn(seed)).score for seed in range(fresh)]
    said = [standard_error(name, drawn(500 + s), seed=s, member=0) for s in range(repeated)]
    return float(np.mean(said) / np.std(scores, ddof=1))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mig", "sap", "sap:continuous=true", "irs", "modularity"])
def test_errors_of_rows_of_a_grid_are_what_such_samples_scatter(name: str):
    assert 0.65 < ratio_of_a_grid(name, sample("noisy", 3_000, 5), 100, 8) < 1.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("factor_vae_score", "faint"),
        ("dci_es:trees=5", "rotated"),
        ("unified_scores", "rotated"),
        ("downstream:predictor=trees,train_sizes=1000000", "faint"),
    ],
)
def test_dear_errors_of_rows_of_a_grid_are_what_such_samples_scatter(name: str, kind: str):
    assert 0.6 < ratio_of_a_grid(name, sample(kind, 1_200, 5, sizes=(3, 4, 5)), 30, 3) < 1.6


def test_an_error_follows_from_seed_metric_and_member():
    inputs = sample("noisy", 300, 0)
    first = standard_error("mig", inputs, seed=0, member=0)
    assert standard_error("mig", inputs, seed=0, member=0) == first
    others = [
        standard_error("mig", inputs, seed=1, member=0),
        standard_error("mig", inputs, seed=0, member=1),
        standard_error("mig:bins=20", inputs, seed=0, member=0),
    ]
    assert len({first, *others}) == 4


def test_work_that_a_score_does_not_need_is_spared_with_any_options():
    inputs = sample("noisy", 300, 0)
    nats: Any = inputs.reconstruction + kl_of_rows(inputs)
    for name in ("elbo", "elbo:samples=50"):
        error = standard_error(name, inputs, seed=0, member=0)
        assert error == pytest.approx(nats.std() / math.sqrt(300), rel=0.5)


def kl_of_rows(inputs: MetricInputs) -> Any:
    mean, logvar = inputs.mean, inputs.logvar
    return (0.5 * (mean**2 + np.exp(logvar) - logvar - 1)).sum(axis=1)  # pyright: ignore


def test_which_metrics_have_one():
    everything = list(METRICS.built_in)
    assert set(everything) - set(with_error(everything, "all")) == {"udr", "active_units"}
    assert {"mig", "sap", "modularity", "factor_vae_score"} <= set(CHEAP)
    assert not {"dci", "dci_es", "beta_vae_score", "unified_scores"} & set(CHEAP)
    assert with_error(everything, "none") == []


def test_an_unknown_word_is_refused(refused):
    inputs = sample("noisy", 60, 0)
    ((name, _, shown),) = refused(score_codes, inputs.codes, inputs.factors, "mig", errors="chep")
    assert (name, shown) == ("errors", "chep")


def test_a_single_row_more_or_less_has_no_error_and_no_complaint():
    said: list[str] = []
    codes = np.arange(8.0).reshape(4, 2)
    table = score_codes(codes, np.array([0, 0, 0, 1]), "mig", warn=said.append)
    assert math.isnan(table.set_index("quantity")["value"][STANDARD_ERROR])
    assert not any("standard error" in line for line in said)
    assert "±" not in printed(table, 100)


def test_own_codes_have_theirs_in_rows_and_in_print():
    inputs = sample("noisy", 300, 0)
    arrays = (inputs.codes, inputs.factors)
    table = score_codes(*arrays, "mig,dci_es:trees=3")
    assert set(table.loc[table["quantity"] == STANDARD_ERROR, "metric"]) == {"mig"}
    score, error = table.loc[table["metric"] == "mig", "value"]
    assert f"{score:.4g} ±{error:.2g}" in printed(table, 100)
    everything = score_codes(*arrays, "mig,dci_es:trees=3", errors="all")
    assert set(everything.loc[everything["quantity"] == STANDARD_ERROR, "metric"]) == {
        "mig",
        "dci_es:trees=3",
    }
    several = score_codes(np.stack([inputs.codes] * 2), inputs.factors, "mig")
    assert printed(several, 100).count("±") == 2


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("errors") / "run"
    return ub.train("sprites", "beta_vae", data_options=SPRITES, seeds=2, out=out, **SETTINGS)


@pytest.fixture
def run(trained: Run, tmp_path: Path) -> Run:
    shutil.copytree(trained.path, tmp_path / "run")
    return open_run(tmp_path / "run", device="cpu")


def test_a_run_keeps_them_and_shows_them_after_their_metric(run: Run):
    table: Any = run.score(["sap", "mig", "udr"], quiet=True)
    assert list(table.columns[-5:]) == ["sap", "sap_se", "mig", "mig_se", "udr"]
    assert (table["sap_se"] > 0).all()
    stored = stored_scores(run.folder)
    rows = stored[stored["quantity"] == STANDARD_ERROR].set_index(["metric", "member"])
    assert rows["value"]["sap", 1] == table["sap_se"].iloc[1]
    assert set(rows["revision"]) == {revision("sap"), revision("mig")}
    plain = run.score(["sap", "mig"], errors="none", quiet=True)
    assert list(plain.columns[-2:]) == ["sap", "mig"]
    page = run.report().read_text("utf-8")
    assert f"{table['sap'].iloc[0]:.3f} ±{table['sap_se'].iloc[0]:.2g}" in page


def test_a_run_without_them_gets_them_and_keeps_its_scores(run: Run):
    score_run(run.folder, ["mig", "dci_es:trees=3"])
    before = stored_scores(run.folder)
    assert STANDARD_ERROR not in set(before["quantity"])
    run.score(["mig", "dci_es:trees=3"], quiet=True)
    after = stored_scores(run.folder)
    assert after.iloc[: len(before)].equals(before)
    added = after.iloc[len(before) :]
    assert set(added["metric"]) == {"mig"}
    run.score("dci_es:trees=3", errors="all", quiet=True)
    added = stored_scores(run.folder).iloc[len(after) :]
    assert set(added["quantity"]) == {STANDARD_ERROR}


def test_errors_of_an_earlier_revision_are_made_anew(run: Run):
    run.score("mig", quiet=True)
    path, about = run.path / SCORES, run.folder.about_table(SCORES)
    write_table(path, read_table(path, about).assign(value=7.0, revision=1), about)
    assert (run.score("mig", quiet=True)["mig_se"] < 7).all()


def test_a_run_that_cannot_be_written_does_without(run: Run, monkeypatch: pytest.MonkeyPatch):
    score_run(run.folder, ["mig"])
    monkeypatch.setattr("unbraid.scoring.run_scores.os.access", lambda path, mode: False)
    table = run.score("mig", quiet=True)
    assert "mig" in table
    assert "mig_se" not in table


def test_a_run_that_cannot_be_written_shows_what_it_has_and_says_what_that_is(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def refused() -> Problem:
        with monkeypatch.context() as patched:
            patched.setattr("unbraid.scoring.run_scores.os.access", lambda path, mode: False)
            with pytest.raises(InputError) as caught:
                run.score(["mig", "sap"])
        assert "left out" not in capsys.readouterr().err
        (problem,) = caught.value.problems
        assert problem.name == "metrics"
        assert f"{run.path} cannot" in problem.rule
        return problem

    told = refused()
    assert (told.value, told.remedy) == ("mig, sap", "Score a copy of the run where you may write.")
    score_run(run.folder, ["mig"])
    told = refused()
    assert told.value == "sap"
    assert told.remedy.startswith("Show what is stored with {metrics=mig}, or score a copy of the")
