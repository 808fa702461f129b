# SPDX-License-Identifier: Apache-2.0
"""Every verb of the command line with right, odd and hostile words, and what must hold after it.

The exit code is 0, 1, 2 or 130. What goes wrong is one message, without a traceback or a warning of
Python's. Nothing is written but to what the words name, and a request that is refused leaves
nothing behind. Values that decide how long something trains are small or wrong, never large and
right.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import random
import re
import shutil
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from tests.fuzz import containers, grammar
from tests.fuzz.targets import LONGEST_MESSAGE, FindingError, Target

from unbraid.commands import command_line
from unbraid.commands.verb import Verb

Random = random.Random
SPRITES = "sprites:image_size=16,x=4,y=4,scale=1"
OUT = (
    "new",
    "new/deep",
    "full",
    "a.npy",
    "codes.csv",
    "new.npz",
    "new.csv",
    "new.parquet",
    "new.html",
)
_NEVER = re.compile(r"Traceback|\w+Warning|\w+Error\b|object at 0x")
_WRONG_NUMBERS = (
    "0",
    "-1",
    "nan",
    "inf",
    "1e999",
    "0.5",
    "x",
    "",
    "1,2",
    "true",
    "²",
    "1e99",
    "9" * 30,
)


@functools.cache
def _verbs() -> dict[str, Verb]:
    return {verb.name: verb for verb in command_line.describe()}


def _length(right: tuple[str, ...]) -> Callable[[Random], str]:
    """A number that decides how long something takes: small, or wrong."""
    return lambda chance: chance.choice(right if chance.random() < 0.8 else _WRONG_NUMBERS)


def _one_of(*words: str) -> Callable[[Random], str]:
    return lambda chance: chance.choice(words) if chance.random() < 0.93 else grammar.word(chance)


_DATA = _one_of(
    *(SPRITES, SPRITES, SPRITES, "images", "images:resize=8", "a.npy", "b.npz", "gone", "full"),
    "odd.npz",
    *("odd.npy", "sprites:x=0", "xysquares:spacing=9", "pinwheel:samples=9", "subset:of=sprites"),
    "run",
    *("codes.csv", ".", "/", "b.npz:images=gone", "b.npz:factors=factors"),
    "images:factors=odd.csv",
)
_FILE = _one_of(
    *("a.npy", "b.npz", "codes.csv", "labels.csv", "odd.csv", "odd.npy", "odd.npz", "odd.parquet"),
    "codes.npy",
    *("labels.npy", "gone.npy", "images", "full", ".", "codes.parquet", "run"),
)
_FOLDER = _one_of("run", "run", "images", "gone", "full", "a.npy", ".", "/", "pbt", "perturbed", "")
_TINY_NETWORK = _one_of("mlp:hidden=4", "mlp:hidden=4", "conv", "mlp:hidden=0", "mlp:hidden=1e9")

VALUES: dict[str, Callable[[Random], str]] = {
    "data": _DATA,
    "images": _DATA,
    "labels": _FILE,
    "codes": _FILE,
    "factors": _FILE,
    "logvar": _FILE,
    "reconstruction": _FILE,
    "file": _FILE,
    "folder": _FOLDER,
    "run": _FOLDER,
    "from_": _FOLDER,
    "results": _one_of("new", "full", "a.npy"),
    "work": _one_of("new", "a.npy"),
    "out": _one_of(*OUT),
    "objective": _one_of("beta_vae", "vae", "factor_vae:gamma=2,3", "ada_gvae", "vae,ae", "-", "4"),
    "network": _TINY_NETWORK,
    "likelihood": grammar.likelihood,
    "prior": grammar.TEXTS["prior"],
    "supervision": grammar.TEXTS["supervision"],
    "where": grammar.where,
    "metrics": lambda c: grammar.many(
        c, _one_of("mig", "sap", "modularity", "mig:bins=3", "dci:seed=1")
    ),
    "score": _one_of("mig", "udr", "usual", "active_units"),
    "learning_rate": lambda c: grammar.value(c),
    "batch_size": _length(("2", "4", "8", "2,4", "2..8")),
    "steps": _length(("1", "2", "3")),
    "seeds": _length(("1", "2", "0,1", "7")),
    "latents": _length(("1", "2", "3")),
    "code_samples": _length(("2", "20", "1000")),
    "checkpoint_seconds": _length(("0", "1", "60")),
    "minutes": _length(("-1", "0")),
    "population": _length(("2", "5")),
    "models": _length(("1", "2")),
    "epochs": _length(("1",)),
    "epoch_images": _length(("8", "16")),
    "first_factor": _length(("1",)),
    "leaf_runs": _length(("0", "1")),
    "levels": _length(("1",)),
    "leaf_images": _length(("8",)),
    "final_population": _length(("2", "5")),
    "final_epochs": _length(("1",)),
    "pairs": _length(("2", "20")),
    "samples": _length(("3", "12", "15000")),
    "count": _length(("2", "5")),
    "resize": _length(("8", "16")),
    "indices": grammar.indices,
    "columns": lambda c: grammar.many(c, _one_of("x", "y", "z0", "z1", "name", "0")),
    "loss": grammar.likelihood,
    "member": _length(("0", "1", "2")),
    "index": _length(("0", "1", "2")),
    "device": _one_of("cpu", "cpu", "cpu", "auto", "cuda", "cuda:9", "meta", "mps"),
    "precision": _one_of("float32", "bfloat16", "auto"),
    "convention": _one_of("sum", "mean"),
    "representation": _one_of("mean", "sampled", "mean,sampled"),
    "noise": _one_of("pattern", "uniform"),
    "kind": _one_of(
        "data", "metrics", "objectives", "priors", "networks", "studies", "supervisions"
    ),
    "scale": _one_of("small", "gpu", "paper"),
    "slices": grammar.word,
    "pool": grammar.word,
}
_USUAL = {
    "train": ("--steps", "2", "--network", "mlp:hidden=4", "--batch-size", "4", "--out", "new"),
    "discover": ("--steps", "2", "--population", "5", "--models", "2", "--out", "new"),
    "pbt": (
        *("--population", "2", "--epochs", "1", "--epoch-images", "8", "--network", "mlp:hidden=4"),
        *("--out", "new"),
    ),
    "rpu": (
        *("--population", "2", "--epochs", "1", "--epoch-images", "8", "--network", "mlp:hidden=4"),
        *("--final-population", "2", "--final-epochs", "1", "--leaf-images", "8", "--out", "new"),
    ),
    "distances": ("--pairs", "5", "--out", "new"),
    "crossings": ("--out", "new.html"),
    "explore": ("--out", "new.html"),
    "reduce": ("--out", "new"),
    "perturb": ("--out", "new"),
    "data show": ("--out", "new.html"),
    "data export": ("--out", "new.npz"),
    "study run": ("--list",),
    "study report": ("--out", "new.html", "--results", "new"),
}
_BROKEN = {"discover", "pbt", "rpu"}
"""What trains for seconds even where all is small: one of its words is always wrong."""
_TOO_LONG = {"gallery", "demo"}
"""What has hardly an option and draws or trains for a minute: only its words are tried."""


def words(chance: Random) -> list[str]:
    """A command."""
    name = chance.choice(list(_verbs()))
    verb = _verbs()[name]
    flags = dict(zip(_USUAL.get(name, ())[::2], _USUAL.get(name, ())[1::2], strict=False))
    given = [VALUES.get(one.name, grammar.word)(chance) for one in verb.options if one.argument]
    if chance.random() < 0.1:
        given = given[: chance.choice((0, 1))]
    others = [one for one in verb.options if not one.argument]
    for one in chance.sample(others, min(len(others), chance.choice((0, 1, 1, 2, 3)))):
        made = VALUES.get(
            one.name, grammar.number if one.kind in ("INTEGER", "FLOAT") else grammar.word
        )
        flags["--" + one.name.rstrip("_").replace("_", "-")] = made(chance) if one.kind else ""
    if name == "study run" or name in _TOO_LONG:
        flags[chance.choice(("--nonsense", "--out"))] = ""
        flags["--list" if name == "study run" else "--seeds"] = "" if name == "study run" else "x"
    flags.pop("--watch", None)  # it ends with the run that it watches, or never
    if name in _BROKEN:
        flags[chance.choice(("--population", "--epochs", "--latents", "--seed"))] = "-1"
    if verb.objective and chance.random() < 0.3:
        flags |= {f"--{chance.choice(grammar.OPTIONS[:5])}": grammar.value(chance)}
    listed = [part for flag, text in flags.items() for part in ((flag, text) if text else (flag,))]
    made = [*name.split(), *given, *listed]
    if chance.random() < 0.1:
        at = chance.randrange(len(made))
        made[at] = grammar.mutated(chance, made[at])
    # A process is given no null byte, and nothing that cannot be a name of a file.
    clean = [one.replace("\0", "").encode("utf-8", "replace").decode()[:3000] for one in made]
    return clean if _is_small(clean) else [name.split()[0], "--help"]


def _is_small(made: list[str]) -> bool:
    """Whether no dataset in it is drawn at a size of its own, which may be right and large."""
    return not any(
        one in grammar.DATA
        or (
            one != SPRITES
            and one.partition(":")[0] in grammar.DATA
            and re.search("[0-9]{3}|e", one)
        )
        for one in made
    )


def furnish(folder: Path) -> None:
    """Put files of all kinds where commands run, some of them odd."""
    from PIL import Image

    chance, numbers = Random(str(folder.name)), np.random.default_rng(0)
    codes, labels = numbers.normal(size=(16, 3)), numbers.integers(0, 3, (16, 2))
    images = numbers.integers(0, 255, (16, 16, 16), dtype=np.uint8)
    np.save(folder / "a.npy", images)
    np.save(folder / "codes.npy", codes)
    np.save(folder / "labels.npy", labels)
    np.savez(folder / "b.npz", images=images, factors=labels)
    (folder / "codes.csv").write_text(
        "z0,z1,z2\n" + "\n".join(",".join(map(str, row)) for row in codes.tolist())
    )
    (folder / "labels.csv").write_text(
        "x,y\n" + "\n".join(",".join(map(str, row)) for row in labels.tolist())
    )
    (folder / "images").mkdir()
    for at, image in enumerate(images[:12]):
        Image.fromarray(image).save(folder / f"images/{at:06d}.png")
    (folder / "full").mkdir()
    (folder / "full/mine.txt").write_text("mine")
    for name, make in (
        *(
            ("odd.csv", containers.csv_table),
            ("odd.npy", containers.npy),
            ("odd.npz", containers.npz),
        ),
        ("odd.parquet", containers.table),
    ):
        (folder / name).write_bytes(make(chance))
    for name, kept in (
        ("run", "run_finished"),
        ("pbt", "pbt_finished"),
        ("perturbed", "perturbed"),
    ):
        shutil.copytree(containers.LEGACY / kept, folder / name)


def _files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in sorted(folder.rglob("*"))
    }


@contextlib.contextmanager
def _standing_in(folder: Path, argv: list[str]) -> Iterator[io.StringIO]:
    """In *folder*, with *argv*; gives what stands on standard error."""
    out, err = io.StringIO(), io.StringIO()
    before, place = sys.argv, Path.cwd()
    handlers = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGHUP)}
    os.chdir(folder)
    sys.argv = ["unbraid", *argv]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            yield err
    finally:
        sys.argv = before
        os.chdir(place)
        for one, handler in handlers.items():
            signal.signal(one, handler)


def check(content: bytes, folder: Path) -> int:
    """Run the command whose words stand in *content*; the exit code, or a finding."""
    argv = content.decode("utf-8", "replace").replace("\0", "").split("\x1f")
    if not _is_small(argv):
        return 2
    place = folder / "here"
    place.mkdir()
    furnish(place)
    beside = _files(folder)
    os.environ["UNBRAID_DATA"] = str(folder / "home")
    with warnings.catch_warnings(record=True) as told, _standing_in(place, argv) as err:
        warnings.simplefilter("always")
        try:
            command_line.main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
    warned = [
        one for one in told if not issubclass(one.category, (ResourceWarning, DeprecationWarning))
    ]
    if warned:
        raise FindingError(f"a warning: {warned[0].category.__name__}: {warned[0].message}")
    if code not in (0, 1, 2, 130):
        raise FindingError(f"exit code {code}")
    said = err.getvalue()
    if found := _NEVER.search(said):
        raise FindingError(f"on standard error: {said[max(0, found.start() - 100) :][:300]}")
    if len(said) > LONGEST_MESSAGE:
        raise FindingError(f"a message of {len(said):,} characters")
    if code and len(re.findall(r"^(?:unbraid|Error): ", said, re.MULTILINE)) != 1:
        raise FindingError(f"not one message, but {said[:300]!r}")
    after = _files(folder)
    changed = {name for name in beside if after.get(name) != beside[name]}
    added = {name for name in after if name not in beside}
    if code == 2 and (changed | added):
        raise FindingError(f"refused, and yet wrote {sorted(changed | added)[:5]}")
    folders = ("run", "pbt", "runs", "reductions", "distances", "perturbed")
    named = [f"here/{one}" for one in (*OUT, *folders, *(word.rpartition("=")[2] for word in argv))]
    strays = [
        name
        for name in changed | added
        if not any(name == one or name.startswith((f"{one}/", f"{one}-")) for one in named)
        and not name.startswith("home")
    ]
    if strays:
        raise FindingError(f"wrote {sorted(strays)[:5]}")
    if gone := [name for name in changed if name not in after and not name.startswith("here/run")]:
        raise FindingError(f"removed {gone[:5]}")
    return code


def make(chance: Random) -> bytes:
    """A command as bytes: its words with a separator that no word has."""
    return "\x1f".join(one.replace("\x1f", "") for one in words(chance)).encode()


TARGET = Target("command", check, make, changed=False)
