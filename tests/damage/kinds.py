# SPDX-License-Identifier: Apache-2.0
"""The kinds of folder there are, how one is made, and the commands that read it.

Places in words: `{f}` is the folder that is damaged, `{home}` where everything lies, `{out}` a new
place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

SPRITES = "sprites:image_size=28,x=8,y=6,scale=1"
_TRAINED = ("--network", "mlp:hidden=16", "--latents", "3", "--batch-size", "8", "--steps", "2")


@dataclass(frozen=True)
class Verb:
    """One command that reads a folder."""

    words: str
    unchecked: bool = False
    """Whether it meets data for the first time, of which nothing is known that could be compared.
    """
    function: str = ""
    """Instead of a command: a function of `making.py`."""
    shows_absence: bool = False
    """Whether it tells what is left to do, so that a file less is another result."""
    results: tuple[str, ...] = ()
    """Files that it looks after: right when it has ended, whatever lay there."""


@dataclass(frozen=True)
class Kind:
    """One kind of folder."""

    name: str
    make: tuple[tuple[str, ...], ...]
    """Functions of `making.py`, or commands, that make it and what lies beside it."""
    verbs: tuple[Verb, ...]
    other: tuple[tuple[str, ...], ...] = ()
    """The same for a folder like it, at `{other}`, whose files can be copied over."""
    damaged: tuple[str, ...] = ("**/*",)
    """Which files are, as patterns."""
    slow: bool = False
    """Whether its making takes seconds, so that only the whole matrix has it."""


SCORE = Verb("score {f} --metrics mig,sap,elbo --device cpu")
REPORT = Verb("report {f}")
REPORT_OUT = Verb("report {f} --out {out}/page.html")
RESUME = Verb("resume {f} --device cpu")
RESUME_SEARCH = replace(RESUME, results=("pbt.html",))
RESUME_DISCOVERY = replace(RESUME, results=("discover.html", "codes.parquet", "codes.csv"))
OPEN = Verb("{f}", function="opened")


def own(name: str, source: str, make: tuple[str, ...], *files: str) -> Kind:
    """Own data, and a run that was trained on it."""
    return Kind(
        name,
        (make, ("own_run", source, "{home}/run-" + name)),
        (
            Verb(f"data info {source}", unchecked=True),
            Verb(f"train {source} beta_vae {' '.join(_TRAINED)} --out {{out}}/run", unchecked=True),
            Verb("score {home}/run-" + name + " --metrics mig,sap --device cpu"),
            Verb("resume {home}/run-" + name + " --steps 8 --device cpu"),
            Verb("report {home}/run-" + name),
        ),
        damaged=files,
    )


KINDS: tuple[Kind, ...] = (
    Kind(
        "run",
        (("finished_run", "{f}"),),
        (SCORE, REPORT, REPORT_OUT, RESUME, OPEN, Verb("resume {f} --steps 24 --device cpu")),
        other=(("finished_run", "{other}", "7"),),
    ),
    Kind(
        "stopped-run",
        (("stopped_run", "{f}"),),
        (RESUME, SCORE, REPORT),
        other=(("stopped_run", "{other}", "7"),),
    ),
    Kind(
        "pbt",
        (("finished_search", "{f}"),),
        (RESUME_SEARCH, SCORE, REPORT, OPEN),
        other=(("finished_search", "{other}", "7"),),
    ),
    Kind(
        "stopped-pbt",
        (("stopped_search", "{f}"),),
        (RESUME, SCORE),
        other=(("stopped_search", "{other}", "7"),),
    ),
    Kind(
        "rpu",
        (("finished_recursion", "{f}"),),
        (
            replace(RESUME, results=("rpu.html", "root/pbt.html")),
            Verb("score {f}/final-1 --metrics mig,sap --device cpu"),
        ),
        other=(("finished_recursion", "{other}", "2"),),
        slow=True,
    ),
    Kind("stopped-rpu", (("stopped_recursion", "{f}"),), (RESUME,), slow=True),
    Kind(
        "discover",
        (("discovery", "sprites", "{f}"),),
        (RESUME_DISCOVERY, Verb("score {f}/models --metrics unsupervised --device cpu")),
        other=(("discovery", "sprites", "{other}", "0", "7"),),
        slow=True,
    ),
    Kind(
        "discover-parts",
        (("images", "{home}/images"), ("discovery", "{home}/images", "{f}", "1")),
        (RESUME_DISCOVERY,),
        slow=True,
    ),
    # With models and without a page, so that what it says is found again; what of the models is
    # made again is as today's code writes it.
    Kind(
        "legacy-discover",
        (("legacy", "discover_finished", "{f}"),),
        (RESUME_DISCOVERY,),
        damaged=("*",),
    ),
    Kind("stopped-discover", (("stopped_discovery", "sprites", "{f}"),), (RESUME,), slow=True),
    Kind(
        "reduce",
        (
            ("reduction", "{f}"),
            ("subset_run", "{f}/kept.npy", "{home}/run-reduce"),
        ),
        (
            Verb("score {home}/run-reduce --metrics mig,sap --device cpu"),
            Verb("resume {home}/run-reduce --device cpu"),
        ),
        damaged=("kept.npy",),
    ),
    Kind(
        "perturb",
        (
            ("finished_run", "{home}/run-perturb"),
            (
                "unbraid",
                f"perturb {SPRITES} --from {{home}}/run-perturb --member 0 --out {{f}}",
            ),
            ("own_run", "{f}", "{home}/run-on-perturbed"),
        ),
        (
            Verb("data info {f}"),
            Verb(f"train {{f}} beta_vae {' '.join(_TRAINED)} --out {{out}}/run"),
            Verb("score {home}/run-on-perturbed --metrics mig,sap --device cpu"),
        ),
        other=(
            (
                "unbraid",
                f"perturb {SPRITES} --from {{home}}/run-perturb --member 1 --out {{other}}",
            ),
        ),
    ),
    Kind(
        "data-home",
        (("shapes", "{f}"), ("own_run", "shapes3d", "{home}/run-shapes")),
        (
            Verb("data info shapes3d --check"),
            Verb("train shapes3d beta_vae " + " ".join(_TRAINED) + " --out {out}/run"),
            Verb("data export shapes3d --out {out}/shapes.npz"),
            Verb("score {home}/run-shapes --metrics mig,sap --device cpu"),
            Verb("resume {home}/run-shapes --device cpu"),
        ),
    ),
    Kind(
        "study",
        (("study", "{f}"),),
        (
            Verb("study check toy --scale small --results {f}", shows_absence=True),
            Verb(
                "study report toy --scale small --results {f} --out {out}/page.html",
                shows_absence=True,
            ),
            Verb(
                "study run toy --scale small --results {f} --device cpu --list", shows_absence=True
            ),
            Verb("study run toy --scale small --results {f} --device cpu", shows_absence=True),
        ),
    ),
    Kind(
        "stopped-study",
        (("stopped_study", "{f}"),),
        (Verb("study run toy --scale small --results {f} --device cpu"),),
        damaged=(".work/**/*",),
        slow=True,
    ),
    own(
        "folder",
        "{f}",
        ("images", "{f}", "12"),
        *("factors.csv", "im000.png", "im007.png", "im008.png"),
    ),
    own("npz", "{f}/all.npz", ("arrays", "{f}"), "all.npz"),
    own(
        "npy",
        "{f}/images.npy:factors={f}/labels.npy",
        ("arrays", "{f}"),
        *("images.npy", "labels.npy"),
    ),
)
