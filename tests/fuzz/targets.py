# SPDX-License-Identifier: Apache-2.0
"""Every parser and reader as a function of bytes.

A target either takes its input or refuses it by an `UnbraidError`. Anything else is a finding:
another exception, a warning, an answer that differs from that of an independent reader, or a
message that is longer than its cause.
"""

from __future__ import annotations

import csv
import functools
import io
import random
import shutil
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.fuzz import containers, grammar

from unbraid.analysis.distances.perceived_loss import parse_loss
from unbraid.codes.codes import CodeStore
from unbraid.commands.run import open_run
from unbraid.core import spelling, store
from unbraid.core.arrays import npz_keys, read_npy, read_npz
from unbraid.core.errors import Problems, UnbraidError
from unbraid.core.records import read_object
from unbraid.core.tables import read_csv
from unbraid.data import load
from unbraid.data.export import parse_indices
from unbraid.data.official import OFFICIAL, published
from unbraid.data.own.factor_table import table_from_file
from unbraid.data.own.own_images import OwnImages
from unbraid.data.where_rule import cumulative_weights
from unbraid.metrics._arrays import to_numpy
from unbraid.objectives.likelihood_spelling import read_likelihood
from unbraid.objectives.schedule import Schedule
from unbraid.population.resolve import (
    choose_network,
    choose_objectives,
    choose_priors,
    choose_supervisions,
)
from unbraid.population.run_folder import RunFolder
from unbraid.population.seeds_and_rates import read_rates, read_seeds
from unbraid.scoring.code_tables import read_codes
from unbraid.scoring.metric_names import asked, metric_names
from unbraid.scoring.own_codes import score_codes
from unbraid.scoring.score_table import stored_scores
from unbraid.search.discover.plan import DiscoveryPlan
from unbraid.search.pbt.search import SearchRun
from unbraid.search.pbt.search_space import fixed_value, read_dimension
from unbraid.search.rpu.labelling import Labelling
from unbraid.search.rpu.recursion import Recursion
from unbraid.search.rpu.surrogate_labels import read_surrogates
from unbraid.testing.official_files import small_source

Random = random.Random
LONGEST_MESSAGE = 20_000


class FindingError(AssertionError):
    """A reader did what it must not."""


@dataclass(frozen=True)
class Target:
    """One reader."""

    name: str
    read: Callable[[bytes, Path], object]
    """Takes the input and an empty folder to put it in."""
    make: Callable[[Random], bytes]
    """A new input."""
    text: bool = False
    changed: bool = True
    """Whether a kept input with something changed is an input too; of some the change could be a
    training of hours.
    """

    def inputs(self, chance: Random, kept: list[bytes]) -> bytes:
        """An input: a new one, or a kept one with something changed."""
        if not kept or not self.changed or chance.random() < 0.6:
            return self.make(chance)
        one = chance.choice(kept)
        if self.text:
            other = _text(chance.choice(kept))
            return grammar.mutated(chance, _text(one), other).encode("utf-8", "surrogatepass")
        return containers.damaged(chance, one)

    def check(self, content: bytes, folder: Path) -> bool:
        """Whether *content* was taken; a finding is raised."""
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                self.read(content, folder)
                taken = True
            except UnbraidError as error:
                taken = False
                message = error.render({"resize", "columns"})
                if not message.strip():
                    raise FindingError("an empty message") from error
                if len(message) > LONGEST_MESSAGE:
                    raise FindingError(f"a message of {len(message):,} characters") from error
        if told:
            raise FindingError(f"a warning: {told[0].category.__name__}: {told[0].message}")
        return taken


def _text(content: bytes) -> str:
    """As Python has a word of the command line: bytes that are no text become surrogates."""
    try:
        return content.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return content.decode("utf-8", "surrogateescape")


def _of_text(name: str, read: Callable[[str], object], make: Callable[[Random], str]) -> Target:
    return Target(
        name,
        lambda content, folder: read(_text(content)),
        lambda chance: make(chance).encode("utf-8", "surrogatepass"),
        text=True,
    )


# Parsers of words


