# SPDX-License-Identifier: Apache-2.0
"""`discover`: what it refuses, what it writes, that it goes on after a stop, and that it finds
factors it was not shown.
"""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from scipy.stats import spearmanr

import unbraid as ub
from unbraid.commands.discover import CSV, TABLE
from unbraid.core import begun
from unbraid.core.errors import InputError, UnbraidError
from unbraid.core.store import digest, read_about_table, read_json, write_json, write_table
from unbraid.data import load
from unbraid.population import new_folder
from unbraid.population.run_data import MOVED
from unbraid.report.discover.context import write_discover
from unbraid.report.discover.words import table_columns
from unbraid.scoring.code_tables import read_codes
from unbraid.search.discover import clock, image_source
from unbraid.search.discover import plan as discovery_plan
from unbraid.search.discover.clock import Clock
from unbraid.search.discover.plan import DiscoveryPlan, seen_side
from unbraid.search.pbt.judging import Judging
from unbraid.search.pbt.plan import SearchPlan
from unbraid.search.pbt.search import SearchRun

QUICK = {"steps": 12, "population": 5, "models": 2, "latents": 3, "quiet": True, "device": "cpu"}
BRIEF = QUICK | {"steps": 3}


def few_small_epochs(patch):
    """Instead of those that find something: tests look at what goes in, is told of it, and stops.

    The epochs and batches that people get are those of
    `test_by_minutes_the_epochs_fit_the_time`.
    """
    patch.setattr(discovery_plan, "EPOCHS", 3)
    patch.setattr(discovery_plan, "BATCH", 8)


@pytest.fixture
def brief(monkeypatch):
    few_small_epochs(monkeypatch)


def drawn_images(count: int = 120, **options: int) -> np.ndarray:
    data = load("sprites", image_size=28, **({"x": 12, "y": 8, "scale": 3} | options))
    return data.images(np.sort(np.random.default_rng(0).choice(len(data), count, replace=False)))


def assert_same_codes(left, right):
    assert len(left.codes.columns) > 2, "something must have been found, or this shows nothing"
    pd.testing.assert_frame_equal(left.codes, right.codes)


