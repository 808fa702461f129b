# SPDX-License-Identifier: Apache-2.0
"""Scores of anybody's codes: those of the metric, rows drawn by the seed, what does not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from unbraid import metrics
from unbraid.core.errors import InputError
from unbraid.scoring.metric_names import USUAL
from unbraid.scoring.own_codes import _lacking, printed, score_codes

GENERATOR = np.random.default_rng(0)
FACTORS = GENERATOR.integers([3, 4], size=(300, 2))
CODES = FACTORS * [1.0, -2.0] + 0.2 * GENERATOR.normal(size=(300, 2))


def scores(table: pd.DataFrame) -> dict[str, float]:
    rows = table[table["quantity"] == "score"]
    return dict(zip(rows["metric"], rows["value"], strict=True))


def test_scores_are_those_of_the_metric() -> None:
    found = scores(score_codes(CODES, FACTORS, ["modularity", "mig", "total_correlation"]))
    assert list(found) == ["modularity", "mig", "total_correlation"]
    # The order of rows is drawn anew, which moves sums by rounding only.
    assert found["mig"] == pytest.approx(metrics.mig(CODES, FACTORS).score, abs=1e-12)
    assert found["total_correlation"] == pytest.approx(
        metrics.total_correlation(CODES).score, abs=1e-12
    )


def test_a_sorted_sample_is_shuffled_before_it_is_split() -> None:
    order = np.lexsort(FACTORS.T)
    found = score_codes(CODES[order], FACTORS[order], ["sap"])
    parts = np.random.default_rng(0).permutation(300)
    train, test = order[parts[:200]], order[parts[200:]]
    expected = metrics.sap(CODES[train], FACTORS[train], CODES[test], FACTORS[test])
    assert scores(found)["sap"] == expected.score


def test_at_most_so_many_rows_are_used() -> None:
    rows = np.random.default_rng(3).permutation(300)[:50]
    found = scores(score_codes(CODES, FACTORS, "mig", samples=50, seed=3))
    assert found["mig"] == pytest.approx(metrics.mig(CODES[rows], FACTORS[rows]).score, abs=1e-12)


def test_members_are_scored_each_and_compared_by_udr() -> None:
    many = np.stack([CODES, CODES[:, ::-1], GENERATOR.normal(size=CODES.shape)])
    logvar = np.full(many.shape, -4.0)
    table = score_codes(many, FACTORS, ["mig", "udr", "active_units"], logvar=logvar)
    by_metric = table[table["quantity"] == "score"].pivot(
        index="member", columns="metric", values="value"
    )
    assert by_metric.index.tolist() == [0, 1, 2]
    assert by_metric["mig"][0] == pytest.approx(by_metric["mig"][1], abs=1e-12)
    assert by_metric["active_units"].tolist() == [2.0, 2.0, 2.0]
    assert by_metric["udr"][0] > by_metric["udr"][2]


def test_without_factors_there_are_unsupervised_scores() -> None:
    assert "mig" not in scores(score_codes(CODES, metrics="all"))
    assert "hoyer" in scores(score_codes(CODES, metrics="all"))


def test_one_factor_may_be_a_flat_array() -> None:
    column = FACTORS[:, 1]
    assert scores(score_codes(CODES, column, "mig")) == scores(
        score_codes(CODES, column[:, None], "mig")
    )


def test_what_is_missing_is_named() -> None:
    with pytest.raises(InputError) as caught:
        score_codes(CODES, metrics=["mig", "active_units", "elbo", "udr"])
    assert [(one.name, one.remedy) for one in caught.value.problems] == [
        ("mig", "Give {factors}."),
        ("active_units", "Give {logvar}."),
        ("elbo", "Give {logvar} and {reconstruction}."),
        ("udr", "Give {logvar}."),
    ]


def test_shapes_that_do_not_fit_are_refused(refused) -> None:
    for name, rule, shown, given in (
        ("codes", "(n, latents) or (members, n, latents)", "(300,)", {"codes": CODES[:, 0]}),
        ("factors", "(300, factors) to fit the codes", "(10, 2)", {"factors": FACTORS[:10]}),
        ("logvar", "(300, 2) to fit the codes", "(300, 1)", {"logvar": CODES[:, :1]}),
    ):
        given = {"codes": CODES, "factors": FACTORS, **given}
        problem = (name, f"must have the shape {rule}", f"shape {shown}")
        assert refused(score_codes, **given) == [problem]
    assert refused(score_codes, CODES, FACTORS, samples=2) == [
        ("samples", "must be a whole number of at least 3", "2")
    ]


def test_what_a_metric_refuses_is_told_and_the_others_stay() -> None:
    said: list[str] = []
    one = np.stack([FACTORS[:, 0], np.zeros(300, dtype=int)], axis=1)
    found = scores(score_codes(CODES, one, ["mig", "modularity"], warn=said.append))
    assert list(found) == ["mig"]
    constant, reason, _few = said
    assert "column 1 (counted from 0)" in constant
    assert reason.startswith("modularity has no value: modularity compares factors")
    with pytest.raises(InputError, match="nothing that was asked for has a value"):
        score_codes(CODES, one, ["modularity"])


def test_a_metric_that_fails_unexpectedly_costs_only_its_own_score(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*arrays, **options):
        raise ZeroDivisionError("of all things")

    broken.__dict__.update(metrics.modularity.__dict__)
    load = metrics.METRICS.load
    monkeypatch.setattr(
        metrics.METRICS, "load", lambda name: broken if name == "modularity" else load(name)
    )
    said: list[str] = []
    assert list(scores(score_codes(CODES, FACTORS, ["modularity", "mig"], warn=said.append))) == [
        "mig"
    ]
    reason, _few = said
    assert reason.startswith("modularity has no value: it failed unexpectedly")
    assert "(ZeroDivisionError: of all things)" in reason


def test_values_are_checked_once_in_the_order_of_the_file(refused) -> None:
    broken = CODES.copy()
    broken[7, 1] = np.nan
    (problem,) = refused(score_codes, broken, FACTORS, ["mig", "sap"])
    assert (problem[0], problem[2]) == ("codes", "nan at row 7, latent 1")
    said: list[str] = []
    table = score_codes(np.stack([broken, CODES]), FACTORS, "mig", warn=said.append)
    assert table["member"].unique().tolist() == [1]
    assert said[0].startswith("member 0 is left out: codes must be finite")
    assert "got nan at row 7, latent 1." in said[0]


def test_whole_numbers_may_be_stored_as_floats_and_fractions_may_not(refused) -> None:
    assert scores(score_codes(CODES, FACTORS * 1.0, "mig")) == scores(
        score_codes(CODES, FACTORS, "mig")
    )
    ((name, rule, shown),) = refused(score_codes, CODES, FACTORS * 0.5, "mig")
    assert (name, rule) == ("factors", "must be whole numbers")
    assert shown.startswith("0.5 at row ")
    words = np.array(["a", "b"])[FACTORS % 2]
    assert refused(score_codes, CODES, words, "mig") == [
        ("factors", "must be whole numbers", "dtype <U1")
    ]


def test_what_a_group_leaves_out_is_told() -> None:
    said: list[str] = []
    score_codes(CODES, metrics="usual", samples=50, errors="none", warn=said.append)
    assert said[0].startswith("50 of 300 rows are used")
    assert said[1] == f"left out: {', '.join(USUAL)}, which need {_lacking('sample')}."
    assert [line.split()[0] for line in said[2:4]] == ["Too", "Scale"]
    assert all("dead codes can score well" in line for line in said[4:])
    said.clear()
    score_codes(CODES, metrics="unsupervised", errors="none", warn=said.append)
    assert [line for line in said if line.startswith("left out")] == [
        f"left out: active_units, posterior_overlap, which need {_lacking('posterior')}.",
        f"left out: class_sparsity, which needs {_lacking('sample')}.",
        f"left out: elbo, which needs {_lacking('elbo')}.",
        f"left out: udr, which needs {_lacking('population')}.",
    ]


def test_options_come_with_the_name(refused) -> None:
    found = scores(score_codes(CODES, FACTORS, ["mig:bins=40", "mig", "sap:continuous=true"]))
    assert list(found) == ["mig:bins=40", "mig", "sap:continuous=true"]
    assert found["mig:bins=40"] == pytest.approx(
        metrics.mig(CODES, FACTORS, bins=40).score, abs=1e-12
    )
    assert found["mig:bins=40"] != found["mig"]
    assert refused(score_codes, CODES, FACTORS, ["mig:bin=40", "mgi:bins=4", "sap:seed"]) == [
        ("option of mig", "is unknown", "bin"),
        ("metric", "is unknown", "mgi"),
        ("option of sap", "must be written key=value", "seed"),
    ]


class TestCommand:
    @pytest.fixture
    def files(self, tmp_path: Path) -> tuple[str, str]:
        np.save(tmp_path / "z.npy", CODES)
        np.save(tmp_path / "y.npy", FACTORS)
        return str(tmp_path / "z.npy"), str(tmp_path / "y.npy")

    def test_a_line_for_each_metric(self, unbraid, files) -> None:
        done = unbraid(
            "score", "--codes", files[0], "--factors", files[1], "--metrics", "mig,factor_vae_score"
        )
        assert done.code == 0
        lines = [line.split() for line in done.out.splitlines()]
        assert [line[0] for line in lines] == ["mig", "factor_vae_score"]
        assert float(lines[0][1]) == pytest.approx(metrics.mig(CODES, FACTORS).score, abs=1e-4)
        assert "train_accuracy" in lines[1]

    def test_all_numbers_go_to_a_file(self, unbraid, files, tmp_path: Path) -> None:
        out = tmp_path / "scores.csv"
        done = unbraid(
            "score",
            "--codes",
            files[0],
            "--factors",
            files[1],
            "--metrics",
            "mig",
            "--out",
            str(out),
        )
        assert done.out.splitlines()[-1] == f"All scores, with their parts: {out}"
        assert pd.read_csv(out).columns.tolist() == [
            "member",
            "metric",
            "quantity",
            "value",
            "seconds",
        ]
        again = unbraid(
            "score",
            "--codes",
            files[0],
            "--factors",
            files[1],
            "--metrics",
            "mig",
            "--out",
            str(out),
        )
        assert f"out must not exist yet; got '{out}'." in again.err

    def test_what_was_read_is_said_and_options_stay_with_their_metric(self, unbraid, files) -> None:
        done = unbraid(
            "score",
            "--codes",
            files[0],
            "--factors",
            files[1],
            "--metrics",
            "sap:continuous=true,mig:bins=10",
        )
        assert done.err.splitlines()[0] == "read codes (300, 2), factors (300, 2)"
        assert [line.split()[0] for line in done.out.splitlines()] == [
            "sap:continuous=true",
            "mig:bins=10",
        ]

    def test_a_model_without_a_value_keeps_its_row(self, unbraid, tmp_path: Path, files) -> None:
        np.save(tmp_path / "many.npy", np.stack([CODES, np.full_like(CODES, np.nan)]))
        done = unbraid(
            "score",
            "--codes",
            str(tmp_path / "many.npy"),
            "--factors",
            files[1],
            "--metrics",
            "mig",
        )
        assert done.out.splitlines()[-2].split() == ["1", "NaN"]

    def test_a_run_or_codes(self, unbraid) -> None:
        for words, said in (
            ((), "score needs a run folder, or codes of your own"),
            (("runs/a", "--codes", "z.npy", "--seed", "3"), "for your own codes only"),
            (
                ("--codes", "z.npy", "--representation", "sampled"),
                "for runs only",
            ),
        ):
            done = unbraid("score", *words)
            assert done.code == 2
            assert said in done.err

    def test_a_bad_name_for_the_table_is_told_first(self, unbraid, files, tmp_path: Path) -> None:
        done = unbraid("score", "--codes", files[0], "--out", str(tmp_path / "scores.txt"))
        assert done.code == 2
        assert "out must end in .csv or .parquet" in done.err
        assert f"'{tmp_path / 'scores.txt'}'" in done.err


@pytest.mark.parametrize("rows", [2, 3, 5, 10, 30])
def test_a_few_rows_of_noise_never_score_without_a_word(rows: int) -> None:
    generator = np.random.default_rng(rows)
    codes, factors = generator.normal(size=(rows, 3)), generator.integers(2, size=(rows, 2))
    factors[:2] = [[0, 0], [1, 1]]
    said: list[str] = []
    quick = "beta_vae_score:train_points=50,test_points=50"
    names = f"mig,sap,modularity,jemmig,irs,explicitness,hoyer,mig:bins=2,{quick}"
    table = score_codes(codes, factors, names, samples=max(3, rows), warn=said.append)
    scored = set(table.loc[table["quantity"] == "score", "metric"])
    assert scored
    assert set(table.attrs["few_samples"]) == scored
    assert any(line.startswith("Too few samples") for line in said)
    lines = [line for line in printed(table, 200).splitlines() if not line.startswith(" ")]
    assert all("too few samples" in line for line in lines)


def test_latents_of_unlike_units_are_not_taken_for_dead() -> None:
    def collapsed(codes: np.ndarray) -> list[str]:
        told: list[str] = []
        score_codes(codes, FACTORS, ["mig"], warn=told.append)
        return [line for line in told if line.startswith("Collapsed")]

    assert collapsed(CODES * [5000.0, 1.0]) == []
    three = np.column_stack([CODES, CODES]) * [1.0, 1e-9, 0.0, 0.0]
    assert collapsed(three) == []  # half of two factors is one
    assert len(collapsed(0 * CODES)) == 1


@pytest.mark.parametrize("kind", ["<f2", "<f4", "<f8"])
def test_factors_may_be_whole_floats_of_any_precision(kind: str) -> None:
    codes = np.random.default_rng(0).normal(size=(60, 2))
    labels = np.arange(60) % 3
    found = score_codes(codes, labels.astype(kind), "mig")
    assert found["value"].tolist() == score_codes(codes, labels, "mig")["value"].tolist()


def test_a_score_with_its_standard_error_counts_once() -> None:
    totals, done = [], []
    score_codes(CODES, FACTORS, metrics="mig,modularity", total=totals.append, progress=done.append)
    assert totals == [2]
    assert sum(done) == 2