def _named(text: str) -> None:
    name, options = spelling.as_source(text)
    assert isinstance(name, str)
    assert all(isinstance(one, str) for one in options.values())
    spelling.as_named(text)
    spelling.split_names(text)
    spelling.split_names(text, ("mig", "vae"))
    spelling.as_numbers(text)


def _collected(choose: Callable[[Problems], object]) -> None:
    problems = Problems()
    choose(problems)
    problems.raise_if_any()


def _schedule(text: str) -> None:
    if Schedule.looks_like(text):
        found = Schedule.parse(text)
        assert Schedule.parse(str(found)) == found
        found.value(3.0)
        found.ends_within(10)


def _span(text: str) -> None:
    for whole in (False, True):
        found = read_dimension("beta", text, whole=whole)
        if found is None:
            fixed_value(text)
        else:
            values = [found.draw(chance) for chance in (0.0, 0.5, 0.999)]
            assert all(one >= float(found.low) * (1 - 1e-9) for one in values)
            found.move(values[1], 1.2)


def _metrics(text: str) -> None:
    _collected(lambda problems: metric_names(asked(text), problems, labelled=True))


def _likelihood(text: str) -> None:
    found = read_likelihood(text)
    assert read_likelihood(found.name) == found


def _loss(text: str) -> None:
    found = parse_loss(text)
    assert parse_loss(found.name) == found


@functools.cache
def factors_data() -> Any:
    """Drawn images with two factors."""
    return load("sprites", image_size=16, x=5, y=4, scale=1)


def _where(text: str) -> None:
    totals = cumulative_weights(text, factors_data())
    assert totals[-1] == 2**62
    assert (np.diff(totals) >= 0).all()


def _indices(text: str) -> None:
    found = parse_indices(text, 60).tolist()
    for word in text.split(","):
        first, _, end = word.strip().partition(":")
        meant = list(range(int(first), int(end or int(first) + 1)))
        assert meant, "a range without an image"
        assert found[: len(meant)] == meant
        found = found[len(meant) :]
    assert not found


def _numbers(text: str) -> None:
    given = spelling.as_numbers(text)
    _collected(lambda problems: (read_seeds(given, problems), read_rates(given, problems)))


def _data(text: str) -> None:
    source, options = spelling.as_source(text)
    sizes = [number for value in options.values() for number in value.split(",") if len(number) > 3]
    if not sizes:  # what is drawn at once must be small
        load(source, **options)


TEXTS = (
    _of_text("named", _named, grammar.TEXTS["named"]),
    _of_text(
        "flags", lambda t: spelling.parse_extra_options(t.split("\n")), grammar.TEXTS["flags"]
    ),
    _of_text("schedule", _schedule, grammar.TEXTS["schedule"]),
    _of_text("span", _span, grammar.TEXTS["span"]),
    _of_text("where", _where, grammar.TEXTS["where"]),
    _of_text("likelihood", _likelihood, grammar.TEXTS["likelihood"]),
    _of_text("loss", _loss, grammar.TEXTS["loss"]),
    _of_text("indices", _indices, grammar.TEXTS["indices"]),
    _of_text("numbers", _numbers, lambda c: grammar.many(c, grammar.value)),
    _of_text(
        "objective",
        lambda t: _collected(lambda p: choose_objectives(t, {}, p)),
        grammar.TEXTS["objective"],
    ),
    _of_text(
        "prior", lambda t: _collected(lambda p: choose_priors(t, {}, p)), grammar.TEXTS["prior"]
    ),
    _of_text(
        "supervision",
        lambda t: _collected(lambda p: choose_supervisions(t, p)),
        grammar.TEXTS["supervision"],
    ),
    _of_text(
        "network",
        lambda t: _collected(lambda p: choose_network(t, None, p)),
        grammar.TEXTS["network"],
    ),
    _of_text("metrics", _metrics, grammar.TEXTS["metrics"]),
    _of_text("data", _data, grammar.TEXTS["data"]),
)


# Files that people bring