def folder_of(images: np.ndarray, folder: Path) -> Path:
    folder.mkdir()
    for number, image in enumerate(images):
        Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(
            folder / f"scan {number}.png"
        )
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A discovery of a few steps in a folder of images, shared by tests that only look."""
    home = tmp_path_factory.mktemp("discover")
    source = folder_of(drawn_images(), home / "scans")
    with pytest.MonkeyPatch.context() as patch:
        few_small_epochs(patch)
        return ub.discover(source, out=home / "found", **(BRIEF | {"steps": 9}))


@pytest.fixture(scope="module")
def of_array(tmp_path_factory):
    """A discovery of a few steps in an array, shared by tests that leave it as it was."""
    with pytest.MonkeyPatch.context() as patch:
        few_small_epochs(patch)
        return ub.discover(
            drawn_images(60), out=tmp_path_factory.mktemp("discover") / "array", **BRIEF
        )


def test_it_writes_report_tables_and_models(made):
    assert made.page.read_text("utf-8").startswith("<!doctype html>")
    table = pd.read_parquet(made.path / "codes.parquet")
    pd.testing.assert_frame_equal(table, made.codes)
    csv = pd.read_csv(made.path / "codes.csv")
    assert list(csv.columns) == list(table.columns)
    assert list(table.columns[:2]) == ["image", "name"]
    assert table["name"].tolist()[:3] == ["scan 0.png", "scan 1.png", "scan 2.png"]
    assert len(table) == 120
    assert f"Open in a browser: {made.path / 'discover.html'}" in made.summary().splitlines()
    assert len(made.models.members) == 2
    assert (
        repr(made)
        == f"<DiscoverResult {made.path}: {len(made.found.factors)} factors in 120 images>"
    )


def test_the_codes_are_those_of_the_chosen_model(made):
    columns = [*made.found.factors, *made.found.doubtful]
    assert columns, "something must have been found, or this shows nothing"
    images = made.models.dataset.images(np.arange(120))
    every = [made.models.model(member).encode(images) for member in (0, 1)]
    for factor, name in zip(columns, made.codes.columns[2:], strict=True):
        errors = [np.abs(codes[:, factor.latent] - made.codes[name]).max() for codes in every]
        assert min(errors) < 1e-5


@pytest.mark.parametrize("name", ["codes.csv", "codes.parquet"])
def test_its_tables_are_codes_for_a_reduction(made, name):
    found = read_codes(made.path / name, None, "labels")
    assert found.names == tuple(made.codes.columns[2:])
    np.testing.assert_array_equal(
        found.codes.astype(np.float32), made.codes.iloc[:, 2:].to_numpy(np.float32)
    )


def test_rows_of_images_rise_with_the_code(made):
    found = (*made.found.factors, *made.found.doubtful)
    assert found, "something must have been found, or this shows nothing"
    for factor in found:
        assert factor.drawn.shape == factor.real.shape == (9, 28, 28, 1)
        places = [
            int(name.removeprefix("scan ").removesuffix(".png")) for name in factor.real_names
        ]
        column = next(one.name for one in table_columns(made.found) if one.latent == factor.latent)
        codes = made.codes[column].to_numpy()[places]
        assert (np.diff(codes) >= 0).all()


@pytest.mark.parametrize("later", [{}, {"a_field_of_a_later_version": 1}])
def test_resume_of_a_finished_one_changes_nothing(made, monkeypatch, later):
    record = SearchPlan.record
    monkeypatch.setattr(SearchPlan, "record", lambda self: record(self) | later)
    files = [path for path in made.path.rglob("*") if path.is_file()]
    before = {path: path.stat().st_mtime_ns for path in files}
    again = ub.resume(made.path, device="cpu", quiet=True)
    assert {path: path.stat().st_mtime_ns for path in files} == before
    pd.testing.assert_frame_equal(again.codes, made.codes)
    assert again.found.udr == made.found.udr
    assert again.found.minutes == made.found.minutes


def test_a_finished_one_with_other_images_is_refused_and_left_as_it_is(made, tmp_path):
    found, scans = tmp_path / "found", tmp_path / "scans"
    shutil.copytree(made.path, found)
    folder_of(drawn_images()[::-1], scans)
    before = {path: path.read_bytes() for path in found.rglob("*") if path.is_file()}
    rule = f"must be the images with which {found} began, to the last pixel and label"
    for data, shown in (
        (scans, scans),
        (f"{scans}:resize=32", f"{scans}:resize=32"),
        (load(scans), "what was given"),
    ):
        with pytest.raises(InputError) as caught:
            ub.resume(found, data=data, device="cpu", quiet=True)
        (problem,) = caught.value.problems
        assert (problem.name, problem.rule, problem.shown) == ("data", rule, f"others in {shown}")
        assert problem.remedy == f"{MOVED} For other images discover into a new folder."
    assert {path: path.read_bytes() for path in found.rglob("*") if path.is_file()} == before


def test_images_that_are_gone_may_have_been_moved(made, tmp_path):
    found, gone = Path(shutil.copytree(made.path, tmp_path / "found")), tmp_path / "gone"
    record = read_json(found / "discover.json")
    write_json(found / "discover.json", record | {"data": str(gone)})
    rule = "must be an existing folder or file"
    lost = f"data {rule}; got '{gone}', which does not exist."
    with pytest.raises(InputError) as caught:
        ub.resume(found, device="cpu", quiet=True)
    (problem,) = caught.value.problems
    assert problem.text == f"the data of {found} cannot be opened: {lost}"
    assert (problem.name, problem.rule, problem.remedy) == ("data", rule, MOVED)
    with pytest.raises(InputError) as caught:
        ub.resume(found, data=gone, device="cpu", quiet=True)
    assert caught.value.problems[0].text == lost


def test_the_page_of_another_discovery_is_written_again(made, tmp_path):
    found = Path(shutil.copytree(made.path, tmp_path / "found"))
    write_discover(found / "discover.html", made.found, digest("another"))
    ub.resume(found, device="cpu", quiet=True)
    own, again = (
        (path / "discover.html").read_text("utf-8").splitlines()[-2] for path in (made.path, found)
    )
    assert again == own != f"<!-- sha256 of what it was made from: {digest('another')} -->"


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("leaf_runs", [0, 1])
def test_a_disk_without_room_is_refused_before_anything_is_written(
    tmp_path, monkeypatch, leaf_runs
):
    images, wanted, needed = drawn_images(60), list[int](), new_folder.bytes_needed

    def watched(*given, **how):
        wanted.append(needed(*given, **how))
        if len(wanted) == 2:
            raise KeyboardInterrupt  # there is room, and the search is about to train
        return wanted[-1]

    monkeypatch.setattr(new_folder, "bytes_needed", watched)
    options = BRIEF | {"leaf_runs": leaf_runs}
    with pytest.raises((KeyboardInterrupt, UnbraidError)):
        ub.discover(images, out=tmp_path / "roomy", **options)
    assert wanted[0] == wanted[1], "what is foreseen is what the search asks for then"
    usage = SimpleNamespace(free=wanted[0] + images.nbytes)
    monkeypatch.setattr(new_folder.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(InputError) as caught:
        ub.discover(images, out=tmp_path / "out", **options)
    assert caught.value.problems[0].rule == "needs a disk with room for the plan"
    assert not (tmp_path / "out").exists()


def test_what_is_missing_of_a_finished_one_is_written_again(made, tmp_path):
    found = tmp_path / "found"
    shutil.copytree(made.path, found)
    (found / "codes.csv").unlink()
    ub.resume(found, device="cpu", quiet=True)
    assert (found / "codes.csv").read_bytes() == (made.path / "codes.csv").read_bytes()


def test_a_flipped_bit_in_the_stored_images_of_a_discovery_is_noticed(of_array, tmp_path):
    shutil.copytree(of_array.path, tmp_path / "array")
    stored = tmp_path / "array" / "images.npy"
    content = bytearray(stored.read_bytes())
    content[-1] ^= 1
    stored.write_bytes(content)
    with pytest.raises(InputError, match="must be the images with which"):
        ub.resume(tmp_path / "array", device="cpu", quiet=True)


@pytest.mark.usefixtures("brief")
def test_a_second_discovery_into_the_same_folder_changes_nothing(tmp_path, monkeypatch):
    out, seen, plan_of = tmp_path / "out", [], discovery_plan.make_discovery_plan

    def meanwhile(*given, **options):
        """Another discovery is started while this one measures."""
        if not seen:
            seen.append(1)
            with pytest.raises(InputError) as told:
                ub.discover(drawn_images(70), out=out, **(BRIEF | {"seed": 1}))
            seen.append(str(told.value))
        return plan_of(*given, **options)

    monkeypatch.setattr(discovery_plan, "make_discovery_plan", meanwhile)
    ub.discover(drawn_images(60), out=out, **BRIEF)
    assert seen[1].startswith(f"{out} is being written by another process")
    assert DiscoveryPlan.from_record(read_json(out / "discover.json")).root.seed == 0
    assert len(np.load(out / "images.npy")) == 60


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("killed", [False, True])
def test_a_folder_whose_discovery_ended_before_its_record_can_be_used(
    tmp_path, monkeypatch, killed
):
    out = tmp_path / "out"

    def end(*given, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(discovery_plan, "make_discovery_plan", end)
        if killed:  # who is killed tidies nothing
            patch.setattr(begun, "remove_leftovers", lambda folder: None)
        with pytest.raises(KeyboardInterrupt):
            ub.discover(drawn_images(70), out=out, **BRIEF)
    assert (out / "images.npy").exists() == killed
    assert len(ub.discover(drawn_images(60), out=out, **BRIEF).codes) == 60
    assert not (out / begun.NOTE).exists()


@pytest.mark.usefixtures("brief")
def test_a_stopped_discovery_goes_on_to_the_same_codes(tmp_path, monkeypatch):
    images, options = drawn_images(80), BRIEF | {"steps": 6}
    whole = ub.discover(images, out=tmp_path / "whole", **options)
    calls, scores = [], Judging.scores

    def interrupted(self):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return scores(self)

    monkeypatch.setattr(Judging, "scores", interrupted)
    with pytest.raises(UnbraidError) as told:
        ub.discover(images, out=tmp_path / "cut", **options)
    cut = tmp_path / "cut"
    assert (
        str(told.value)
        == f"stopped; everything so far is in {cut}. Go on with: unbraid resume {cut}"
    )
    resumed = ub.resume(cut, device="cpu", quiet=True)
    assert_same_codes(resumed, whole)
    lineages = [SearchRun.open(tmp_path / name / "models").lineage for name in ("whole", "cut")]
    pd.testing.assert_frame_equal(*lineages)


def test_arrays_and_datasets_are_stored_with_the_discovery(of_array, tmp_path):
    moved = Path(shutil.copytree(of_array.path, tmp_path / "moved"))
    (of_array.path / "images.npy").rename(tmp_path / "kept.npy")
    try:
        again = ub.resume(moved, device="cpu", quiet=True)  # which has images of its own
    finally:
        (tmp_path / "kept.npy").rename(of_array.path / "images.npy")
    pd.testing.assert_frame_equal(again.codes, of_array.codes)
    assert np.load(of_array.path / "images.npy").shape == (60, 28, 28, 1)
    assert of_array.found.source == "an array"
    assert of_array.codes["name"].tolist() == [str(number) for number in range(60)]


@pytest.mark.usefixtures("brief")
def test_large_images_are_seen_small_and_the_report_says_so(tmp_path):
    images = np.kron(drawn_images(60), np.ones((1, 2, 3, 1), np.uint8))
    made = ub.discover(images, out=tmp_path / "large", **BRIEF)
    assert made.models.dataset.image_shape == (32, 32, 1)
    assert made.found.resized_from == (56, 84)
    assert made.found.warnings[:2] == (
        "Images of 56 × 84 pixels were stretched to 32 × 32, which changes the shape of what they"
        " show: cut them to squares first to keep it.",
        "The models saw the images at 32 × 32 pixels; details smaller than that cannot be found.",
    )


DEPTH = "16-bit images were scaled to 8 bits: 300 to 0, 51,300 to 255."


@pytest.mark.usefixtures("brief")
def test_images_of_16_bits_are_scaled_and_the_report_says_so(tmp_path):
    deep = drawn_images(60).astype(np.uint16) * 200 + 300
    (tmp_path / "scans").mkdir()
    for number, image in enumerate(deep):
        Image.fromarray(image[..., 0]).save(tmp_path / "scans" / f"{number}.tif")
    np.save(tmp_path / "scans.npy", deep)
    same = load(drawn_images(60)).fingerprint()
    for source in (tmp_path / "scans", str(tmp_path / "scans.npy"), deep, load(deep)):
        taken = image_source.take_images(source, {}, None, torch.device("cpu"))
        assert taken.depth == DEPTH
        data, options = taken.stored(tmp_path)
        assert load(data, **options).fingerprint() == taken.dataset.fingerprint() == same
    assert image_source.take_images(drawn_images(60), {}, None, torch.device("cpu")).depth == ""
    made = ub.discover(deep, out=tmp_path / "out", **(BRIEF | {"steps": 6}))
    assert made.found.warnings[0] == DEPTH
    assert DEPTH in made.page.read_text("utf-8")
    again = ub.resume(tmp_path / "out", device="cpu", quiet=True)
    assert again.found.warnings == made.found.warnings
    assert_same_codes(again, made)
    record = read_json(tmp_path / "out" / "discover.json")
    assert record["depth"] == DEPTH
    del record["depth"]  # as earlier versions wrote it
    assert DiscoveryPlan.from_record(record).depth == ""


@pytest.mark.usefixtures("brief")
def test_photographs_of_several_sizes_are_scaled_and_that_is_told(tmp_path):
    from PIL import Image

    folder = tmp_path / "photos"
    folder.mkdir()
    for number, image in enumerate(drawn_images(60)):
        Image.fromarray(image[..., 0]).resize((28, 40) if number % 2 else (40, 28)).save(
            folder / f"{number}.png"
        )
    made = ub.discover(
        folder,
        out=tmp_path / "out",
        resize=28,
        command="unbraid discover photos/ --resize 28 --steps 12",
        **BRIEF,
    )
    told = (
        "Your images have 2 different sizes. All were scaled to 28 × 28 pixels, which changes the"
        " shape of what they show."
    )
    assert told in made.found.warnings
    assert made.found.commands[0][0].startswith("unbraid discover photos/ --resize 28 --minutes ")
    assert made.summary().splitlines()[-1] == f"Next:  {made.found.commands[0][0]}"
    assert (
        ub.resume(tmp_path / "out", device="cpu", quiet=True).found.warnings == made.found.warnings
    )


def test_models_that_have_learned_nothing_yet_have_found_nothing(made):
    assert made.found.explained < 0.1
    assert made.found.factors == ()
    (warning,) = made.found.warnings
    assert warning.startswith("Every group of models was collapsed")
    assert warning.endswith("so nothing counts as found. Give it more time.")
    lineage = made.models.folder.path / "lineage.parquet"
    groups = len(pd.read_parquet(lineage))
    assert made.found.facts["Collapsed groups"].startswith(f"{groups} of {groups}")


def test_collapsed_groups_that_draw_and_agree_have_found_nothing(made, tmp_path, monkeypatch):
    """Headline, page and table agree, also where an earlier version wrote the table."""
    from unbraid.search.discover import find as finding

    monkeypatch.setattr(finding, "LITTLE_EXPLAINED", -math.inf)
    monkeypatch.setattr(finding, "FOUND_NATS", 0.0)
    monkeypatch.setattr(finding, "confirmed", lambda certainty: True)
    shutil.copytree(made.path, tmp_path / "out")
    table, about = pd.read_parquet(made.path / TABLE), read_about_table(made.path / TABLE)
    former = table.rename(columns=lambda name: name.replace("doubtful_", "factor_"))
    if former.columns.equals(table.columns):
        former["factor_1_size"] = 0.0
    write_table(tmp_path / "out" / TABLE, former, about)
    again = ub.resume(tmp_path / "out", device="cpu", quiet=True)
    assert again.found.factors == ()
    assert again.found.doubtful != ()
    assert again.summary().startswith("Nothing counts as found in your 120 images: every group")
    page = again.page.read_text("utf-8")
    assert "Nothing counts as found in your 120 images" in page
    assert "What was found" not in page
    for stored in (again.codes, pd.read_csv(tmp_path / "out" / CSV)):
        codes = [name for name in stored.columns if name not in ("image", "name")]
        assert len(codes) == len(again.found.doubtful)
        assert all(name.startswith("doubtful_") for name in codes)


@pytest.mark.usefixtures("brief")
def test_it_can_be_resumed_from_another_folder_and_with_moved_images(tmp_path, monkeypatch):
    folder_of(drawn_images(60), tmp_path / "scans")
    monkeypatch.chdir(tmp_path)
    made = ub.discover("scans", out="found", **(BRIEF | {"steps": 6}))
    assert made.found.source == "scans"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = ub.resume("../found", device="cpu", quiet=True)
    assert_same_codes(again, made)
    (tmp_path / "scans").rename(tmp_path / "moved")
    moved = ub.resume("../found", data="../moved", device="cpu", quiet=True)
    assert_same_codes(moved, made)


@pytest.mark.usefixtures("brief")
def test_of_a_large_dataset_a_sample_is_drawn_and_its_numbers_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(image_source, "MOST_IMAGES", 60)
    data = load("sprites", image_size=28, x=12, y=8, scale=3)
    made = ub.discover(data, out=tmp_path / "out", **BRIEF)
    numbers = made.codes["image"].to_numpy()
    assert len(numbers) == 60
    assert numbers.max() >= 60
    assert made.codes["name"].tolist() == [str(number) for number in numbers]
    np.testing.assert_array_equal(made.models.dataset.images(np.arange(60)), data.images(numbers))
    assert made.found.warnings[0] == "Of the 288 images 60 were drawn at random and looked at."


@pytest.mark.usefixtures("brief")
def test_a_wanted_size_is_kept_and_told(tmp_path):
    images = np.kron(drawn_images(60), np.ones((1, 2, 2, 1), np.uint8))
    for options in ({"resize": 28}, {"data_options": {"resize": 28}}):
        made = ub.discover(
            images, out=tmp_path / str(len(options.get("data_options", {}))), **(BRIEF | options)
        )
        assert made.models.dataset.image_shape == (28, 28, 1)
        assert made.found.resized_from == (56, 56)


@pytest.mark.usefixtures("brief")
def test_a_discovery_with_a_leaf_run(tmp_path):
    made = ub.discover(
        drawn_images(60), out=tmp_path / "deep", leaf_runs=1, **(BRIEF | {"steps": 9})
    )
    record = read_json(tmp_path / "deep" / "discover.json")
    assert record["search"] is None
    assert record["recursion"]["leaf_runs"] == 1
    starts = ("In all 60 images, models agreed on 3 things", "Part 1: ", "A last population ")
    for stage, start in zip(made.found.stages, starts, strict=True):
        assert stage.startswith(start)
    assert made.found.from_final
    again = ub.resume(tmp_path / "deep", device="cpu", quiet=True)
    pd.testing.assert_frame_equal(again.codes, made.codes)


@pytest.mark.parametrize(
    ("height", "width", "device", "resize", "side"),
    [
        (32, 32, "cpu", None, None),
        (28, 28, "cpu", None, None),
        (64, 64, "cpu", None, 32),
        (64, 64, "cuda", None, None),
        (48, 48, "cuda", None, 64),
        (128, 128, "cuda", None, 64),
        (30, 32, "cpu", None, 32),
        (64, 64, "cpu", 64, None),
        (64, 64, "cpu", 28, 28),
    ],
)
def test_the_size_at_which_images_are_seen(height, width, device, resize, side):
    assert seen_side(height, width, torch.device(device), resize) == side


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (
            drawn_images(3),
            (
                "images must be at least 50 to find factors in; got 3. A few hundred images are a"
                " fair start, a few thousand better."
            ),
        ),
        (
            np.full((200, 32, 32), 7, np.uint8),
            (
                "images must differ from each other; got 200 images that are all the same. Nothing"
                " varies in them, so nothing can be found."
            ),
        ),
        (
            drawn_images(4)[np.arange(100) % 4],
            (
                "images must show at least 10 different images; got 4 different ones among 100"
                " looked at."
            ),
        ),
        (
            [1, 2],
            (
                "images must be a folder, a .npy or .npz file, an array, or the name of a dataset;"
                " got 'list'."
            ),
        ),
        (
            "pinwheel",
            "images must be images; got 'pinwheel'. Points have no factors that could be shown.",
        ),
    ],
)
def test_images_in_which_nothing_can_be_found_are_refused(tmp_path, images, message):
    with pytest.raises(InputError) as told:
        ub.discover(images, out=tmp_path / "out", **QUICK)
    assert str(told.value) == message
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("brief")
def test_images_of_two_sizes_are_refused_by_name(tmp_path):
    folder = folder_of(drawn_images(60), tmp_path / "mixed")
    Image.fromarray(np.zeros((20, 30), np.uint8)).save(folder / "scan 59.png")
    with pytest.raises(InputError) as told:
        ub.discover(folder, out=tmp_path / "out", **BRIEF)
    assert (
        str(told.value)
        == "images must all have one size; got 'scan 0.png' of 28x28 and 'scan 59.png' of 30x20"
        " pixels. Crop them to one size, or scale all with resize=64."
    )
    made = ub.discover(folder, out=tmp_path / "scaled", resize=32, **BRIEF)
    assert made.models.dataset.image_shape == (32, 32, 1)


def test_every_file_that_cannot_be_used_is_named_in_one_message(tmp_path):
    folder = folder_of(drawn_images(60), tmp_path / "scans")
    (folder / "Thumbs.db").write_text("x")
    assert image_source.image_names(str(folder), None)[:2] == ("scan 0.png", "scan 1.png")
    for number in (3, 20):
        (folder / f"scan {number}.png").write_text("no image")
    torn = folder / "scan 7.png"
    torn.write_bytes(torn.read_bytes()[:120])  # its header is whole
    with pytest.raises(InputError) as told:
        ub.discover(folder, out=tmp_path / "out", **QUICK)
    lines = str(told.value).splitlines()
    assert [line.partition(".png ")[0] for line in lines] == ["scan 3", "scan 7", "scan 20"]
    assert (
        lines[0]
        == "scan 3.png must be a whole, readable image; got a file that cannot be decoded (cannot"
        " identify image file 'scan 3.png'). Write it again or remove it."
    )
    Image.fromarray(np.zeros((20, 30), np.uint8)).save(folder / "scan 50.png")
    Image.fromarray(np.zeros((10, 30), np.uint8)).save(folder / "scan 51.png")
    with pytest.raises(InputError) as told:
        ub.discover(folder, out=tmp_path / "out", **QUICK)
    assert str(told.value).splitlines() == [
        (
            "images must all have one size; got 'scan 0.png' of 28x28 and 'scan 50.png' of 30x20"
            " pixels. Crop them to one size, or scale all with resize=64."
        ),
        *lines,
    ]
    for number in range(30):
        (folder / f"scan {number}.png").write_text("no image")
    with pytest.raises(InputError) as told:
        ub.discover(folder, out=tmp_path / "out", **QUICK)
    assert len(str(told.value).splitlines()) == 11
    assert str(told.value).splitlines()[-1] == "And 21 more such problems."
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"population": 4},
            (
                "population must be a whole number from 5 to 1000; got 4. Of fewer groups there is"
                " no fifth to replace."
            ),
        ),
        ({"models": 1}, "models must be a whole number of at least 2; got 1."),
        (
            {"minutes": 5},
            "minutes and steps cannot both be given; got minutes 5, steps 12. Leave one out.",
        ),
        ({"steps": None, "minutes": 0}, "minutes must be a number of at least 0.5; got 0."),
        ({"resize": 33}, "resize must be one of 28, 32, 64, 96, 128; got 33."),
        ({"leaf_runs": -1}, "leaf_runs must be a whole number of at least 0; got -1."),
        ({"seed": "x"}, "seed must be a whole number of at least 0; got 'x'."),
    ],
)
def test_bad_numbers_are_refused_by_name(tmp_path, options, message):
    with pytest.raises(InputError) as told:
        ub.discover(drawn_images(60), out=tmp_path / "out", **(QUICK | options))
    assert str(told.value) == message
    assert not (tmp_path / "out").exists()


def test_every_problem_is_told_at_once(tmp_path):
    with pytest.raises(InputError) as told:
        ub.discover(
            drawn_images(60),
            out=tmp_path / "out",
            **(QUICK | {"population": 3, "models": 0, "latents": 0}),
        )
    assert [line.split()[0] for line in str(told.value).splitlines()] == [
        "population",
        "models",
        "latents",
    ]


def test_by_minutes_the_epochs_fit_the_time(tmp_path, monkeypatch):
    monkeypatch.setattr(discovery_plan, "_LEAST_MINUTES", 0.01)
    monkeypatch.setattr(discovery_plan, "_MEASURED_SECONDS", {"cpu": 0.2})
    speeds, measured = [], discovery_plan.images_per_second

    def watched(*given):
        speeds.append(measured(*given))
        return speeds[-1]

    monkeypatch.setattr(discovery_plan, "images_per_second", watched)
    made = ub.discover(
        drawn_images(100), out=tmp_path / "out", **(QUICK | {"steps": None, "minutes": 0.04})
    )
    plan = DiscoveryPlan.from_record(read_json(tmp_path / "out" / "discover.json"))
    assert plan.minutes == 0.04
    # Of 2.4 seconds the part for training, shared by the epochs of five groups of two models.
    in_time = speeds[0] * 0.04 * 60 * discovery_plan._TRAINING_SHARE / (discovery_plan.EPOCHS * 10)
    assert speeds[0] > 0
    assert plan.root.epoch_images == max(discovery_plan.BATCH, round(in_time))
    # An epoch that begins in time may end late, by at most itself.
    assert made.found.minutes < 0.04 * 8
    given = []
    monkeypatch.setattr(clock, "Clock", lambda *words: given.append(words) or Clock(*words))
    ub.resume(tmp_path / "out", device="cpu", quiet=True)
    assert [minutes for minutes, _, _ in given] == [None], "after an interruption nothing is late"


@pytest.mark.usefixtures("brief")
def test_the_command(unbraid, tmp_path):
    images = load("sprites", image_size=28, x=12, y=6, scale=1).images(np.arange(72))
    np.savez(tmp_path / "mine.npz", images=images)
    out = tmp_path / "found"
    words = ("--steps", "3", "--models", "2", "--latents", "2", "--device", "cpu")
    answer = unbraid("discover", str(tmp_path / "mine.npz"), *words, "--out", str(out))
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    assert lines[-2] == f"Open in a browser: {out / 'discover.html'}"
    assert lines[-1].startswith("Next:  unbraid discover ")
    again = unbraid("resume", str(out), "--device", "cpu")
    assert (again.code, again.out) == (0, answer.out)


@pytest.mark.slow
def test_factors_are_found_that_were_not_shown(tmp_path):
    data = load(
        "sprites", image_size=28, x=16, y=10, scale=6, y_range=0.5, scale_min=0.18, scale_max=0.26
    )
    made = ub.discover(
        data.images(np.arange(len(data))), out=tmp_path / "out", minutes=6, device="cpu", quiet=True
    )
    truth = data.factors(np.arange(len(data)))
    sizes = np.array(
        [
            [abs(spearmanr(made.codes[name], column)[0]) for column in truth.T]
            for name in made.codes.columns[2:]
        ]
    )
    assert (sizes.max(axis=0) > 0.9).sum() >= 2
