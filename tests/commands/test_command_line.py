# SPDX-License-Identifier: Apache-2.0
"""The command line as a person uses it: the whole way once, and one clear message, code 2 and
nothing written for bad input.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import unbraid as ub
from unbraid.metrics import METRICS
from unbraid.population import run_folder
from unbraid.scoring.metric_names import known_words

from .conftest import Unbraid

DATA = "sprites:x=6,y=4,scale=2,image_size=28"
SMALL = (
    "--network",
    "mlp:hidden=16",
    "--latents",
    "3",
    "--batch-size",
    "8",
    "--steps",
    "20",
    "--device",
    "cpu",
)
OBJECTIVES = ", ".join(sorted(ub.OBJECTIVES))
GENERAL = (
    "batch_size, beta, checkpoint_seconds, code_samples, convention, device, latents,"
    " learning_rate, likelihood, network, out, precision, prior, seeds, standardise, steps, where"
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "run"
    words = ["train", DATA, "beta_vae", "--beta", "1,4", "--out", str(folder), *SMALL]
    subprocess.run(
        [sys.executable, "-c", "from unbraid.commands.command_line import main; main()", *words],
        check=True,
        capture_output=True,
    )
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def image(path: Path, side: int = 28, seed: int = 0) -> None:
    Image.fromarray(
        np.random.default_rng(seed).integers(0, 256, (side, side), dtype=np.uint8)
    ).save(path)


def image_folder(folder: Path, count: int = 12) -> Path:
    folder.mkdir()
    for number in range(count):
        image(folder / f"{number}.png", seed=number)
    return folder


def test_the_whole_way(unbraid: Unbraid, tmp_path: Path):
    folder = tmp_path / "run"
    answer = unbraid("train", DATA, "vae,beta_vae", "--beta", "4", "--out", str(folder), *SMALL)
    assert answer.code == 0
    assert answer.out == f"Trained 2 of 2 models: {folder}\nNext:  unbraid score {folder}\n"
    assert answer.err.splitlines()[0].startswith("training: 40 model-steps in ")
    assert '"unbraid train sprites:x=6' in (folder / "plan.json").read_text()

    answer = unbraid("score", str(folder), "--metrics", "mig")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0].split() == ["seed", "beta", "mig"]
    assert lines[1].split() == ["member", "objective"]
    scores = [float(line.split()[-1]) for line in lines[2:4]]
    assert scores == sorted(scores, reverse=True)
    assert lines[-2:] == [
        f"All scores, with their parts: {folder / 'scores.parquet'}",
        f"Look at them:  unbraid report {folder}",
    ]

    before = contents(folder)
    answer = unbraid("resume", str(folder))
    assert answer.code == 0
    assert answer.out == f"Trained 2 of 2 models: {folder}\nNext:  unbraid score {folder}\n"
    assert contents(folder) == before

    answer = unbraid("report", str(folder))
    assert answer == (0, f"Open in a browser: {folder / 'report.html'}\n", "")
    assert (folder / "report.html").stat().st_size > 10_000


def test_lists(unbraid: Unbraid):
    answer = unbraid("list", "metrics")
    assert answer.code == 0
    assert [
        line.split()[0] for line in answer.out.splitlines()[1:] if not line.startswith("   ")
    ] == list(METRICS)
    assert unbraid("list", "metric") == (
        2,
        "",
        (
            "unbraid: list 'metric' is unknown; did you mean 'metrics'? Known: data, metrics,"
            " networks, objectives, priors, studies.\n"
        ),
    )


def test_priors_schedules_and_conventions_from_the_shell(unbraid: Unbraid, tmp_path: Path):
    words = (
        "--prior",
        "isotropic,sparse:gamma=0.5,spike=0.1",
        "--standardise",
        "--convention",
        "mean",
        "--seeds",
        "1",
    )
    scheduled = (
        "--beta",
        "0.01,linear(0, 0.02, 5)",
        "--learning-rate",
        "cosine(1e-3, 0, 2),1e-4",
        "--likelihood",
        "laplace+box3",
    )
    small = (
        "--network",
        "mlp:hidden=8",
        "--steps",
        "2",
        "--batch-size",
        "4",
        "--latents",
        "2",
        "--device",
        "cpu",
    )
    answer = unbraid(
        "train", DATA, "beta_vae", *words, *scheduled, *small, "--out", str(tmp_path / "run")
    )
    assert answer.code == 0, answer.err
    plan = run_folder.RunFolder.open(tmp_path / "run").plan
    found = [
        (one.given["beta"], one.prior, one.prior_hyper, one.learning_rate) for one in plan.members
    ]
    assert found == [
        (beta, prior, options, rate)
        for beta in (0.01, "linear(0, 0.02, 5)")
        for prior, options in (("isotropic", {}), ("sparse", {"gamma": 0.5, "spike": 0.1}))
        for rate in ("cosine(0.001, 0, 2)", 1e-4)
    ]
    assert plan.likelihood == "laplace+box3"
    assert set(plan.standardise) == {"mean", "std"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("sprite:x=6", "vae"),
            (
                "dataset 'sprite' is unknown; did you mean 'sprites'? Known:"
                f" {', '.join(sorted(ub.DATA))}. A folder, an .npy or an .npz is given by its path."
            ),
        ),
        (
            (DATA, "beta_va"),
            f"objective 'beta_va' is unknown; did you mean 'beta_vae'? Known: {OBJECTIVES}.",
        ),
        (
            (DATA, "beta_vae", "--betta", "4"),
            f"option 'betta' is unknown; did you mean 'beta'? Known: {GENERAL}.",
        ),
        (
            (DATA, "beta_vae", "--stepz", "4"),
            f"option 'stepz' is unknown; did you mean 'steps'? Known: {GENERAL}.",
        ),
        (
            ("sprites:z=3", "vae"),
            (
                "sprites option 'z' is unknown. Known: channels, hue, image_size, orientation,"
                " scale, scale_max, scale_min, shade, shape, x, x_range, y, y_range."
            ),
        ),
        ((DATA, "beta_vae", "--beta", "-1"), "beta_vae: beta must be at least 0; got -1."),
        ((DATA, "beta_vae", "--beta", "1,-4"), "beta_vae: beta must be at least 0; got -4."),
        ((DATA, "beta_vae", "--beta", "x"), "beta_vae: beta must be a number; got 'x'."),
        (
            (DATA, "beta_vae", "--beta"),
            (
                "option --beta needs a value; got nothing. Options of beta_vae: unbraid list"
                " objectives."
            ),
        ),
        (
            (DATA, "vae", "--learning-rate", "nan"),
            "learning_rate must be a finite number above 0; got nan.",
        ),
        ((DATA, "vae", "--seeds", "0"), "seeds must be at least 1; got 0."),
        ((DATA, "vae", "--seeds", "2,2"), "seeds must differ from each other; got [2, 2]."),
        (
            (DATA, "vae", "--steps", "soon"),
            "steps must be a whole number of at least 1; got 'soon'.",
        ),
        (
            (DATA, "vae", "--network", "cnn"),
            f"network 'cnn' is unknown. Known: {', '.join(sorted(ub.NETWORKS))}.",
        ),
        (
            (DATA, "vae", "--prior", "sparse:gama=1"),
            "sparse option 'gama' is unknown; did you mean 'gamma'? Known: gamma, spike.",
        ),
        ((DATA, "vae", "--prior", ","), "prior needs at least one; got []."),
        (
            (DATA, "vae", "--convention", "median"),
            "convention must be one of sum, mean; got 'median'.",
        ),
        (
            (DATA, "beta_vae", "--beta", "linear(0, 4)"),
            (
                "beta_vae: beta needs 3 or 4 numbers for the schedule linear; got linear(0, 4),"
                " with 2. For example linear(0, 4, 10000)."
            ),
        ),
        (
            (DATA, "vae", "--learning-rate", "cosine(0, 0, 9)"),
            "learning_rate must be a finite number above 0; got cosine(0, 0, 9).",
        ),
        (
            (DATA, "vae", "--device", "tpu"),
            "device must be auto, cpu, cuda or cuda:NUMBER; got 'tpu'.",
        ),
        (
            ("nowhere/at/all", "vae"),
            "data must be an existing folder or file; got 'nowhere/at/all', which does not exist.",
        ),
    ],
)
def test_a_bad_plan_is_one_message_and_nothing_written(
    unbraid: Unbraid,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    message: str,
):
    monkeypatch.chdir(tmp_path)
    assert unbraid("train", *words) == (2, "", f"unbraid: {message}\n")
    assert list(tmp_path.iterdir()) == []


def test_several_problems_come_together(
    unbraid: Unbraid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    answer = unbraid(
        "train", DATA, "beta_vae", "--beta", "-1", "--seeds", "0", "--learning-rate", "nan"
    )
    assert answer.code == 2
    assert answer.err.splitlines() == [
        "unbraid: beta_vae: beta must be at least 0; got -1.",
        "seeds must be at least 1; got 0.",
        "learning_rate must be a finite number above 0; got nan.",
    ]


def with_a_text_file(folder: Path) -> str:
    (folder / "notes.txt").write_text("mine")
    return (
        f"folder {folder} must hold only images (.png, .jpg, .jpeg, .bmp, .gif, .tif, .tiff, .webp)"
        " and factors.csv; got 'notes.txt'. Move the file elsewhere."
    )


def with_mixed_sizes(folder: Path) -> str:
    image(folder / "13.png", side=32)
    return (
        "images must all have one size; got '0.png' of 28x28 and '13.png' of 32x32 pixels."
        " Set resize=64 to scale every image to 64x64."
    )


def with_a_truncated_image(folder: Path) -> str:
    path = folder / "5.png"
    path.write_bytes(path.read_bytes()[:200])
    return "5.png must be a whole, readable image; got a file that cannot be decoded ("


@pytest.mark.parametrize("spoil", [with_a_text_file, with_mixed_sizes, with_a_truncated_image])
def test_a_bad_folder_of_images_is_named(
    unbraid: Unbraid, tmp_path: Path, spoil: Callable[[Path], str]
):
    folder = image_folder(tmp_path / "images")
    message = spoil(folder)
    before = contents(tmp_path)
    answer = unbraid("train", str(folder), "vae", "--out", str(tmp_path / "run"), *SMALL)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith(f"unbraid: {message}")
    assert answer.err.count("\n") == 1
    if not message.endswith("("):
        assert answer.err == f"unbraid: {message}\n"
    assert contents(tmp_path) == before


def test_a_bad_npz_is_named(unbraid: Unbraid, tmp_path: Path):
    pixels = np.zeros((6, 28, 28), dtype=np.uint8)
    np.savez(tmp_path / "keys.npz", photos=pixels)
    np.savez(tmp_path / "short.npz", images=pixels, factors=np.arange(5))
    before = contents(tmp_path)
    out = ("vae", "--out", str(tmp_path / "run"), *SMALL)
    assert unbraid("train", str(tmp_path / "keys.npz"), *out) == (
        2,
        "",
        (
            f"unbraid: {tmp_path / 'keys.npz'} must hold 'images'; got the keys photos. Name the"
            " key with images=KEY.\n"
        ),
    )
    assert unbraid("train", str(tmp_path / "short.npz"), *out) == (
        2,
        "",
        "unbraid: factors must have one row for each of 6 images; got 5 rows.\n",
    )
    assert contents(tmp_path) == before
    answer = unbraid("train", f"{tmp_path / 'keys.npz'}:images=photos", *out)
    assert answer.code == 0


def test_a_folder_with_another_run_is_left_alone(unbraid: Unbraid, run: Path):
    before = contents(run)
    assert unbraid("train", DATA, "vae", "--out", str(run), *SMALL) == (
        2,
        "",
        (
            f"unbraid: out must not hold another run; got '{run}'. Go on with `unbraid resume"
            f" {run}` or choose another folder.\n"
        ),
    )
    assert contents(run) == before


def test_a_disk_without_room_is_noticed_before_training(
    unbraid: Unbraid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(
        run_folder.shutil, "disk_usage", lambda path: SimpleNamespace(free=2_000_000)
    )
    answer = unbraid("train", DATA, "vae", "--seeds", "2", "--out", str(tmp_path / "run"), *SMALL)
    assert answer.code == 2
    assert answer.err.startswith(
        f"unbraid: out needs a disk with room for the plan; got 0.002 GB free at {tmp_path}, 0.01"
    )
    assert answer.err.endswith(
        " GB needed for 2 members. Free some room, or train fewer members.\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--metrics", "migg"),
            (
                "metric 'migg' is unknown; did you mean 'mig'? Known:"
                f" {', '.join(sorted(known_words()))}."
            ),
        ),
        (
            ("--metrics", ","),
            f"metrics needs at least one name; got []. Known: {', '.join(known_words())}.",
        ),
        (
            ("--metrics", "mig", "--representation", "sample"),
            "representation 'sample' is unknown; did you mean 'sampled'? Known: mean, sampled.",
        ),
    ],
)
def test_a_bad_request_for_scores(
    unbraid: Unbraid, run: Path, options: tuple[str, ...], message: str
):
    before = contents(run)
    assert unbraid("score", str(run), *options) == (2, "", f"unbraid: {message}\n")
    assert contents(run) == before


@pytest.mark.parametrize("command", ["score", "resume", "report"])
def test_what_is_not_a_run_is_refused(unbraid: Unbraid, tmp_path: Path, command: str):
    assert unbraid(command, str(tmp_path)) == (
        2,
        "",
        (
            "unbraid: run must be a folder made by `unbraid train`, with a plan.json in it; got"
            f" '{tmp_path}'.\n"
        ),
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["score", "resume", "report"])
def test_a_damaged_plan_is_code_one(unbraid: Unbraid, run: Path, command: str):
    path = run / "plan.json"
    path.write_text(path.read_text().replace('"steps": 20', '"steps": 21'))
    before = contents(run)
    assert unbraid(command, str(run)) == (
        1,
        "",
        f"unbraid: {path} is damaged: its content does not match its checksum.\n",
    )
    assert contents(run) == before


def test_a_damaged_checkpoint_is_passed_over_and_said(unbraid: Unbraid, run: Path):
    path = run / "checkpoint" / "members-00001-00001.step-000000020.safetensors"
    whole = path.read_bytes()
    spoiled = bytearray(whole)
    spoiled[-50] ^= 1
    path.write_bytes(bytes(spoiled))
    assert unbraid("report", str(run)) == (
        1,
        "",
        (
            f"unbraid: {path} is damaged: its content does not match its checksum."
            f" Run `unbraid resume {run}` to train it again from the last good one.\n"
        ),
    )
    answer = unbraid("resume", str(run))
    assert answer.code == 0
    assert answer.err.splitlines()[:2] == [
        f"{path} is damaged: its content does not match its checksum.",
        "going on from the last good checkpoint, members-00001-00001.step-000000010.safetensors.",
    ]
    assert answer.out.splitlines()[0] == f"Trained 2 of 2 models: {run}"
    assert path.read_bytes() == whole


def test_own_images_without_labels_train_and_report_and_have_unsupervised_scores(
    unbraid: Unbraid, tmp_path: Path
):
    folder, run = image_folder(tmp_path / "images"), tmp_path / "run"
    answer = unbraid("train", str(folder), "beta_vae", "--out", str(run), *SMALL)
    assert answer.code == 0
    assert answer.out == f"Trained 1 of 1 models: {run}\nNext:  unbraid score {run}\n"
    assert unbraid("report", str(run)).code == 0
    assert unbraid("score", str(run), "--metrics", "mig") == (
        2,
        "",
        (
            f"unbraid: the data of {run} has no factors, and mig compares codes with factors. Give"
            " factors when loading the data (factors=...), or score with --metrics unsupervised.\n"
        ),
    )
    answer = unbraid("score", str(run))
    assert answer.code == 0
    assert {"hoyer", "total_correlation", "elbo"} <= set(answer.out.split())
    image(folder / "3.png", seed=99)
    assert unbraid("resume", str(run)) == (
        2,
        "",
        (
            f"unbraid: the data of {run} has changed since the run began: 'own' has another"
            " fingerprint.\n"
        ),
    )


def test_a_diverged_member_is_counted_and_named(unbraid: Unbraid, tmp_path: Path):
    answer = unbraid(
        "train", DATA, "vae", "--learning-rate", "1e-3,1e30", "--out", str(tmp_path / "run"), *SMALL
    )
    assert answer.code == 0
    assert "1 of 2 members diverged and were frozen: 1." in answer.err.splitlines()
    assert answer.out.splitlines()[0] == f"Trained 1 of 2 models: {tmp_path / 'run'}"


def test_help_answers_within_half_a_second():
    # Half a second on an idle machine; ratios to a bare interpreter hold on a busy one too (0.16 s
    # to 0.04 s).
    ratios = []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import json, argparse, email.message"], check=True)
        bare = time.perf_counter() - began
        began = time.perf_counter()
        command = [
            sys.executable,
            "-c",
            "from unbraid.commands.command_line import main; main()",
            "--help",
        ]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        ratios.append((time.perf_counter() - began) / bare)
    assert min(ratios) < 8
    for command in ("train", "resume", "score", "report", "list", "demo", "gallery"):
        assert f"  {command} " in shown


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_training_says_how_to_go_on_and_does(
    unbraid: Unbraid, tmp_path: Path, stop: signal.Signals
):
    run = tmp_path / "run"
    words = [
        "train",
        DATA,
        "vae",
        "--out",
        str(run),
        "--checkpoint-seconds",
        "0.05",
        *SMALL,
        "--steps",
        "3000",
    ]
    command = [
        sys.executable,
        "-c",
        "from unbraid.commands.command_line import main; main()",
        *words,
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        deadline = time.monotonic() + 60
        while (
            not list(run.glob("checkpoint/*.safetensors"))
            and process.poll() is None
            and time.monotonic() < deadline
        ):
            time.sleep(0.01)
        process.send_signal(stop)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert out == ""
    assert (
        err.splitlines()[-1]
        == f"unbraid: stopped; everything so far is in {run}. Go on with: unbraid resume {run}"
    )
    assert "Traceback" not in err
    answer = unbraid("resume", str(run))
    assert answer.code == 0
    assert answer.out.splitlines()[0] == f"Trained 1 of 1 models: {run}"


def test_a_run_whose_data_was_moved_is_told_where_it_lies(unbraid: Unbraid, tmp_path: Path):
    images = np.random.default_rng(0).integers(0, 256, (12, 28, 28), dtype=np.uint8)
    np.savez(tmp_path / "here.npz", images=images, factors=np.arange(12) % 4)
    assert (
        unbraid(
            "train", str(tmp_path / "here.npz"), "vae", *SMALL, "--out", str(tmp_path / "run")
        ).code
        == 0
    )
    (tmp_path / "here.npz").rename(tmp_path / "there.npz")
    assert unbraid("report", str(tmp_path / "run")).code == 2
    assert unbraid("report", str(tmp_path / "run"), "--data", str(tmp_path / "there.npz")).code == 0
    assert (
        unbraid(
            "score",
            str(tmp_path / "run"),
            "--metrics",
            "mig",
            "--data",
            str(tmp_path / "there.npz"),
        ).code
        == 0
    )


def test_training_on_a_part_says_how_large_it_is(unbraid: Unbraid, tmp_path: Path):
    answer = unbraid(
        "train",
        DATA,
        "vae",
        *SMALL,
        "--where",
        "x < 3 and scale == 1",
        "--out",
        str(tmp_path / "run"),
    )
    assert answer.code == 0
    assert answer.out.startswith("Trained on 12 of 48 images: x < 3 and scale == 1\n")
    assert unbraid("report", str(tmp_path / "run")).code == 0
    assert "12 of 48 images; scores are of all" in (tmp_path / "run" / "report.html").read_text()


def test_an_empty_rule_is_refused(unbraid: Unbraid):
    told = "unbraid: where must be a rule; got ''. Leave it out to train on everything.\n"
    assert unbraid("train", DATA, "vae", "--where", "") == (2, "", told)