def _put(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def _numpys_own(content: bytes) -> np.ndarray | None:
    """What NumPy makes of an .npy, None where it refuses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stream = io.BytesIO(content)
        try:
            found = np.lib.format.read_array(stream, allow_pickle=False)
        except Exception:
            return None
        return found if stream.tell() == len(content) else None  # it overlooks what follows


def _npy(content: bytes, folder: Path) -> None:
    path = _put(folder, "a.npy", content)
    expected = _numpys_own(content)
    try:
        found = read_npy(path)
    except UnbraidError:
        if expected is not None and expected.nbytes < 10**6:
            raise FindingError("refused what NumPy reads") from None
        raise
    if expected is None or found.dtype != expected.dtype or found.tobytes() != expected.tobytes():
        raise FindingError("read another array than NumPy does")


def _npz(content: bytes, folder: Path) -> None:
    path = _put(folder, "a.npz", content)
    for key in npz_keys(path):
        found = read_npz(path, key)
        with zipfile.ZipFile(path) as archive:
            expected = _numpys_own(archive.read(f"{key}.npy"))  # which checks its checksum
        if expected is None or found.tobytes() != expected.tobytes():
            raise FindingError("read another array than NumPy does")


def _images(name: str) -> Callable[[bytes, Path], None]:
    def read(content: bytes, folder: Path) -> None:
        data = OwnImages(str(_put(folder, name, content)))
        data.images(np.arange(len(data)))
        data.factors(np.arange(len(data)))
        data.fingerprint()

    return read


def _codes(name: str) -> Callable[[bytes, Path], None]:
    def read(content: bytes, folder: Path) -> None:
        path = _put(folder, name, content)
        table = read_codes(path, None, "codes")
        codes = to_numpy(table.codes)
        if codes.ndim == 2 and 2 < len(codes) < 100 and codes.shape[1] < 10:
            labels = np.arange(len(codes)) % 3
            score_codes(codes, labels, "mig", warn=lambda line: None)

    return read


def _csv(content: bytes, folder: Path) -> None:
    table = read_csv(_put(folder, "a.csv", content))
    text = content.decode("utf-8-sig")
    expected = [
        row for row in csv.reader(io.StringIO(text, newline="")) if any(map(str.strip, row))
    ]
    found = table.rows if table.names is None else [list(table.names), *table.rows]
    if found[1:] != expected[1:] or [one.strip() for one in found[0]] != [
        one.strip() for one in expected[0]
    ]:
        raise FindingError("read other cells than Python's csv does")


def _factors(content: bytes, folder: Path) -> None:
    path = _put(folder, "factors.csv", content)
    files = [f"{at:06d}.png" for at in range(12)] if content[:4] == b"file" else None
    table = table_from_file(path, 12, None, files)
    rows = np.column_stack(
        [one[column] for one, column in zip(table.values, table.rows.T, strict=True)]
    )
    if files is None:
        text = content.decode("utf-8-sig")
        kept = [
            row for row in csv.reader(io.StringIO(text, newline="")) if any(map(str.strip, row))
        ]
        expected = [[int(cell.strip().split(".")[0]) for cell in row] for row in kept[1:]]
        if rows.tolist() != expected:
            raise FindingError("read other labels than Python does")


def _factor_array(content: bytes, folder: Path) -> None:
    table = table_from_file(_put(folder, "factors.npy", content), 12, None, None)
    expected = _numpys_own(content)
    found = [one[rows] for one, rows in zip(table.values, table.rows.T, strict=True)]
    if expected is None or (np.column_stack(found) != expected.reshape(12, -1)).any():
        raise FindingError("read other labels than NumPy does")


@functools.cache
def _picture() -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(np.arange(120, dtype=np.uint8).reshape(10, 12)).save(buffer, "PNG")
    return buffer.getvalue()


_KINDS = {
    b"\x89P": "png", b"\xff\xd8": "jpg", b"BM": "bmp", b"GI": "gif", b"II": "tif", b"RI": "webp"
}  # fmt: skip


def _folder(content: bytes, folder: Path) -> None:
    _put(folder, f"a.{_KINDS.get(content[:2], 'png')}", content)
    _put(folder, "b.png", _picture())
    for resize in (None, 8):
        OwnImages(str(folder), resize=resize)


def _column(chance: Random) -> str:
    known = chance.choice(("x", "y", "shape", "0", "1", "name", "a,b", " x"))
    return known if chance.random() < 0.8 else grammar.word(chance).replace("\n", " ")


def _columns(content: bytes, folder: Path) -> None:
    words, _, text = content.partition(b"\n")
    path = _put(folder, "a.csv", text)
    read_codes(path, _text(words), "labels")


FILES = (
    Target("npy", _npy, containers.npy),
    Target("npz", _npz, containers.npz),
    Target("npy_images", _images("a.npy"), containers.npy),
    Target("npz_images", _images("a.npz"), containers.npz),
    Target("npy_codes", _codes("a.npy"), containers.npy),
    Target("npz_codes", _codes("a.npz"), containers.npz),
    Target("npy_factors", _factor_array, containers.npy),
    Target("csv", _csv, containers.csv_table),
    Target("csv_factors", _factors, containers.csv_table),
    Target("csv_codes", _codes("a.csv"), containers.csv_table),
    Target(
        "csv_columns",
        _columns,
        lambda c: (
            grammar.many(c, _column).encode("utf-8", "surrogatepass")
            + b"\n"
            + containers.csv_table(c)
        ),
    ),
    Target("parquet_codes", _codes("a.parquet"), containers.table),
    Target("picture", _folder, containers.picture),
)


# Files of our own folders, in a folder that is otherwise whole


def _in_run(folder: Path) -> None:
    run = open_run(folder, device="cpu")
    run.summary()
    _ = run.members, run.history
    run.folder.results()
    CodeStore(run.folder).load(0)
    stored_scores(run.folder)


def _in_search(folder: Path) -> None:
    run = SearchRun.open(folder)
    _ = run.dataset, run.finished
    _ = run.lineage
    RunFolder.open(folder).results()


def _in_recursion(folder: Path) -> None:
    run = Recursion.open(folder)
    _ = run.dataset, run.finished


def _in_discovery(folder: Path) -> None:
    read_object(folder / "discovery.json", "a discovery", DiscoveryPlan.from_record, "Again.")


def _in_perturbed(folder: Path) -> None:
    data = load(str(folder))
    data.images(np.arange(3))
    data.fingerprint()


_CHECKPOINT = "checkpoint/members-00000-00000.step-000000060.safetensors"
_FORGED: tuple[tuple[str, str, str, Callable[[Path], object]], ...] = (
    ("plan", "run_finished", "plan.json", _in_run),
    ("checkpoint", "run_finished", _CHECKPOINT, _in_run),
    ("code_file", "run_finished", "codes/member-00000.safetensors", _in_run),
    ("members_table", "run_finished", "members.parquet", _in_run),
    ("scores_table", "run_finished", "scores.parquet", _in_run),
    ("search", "pbt_finished", "search.json", _in_search),
    ("lineage_table", "pbt_finished", "lineage.parquet", _in_search),
    ("perturbed", "perturbed", "perturbed.json", _in_perturbed),
    ("pattern", "perturbed", "perturbation.safetensors", _in_perturbed),
)
_ALONE: tuple[tuple[str, str, Callable[[Path], object]], ...] = (
    ("recursion", "rpu_finished/recursion.json", lambda path: _in_recursion(path.parent)),
    ("discovery", "discover_finished/discovery.json", lambda path: _in_discovery(path.parent)),
    ("labels", "rpu_finished/root/labels.safetensors", Labelling.load),
    ("surrogates", "rpu_finished/final-1/surrogates.safetensors", read_surrogates),
)
_MAKERS = {
    ".json": containers.record_like,
    ".safetensors": containers.tensors_like,
    ".parquet": containers.own_table_like,
}


def _forged(name: str, folder: str, file: str, read: Callable[[Path], object]) -> Target:
    """A file in a folder that is whole otherwise."""
    whole = containers.LEGACY / folder / file

    def check(content: bytes, place: Path) -> None:
        copy = place / folder
        shutil.copytree(containers.LEGACY / folder, copy, copy_function=_linked)
        (copy / file).unlink()
        (copy / file).write_bytes(content)
        read(copy)

    return Target(name, check, _later(_MAKERS[whole.suffix], whole))


def _alone(name: str, file: str, read: Callable[[Path], object]) -> Target:
    """A file that is read without the others of its folder."""
    whole = containers.LEGACY / file

    def check(content: bytes, place: Path) -> None:
        read(_put(place, whole.name, content))

    return Target(name, check, _later(_MAKERS[whole.suffix], whole))


def _linked(source: str, copy: str) -> str:
    Path(copy).symlink_to(source)
    return copy


def _later(make: Callable[[bytes], Callable[[Random], bytes]], whole: Path) -> Any:
    ready = functools.cache(lambda: make(whole.read_bytes()))
    return lambda chance: ready()(chance)


def _json(content: bytes, folder: Path) -> None:
    store.read_json(_put(folder, "a.json", content))


def _tensors(content: bytes, folder: Path) -> None:
    path = _put(folder, "a.safetensors", content)
    refused = None
    for read in (lambda: (store.read_about(path),), lambda: store.read_tensors(path)[::-1]):
        try:
            about, *tensors = read()
        except UnbraidError as error:
            refused = error
        else:
            assert isinstance(about, dict)
            assert all(isinstance(one, torch.Tensor) for found in tensors for one in found.values())
    if refused is not None:
        raise refused


def _table(content: bytes, folder: Path) -> None:
    path = _put(folder, "a.parquet", content)
    about = store.read_about_table(path)
    assert isinstance(about, dict)
    store.read_table(path, {"plan": "x", "table": "members.parquet"})


OWN = (
    Target("json", _json, containers.json_text),
    Target(
        "tensors",
        _tensors,
        _later(containers.tensors_like, containers.LEGACY / "perturbed/perturbation.safetensors"),
    ),
    Target(
        "table",
        _table,
        _later(containers.own_table_like, containers.LEGACY / "run_finished/members.parquet"),
    ),
    *(_forged(*one) for one in _FORGED),
    *(_alone(*one) for one in _ALONE),
)


# Published files, as `data add --unverified` reads them


@functools.cache
def _official(name: str) -> tuple[Any, dict[str, bytes]]:
    """The shrunk source and its files, by their places."""
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        source = small_source(name, Path(place))
        return source, {
            str(path.relative_to(place)): path.read_bytes()
            for path in sorted(Path(place).rglob("*"))
            if path.is_file()
        }


def _published(name: str) -> Target:
    """The first byte of an input says which of the files it takes the place of."""

    def read(content: bytes, folder: Path) -> None:
        source, files = _official(name)
        reader = published(name)
        before = reader.source
        reader.source = source
        chosen = list(files)[content[0] % len(files)] if content else ""
        for file, usual in files.items():
            (folder / file).parent.mkdir(exist_ok=True, parents=True)
            (folder / file).write_bytes(content[1:] if file == chosen else usual)
        try:
            given = folder / chosen if len(source.files) == 1 and "/" not in chosen else folder
            found = reader.read(reader.locate(given))
            for block in found.blocks:
                assert block.shape[1:] == found.shape[1:]
        finally:
            reader.source = before

    def make(chance: Random) -> bytes:
        _, files = _official(name)
        at = chance.randrange(len(files))
        content = list(files.values())[at]
        if content[:2] == b"\x1f\x8b" and chance.random() < 0.7:
            import gzip

            content = gzip.compress(containers.damaged(chance, gzip.decompress(content)), 1)
        elif content[:2] == b"PK" and chance.random() < 0.7:
            content = _repacked(chance, content)
        else:
            content = containers.damaged(chance, content)
        return bytes([at]) + content

    return Target(f"published_{name}", read, make)


def _repacked(chance: Random, content: bytes) -> bytes:
    """A zip whose members are damaged and have right checksums."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(buffer, "w") as new:
        for name in old.namelist():
            if chance.random() < 0.9:
                inside = old.read(name)
                changed = chance.random() < 0.5
                new.writestr(
                    name,
                    containers.damaged(chance, inside[:500]) + inside[500:] if changed else inside,
                )
    return buffer.getvalue()


PUBLISHED = tuple(map(_published, OFFICIAL))
TARGETS = {one.name: one for one in (*TEXTS, *FILES, *OWN, *PUBLISHED)}
