# SPDX-License-Identifier: Apache-2.0
"""`score`: of a run and of anybody's codes, and which options belong to which."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import unbraid as ub
from unbraid import metrics
from unbraid.commands.run import open_run

from .conftest import SMALL

RNG = np.random.default_rng(0)
FACTORS = RNG.integers(0, 5, (300, 2))
CODES = FACTORS + 0.3 * RNG.standard_normal((300, 2))


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    np.save(tmp_path / "z.npy", CODES)
    np.save(tmp_path / "y.npy", FACTORS)
    return ("--codes", str(tmp_path / "z.npy"), "--factors", str(tmp_path / "y.npy"))


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        ({"metrics": ["migg"]}, "metric", "migg"),
        ({"metrics": []}, "metrics", []),
        ({"metrics": "mig", "representation": "sample"}, "representation", "sample"),
        ({"metrics": "mig:bin=3"}, "option of mig", "bin"),
        ({"metrics": "mig:bins"}, "option of mig", "bins"),
    ],
)
def test_a_bad_request_for_scores(run: Path, contents, refused, options, name, value):
    before = contents(run)
    found = refused(lambda: ub.score(run, quiet=True, **options))
    assert [(one.name, one.value) for one in found] == [(name, value)]
    assert contents(run) == before


def test_images_without_labels_have_unsupervised_scores(unbraid, image_folder: Path, tmp_path):
    run = tmp_path / "run"
    ub.train(image_folder, "beta_vae", out=run, **{**SMALL, "data_options": {}})
    assert unbraid("report", str(run)).code == 0
    answer = unbraid("score", str(run), "--metrics", "mig")
    assert answer.code == 2
    assert answer.err.startswith(f"unbraid: the data of {run} has no factors, and mig compares ")
    answer = unbraid("score", str(run))
    assert answer.code == 0
    assert {"hoyer", "total_correlation", "elbo"} <= set(answer.out.split())
    Image.fromarray(np.zeros((28, 28), np.uint8)).save(image_folder / "3.png")
    answer = unbraid("resume", str(run))
    assert answer.code == 2
    assert f"data must be what {run} began with, to the last pixel and label" in answer.err


def test_own_codes_have_a_line_for_each_metric(unbraid, files):
    answer = unbraid("score", *files, "--metrics", "mig,factor_vae_score")
    assert answer.code == 0
    lines = [line.split() for line in answer.out.splitlines()]
    assert [line[0] for line in lines] == ["mig", "factor_vae_score"]
    assert float(lines[0][1]) == pytest.approx(metrics.mig(CODES, FACTORS).score, abs=1e-4)
    assert "train_accuracy" in lines[1]


def test_all_numbers_go_to_a_file(unbraid, files, tmp_path: Path):
    out = tmp_path / "scores.csv"
    words = ("score", *files, "--metrics", "mig", "--out", str(out))
    assert unbraid(*words).out.splitlines()[-1] == f"All scores, with their parts: {out}"
    columns = ["member", "metric", "quantity", "value", "seconds"]
    assert pd.read_csv(out).columns.tolist() == columns
    again = unbraid(*words)
    assert again.code == 2
    assert again.err.startswith(f"unbraid: --out must not exist yet; got '{out}'.")


def test_what_was_read_is_said_and_options_stay_with_their_metric(unbraid, files):
    names = ["sap:continuous=true", "mig:bins=10"]
    answer = unbraid("score", *files, "--metrics", ",".join(names))
    assert answer.err.splitlines()[0] == "read codes (300, 2), factors (300, 2)"
    assert [line.split()[0] for line in answer.out.splitlines()] == names


def test_a_model_without_a_value_keeps_its_row(unbraid, tmp_path: Path, files):
    np.save(tmp_path / "many.npy", np.stack([CODES, np.full_like(CODES, np.nan)]))
    words = ("--codes", str(tmp_path / "many.npy"), *files[2:], "--metrics", "mig")
    assert unbraid("score", *words).out.splitlines()[-2].split() == ["1", "NaN"]


@pytest.mark.parametrize(
    ("options", "rule", "value"),
    [
        ({}, "needs a run folder, or codes of your own", "neither"),
        (
            {"folder": "runs/a", "codes": "z.npy", "seed": 3},
            "takes codes, seed for your own codes only",
            "a run",
        ),
        (
            {"codes": "z.npy", "representation": "sampled"},
            "takes representation for runs only",
            "codes",
        ),
    ],
)
def test_it_is_a_run_or_codes(refused, options, rule, value):
    (problem,) = refused(lambda: ub.score(**options))
    assert (problem.name, problem.rule, problem.value) == ("score", rule, value)


def test_a_bad_name_for_the_table_is_refused_first(refused, tmp_path: Path):
    (problem,) = refused(lambda: ub.score(codes="none.npy", out=tmp_path / "scores.txt"))
    assert (problem.name, problem.value) == ("out", str(tmp_path / "scores.txt"))


def test_codes_may_be_arrays_and_names_have_commas():
    factors = np.stack(np.unravel_index(np.arange(60) % 9, (3, 3)), axis=1)
    table = ub.score(codes=factors + 0.0, factors=factors, metrics="mig,sap", quiet=True)
    scores = table[table["quantity"] == "score"].set_index("metric")["value"]
    assert scores.index.tolist() == ["mig", "sap"]
    assert scores["mig"] == pytest.approx(1.0, abs=0.02)  # an uneven sample of the grid
    with pytest.raises(ub.InputError) as caught:
        ub.score("a run", codes=factors)
    assert caught.value.problems[0].rule == "takes codes for your own codes only"


def test_a_file_that_cannot_be_written_is_refused_before_scoring(tmp_path, refused, monkeypatch):
    codes = np.random.default_rng(0).normal(size=(50, 2))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    (problem,) = refused(
        lambda: ub.score(codes=codes, metrics="total_correlation", out=tmp_path / "x.csv")
    )
    assert (problem.name, problem.rule) == ("out", "must be a folder that can be written")
    monkeypatch.undo()
    (problem,) = refused(
        lambda: ub.score(
            codes=codes, metrics="total_correlation", out=tmp_path / f"{'x' * 300}.csv"
        )
    )
    assert (problem.name, problem.rule) == ("out", "must be a file that can be written")


def test_few_rows_of_noise_are_never_scored_without_a_word(unbraid, tmp_path: Path):
    generator = np.random.default_rng(1)
    np.save(tmp_path / "z.npy", generator.normal(size=(5, 4)))
    np.save(tmp_path / "y.npy", [[0, 1], [1, 0], [1, 1], [0, 0], [0, 1]])
    words = ("--codes", str(tmp_path / "z.npy"), "--factors", str(tmp_path / "y.npy"))
    answer = unbraid("score", *words, "--metrics", "mig,beta_vae_score")
    assert all("too few samples, needs" in line for line in answer.out.splitlines())
    assert "Too few samples: 5 rows of factors with 2, 2 values. These metrics need" in answer.err
    table = ub.score(codes=np.tile([0.0, 1.0], (5, 1)), metrics="hoyer", quiet=True)
    assert table.attrs["few_samples"] == {"hoyer": 100}


def test_enough_rows_need_no_word(unbraid, files):
    answer = unbraid("score", *files, "--metrics", "sap")
    assert "few samples" not in answer.out + answer.err


def test_a_run_of_few_images_says_so(run: Path):
    table = ub.score(run, metrics="mig", quiet=True)
    assert table.attrs["remarks"][0].startswith("Too few samples: 48 rows of factors with 2, 6, 4")
    assert "Too few samples: 48 rows" in (open_run(run, device="cpu").report()).read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"index": False}, "must be names or numbers, and may be either; got 0,1."),
        ({"header": False}, "must not have an index as its first column; got 0, 1, 2, ... there."),
        ({}, "must not have a column without a name, such as an index"),
    ],
)
def test_what_pandas_writes_around_a_table_is_never_a_sample(
    unbraid, tmp_path: Path, files, options, message: str
):
    for name, array in (("codes", CODES), ("factors", FACTORS)):
        table = tmp_path / f"{name}.csv"
        pd.DataFrame(array).to_csv(table, **options)
        words = dict(zip(files[::2], files[1::2], strict=True)) | {f"--{name}": str(table)}
        answer = unbraid("score", *(w for pair in words.items() for w in pair), "--metrics", "mig")
        assert (answer.code, answer.out) == (2, "")
        assert message in answer.err


@pytest.mark.parametrize("ending", ["csv", "parquet", "NPY"])
def test_tables_of_codes_as_discover_writes_them(unbraid, tmp_path: Path, files, ending: str):
    table = pd.DataFrame(CODES, columns=["size", "latent_1"])
    table.insert(0, "name", [f"im{row}.png" for row in range(300)])
    table.insert(0, "image", range(300))
    path = tmp_path / f"codes.{ending}"
    if ending == "NPY":
        np.save(tmp_path / "codes.npy", CODES)
        (tmp_path / "codes.npy").rename(path)
    else:
        table.to_csv(path, index=False) if ending == "csv" else table.to_parquet(path)
    words = ("score", "--codes", str(path), *files[2:], "--metrics", "mig")
    answer = unbraid(*words)
    assert answer.code == 0
    assert float(answer.out.split()[1]) == pytest.approx(
        metrics.mig(CODES, FACTORS).score, abs=1e-4
    )
    if ending != "NPY":
        columns = "from the columns size, latent_1 (left out: image, name)"
        assert f"read codes (300, 2) {columns}, factors (300, 2)\n" in answer.err


def test_factors_in_words_are_scored_and_what_is_left_out_is_named(
    unbraid, files: tuple[str, ...], tmp_path: Path
):
    words = np.array(["round", "square", "heart"])[FACTORS[:, 0] % 3]
    numbers = np.unique(words, return_inverse=True)[1]
    names = [f"{at}.png" for at in range(len(words))]
    table = pd.DataFrame({"file": names, "shape": words, "y": FACTORS[:, 1]})
    table.to_csv(tmp_path / "factors.csv", index=False)
    answer = unbraid(
        *("score", *files[:2], "--factors", str(tmp_path / "factors.csv")), "--metrics", "mig"
    )
    assert answer.code == 0
    told = "factors (300, 2) from the columns shape, y (numbered: shape; left out: file)"
    assert told in answer.err
    factors = np.column_stack([numbers, FACTORS[:, 1]])
    score = metrics.mig(CODES, factors).score
    assert float(answer.out.split()[1]) == pytest.approx(score, abs=1e-4)
