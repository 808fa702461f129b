# SPDX-License-Identifier: Apache-2.0
"""Scores of anybody's codes: those of the metric, rows drawn by the seed, one message for what does not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from unbraid import metrics
from unbraid.errors import InputError
from unbraid.scoring.own_codes import read_array, score_codes

GENERATOR = np.random.default_rng(0)
FACTORS = GENERATOR.integers([3, 4], size=(300, 2))
CODES = FACTORS * [1.0, -2.0] + 0.2 * GENERATOR.normal(size=(300, 2))


def refused(make) -> str:
    with pytest.raises(InputError) as caught:
        make()
    return str(caught.value)


def scores(table: pd.DataFrame) -> dict[str, float]:
    rows = table[table["quantity"] == "score"]
    return dict(zip(rows["metric"], rows["value"], strict=True))


def test_scores_are_those_of_the_metric() -> None:
    found = scores(score_codes(CODES, FACTORS, ["modularity", "mig", "total_correlation"]))
    assert list(found) == ["modularity", "mig", "total_correlation"]
    # The order of rows is drawn anew, which moves sums by rounding only.
    assert found["mig"] == pytest.approx(metrics.mig(CODES, FACTORS).score, abs=1e-12)
    assert found["total_correlation"] == pytest.approx(metrics.total_correlation(CODES).score, abs=1e-12)


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
    by_metric = table[table["quantity"] == "score"].pivot(index="member", columns="metric", values="value")
    assert by_metric.index.tolist() == [0, 1, 2]
    assert by_metric["mig"][0] == pytest.approx(by_metric["mig"][1], abs=1e-12)
    assert by_metric["active_units"].tolist() == [2.0, 2.0, 2.0]
    assert by_metric["udr"][0] > by_metric["udr"][2]


def test_without_factors_there_are_unsupervised_scores() -> None:
    assert "mig" not in scores(score_codes(CODES, metrics="all"))
    assert "hoyer" in scores(score_codes(CODES, metrics="all"))


def test_one_factor_may_be_a_flat_array() -> None:
    column = FACTORS[:, 1]
    assert scores(score_codes(CODES, column, "mig")) == scores(score_codes(CODES, column[:, None], "mig"))


def test_what_is_missing_is_named() -> None:
    assert refused(lambda: score_codes(CODES, metrics=["mig", "active_units", "elbo", "udr"])).splitlines() == [
        "mig needs factors (--factors), whole numbers (n, factors).",
        "active_units needs log-variances (--logvar), shaped like the codes.",
        "elbo needs log-variances (--logvar) and the reconstruction's nats (--reconstruction).",
        "udr needs codes of at least two models, (members, n, latents), with their log-variances (--logvar).",
    ]


def test_shapes_that_do_not_fit_are_told_before_anything_is_computed() -> None:
    assert refused(lambda: score_codes(CODES[:, 0], FACTORS)) == (
        "codes must have the shape (n, latents) or (members, n, latents); got shape (300,)."
    )
    assert refused(lambda: score_codes(CODES, FACTORS[:10])) == (
        "factors must have the shape (300, factors) to fit the codes; got shape (10, 2). Pass samples first: (n, ...)."
    )
    assert refused(lambda: score_codes(CODES, FACTORS, logvar=CODES[:, :1])) == (
        "logvar must have the shape (300, 2) to fit the codes; got shape (300, 1)."
    )
    assert refused(lambda: score_codes(CODES, FACTORS, samples=2)) == "samples must be a whole number of at least 3; got 2."


def test_what_a_metric_refuses_is_told_and_the_others_stay() -> None:
    said: list[str] = []
    one = np.stack([FACTORS[:, 0], np.zeros(300, dtype=int)], axis=1)
    found = scores(score_codes(CODES, one, ["mig", "modularity"], warn=said.append))
    assert list(found) == ["mig"]
    assert said == [
        "member 0: modularity has no value: modularity compares factors and needs at least two that vary; got 1. "
        "With a single one every model would be perfect."
    ]


@pytest.mark.parametrize("ending", ["npy", "npz", "csv"])
def test_files_are_read(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"y.{ending}"
    if ending == "npy":
        np.save(path, FACTORS)
    elif ending == "npz":
        np.savez(path, anything=FACTORS)
    else:
        pd.DataFrame(FACTORS, columns=["shape", "size"]).to_csv(path, index=False)
        plain = tmp_path / "plain.csv"
        np.savetxt(plain, FACTORS, fmt="%d", delimiter=",")
        assert np.array_equal(read_array(plain), FACTORS)
    read = read_array(path)
    assert np.array_equal(read, FACTORS)
    assert read.dtype.kind == "i"


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    assert refused(lambda: read_array(tmp_path / "z.npy")) == f"file must exist; got '{tmp_path / 'z.npy'}'."
    (tmp_path / "z.txt").write_text("1 2")
    assert refused(lambda: read_array(tmp_path / "z.txt")) == f"file must end in .npy, .npz or .csv; got '{tmp_path / 'z.txt'}'."
    (tmp_path / "torn.npy").write_bytes(b"\x93NUMPY\x01")
    assert refused(lambda: read_array(tmp_path / "torn.npy")).startswith(
        f"{tmp_path / 'torn.npy'} cannot be read as an array of numbers ("
    )
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert "cannot be read as an array of numbers" in refused(lambda: read_array(tmp_path / "objects.npy"))
    np.savez(tmp_path / "two.npz", a=CODES, b=FACTORS)
    assert refused(lambda: read_array(tmp_path / "two.npz")) == (
        f"{tmp_path / 'two.npz'} must hold one array; got a, b. Save each with np.save."
    )


class TestCommand:
    @pytest.fixture
    def files(self, tmp_path: Path) -> tuple[str, str]:
        np.save(tmp_path / "z.npy", CODES)
        np.save(tmp_path / "y.npy", FACTORS)
        return str(tmp_path / "z.npy"), str(tmp_path / "y.npy")

    def test_a_line_for_each_metric(self, unbraid, files) -> None:
        done = unbraid("score", "--codes", files[0], "--factors", files[1], "--metrics", "mig,factor_vae_score")
        assert done.code == 0
        lines = [line.split() for line in done.out.splitlines()]
        assert [line[0] for line in lines] == ["mig", "factor_vae_score"]
        assert float(lines[0][1]) == pytest.approx(metrics.mig(CODES, FACTORS).score, abs=1e-4)
        assert "train_accuracy" in lines[1]

    def test_all_numbers_go_to_a_file(self, unbraid, files, tmp_path: Path) -> None:
        out = tmp_path / "scores.csv"
        done = unbraid("score", "--codes", files[0], "--factors", files[1], "--metrics", "mig", "--out", str(out))
        assert done.out.splitlines()[-1] == f"All numbers: {out}"
        assert pd.read_csv(out).columns.tolist() == ["member", "metric", "quantity", "value", "seconds"]

    @pytest.mark.parametrize(("given", "told"), [([], "neither"), (["run", "--codes", "z.npy"], "a run and --codes")])
    def test_a_run_or_codes(self, unbraid, given, told) -> None:
        done = unbraid("score", *given)
        assert done.code == 2
        assert f"got {told}. Try: unbraid score --codes z.npy --factors y.npy" in done.err

    def test_a_bad_name_for_the_table_is_told_first(self, unbraid, files, tmp_path: Path) -> None:
        done = unbraid("score", "--codes", files[0], "--out", str(tmp_path / "scores.txt"))
        assert done.code == 2
        assert done.err == f"unbraid: out must end in .csv or .parquet; got '{tmp_path / 'scores.txt'}'.\n"
