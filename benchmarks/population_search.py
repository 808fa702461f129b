# SPDX-License-Identifier: Apache-2.0
"""Does population-based training find good models, with labels and without? dSprites on a GPU
(Estermann et al. 2020).

    python benchmarks/population_search.py probe --out FOLDER
    python benchmarks/population_search.py supervised --out FOLDER
    python benchmarks/population_search.py leaf --runs RUNS --out FOLDER
    python benchmarks/population_search.py final --runs RUNS --out FOLDER
    python benchmarks/population_search.py table --codes FOLDER
        [--results benchmarks/results/population_search.json]
    python benchmarks/population_search.py lineage --setting published --seeds 1 --out FOLDER

`probe` measures seconds of an epoch and of what lies between epochs; `supervised` compares PBT by
MIG with random search at equal model-steps; `leaf` does PBT by UDR on all images, a reduction and
the next level; `final` goes on with RUNS to final populations with 0 and 1 leaf-run; `lineage`
draws docs/lineage.png.

The data is dSprites with every second x and y: 16 x 16 positions, 6 scales, 40 orientations, 3
shapes, 184,320 images. The network is Burgess', the objective β-TCVAE with 10 latents; batch sizes
evolve between 32 and 64, learning rates and β in the ranges of the setting (`--setting`, below).
What was trained goes to one file a seed (`.npz`: the winner's codes of 15,000 images, lineage,
stages). `table` adds DCI.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

CODE_SAMPLES = 15_000
RESULTS = Path(__file__).parent / "results" / "population_search.json"
COMMON: dict[str, Any] = {
    "objective": "beta_tcvae",
    "batch_size": [32, 64],
    "network": "conv_burgess",
    "latents": 10,
    "checkpoint_seconds": 3600.0,
}
SUPERVISED: dict[str, dict[str, Any]] = {
    "wide": {"epochs": 8, "learning_rate": "1e-5..1e-2", "hyper": {"beta": "1..200"}},
    "published": {"epochs": 12, "learning_rate": "published", "hyper": {"beta": "published"}},
}
for _setting in SUPERVISED.values():
    _setting |= {"score": "mig", "population": 12, "epoch_images": 60_000}
RECURSION: dict[str, dict[str, Any]] = {
    "low": {"epoch_images": 200_000, "final_population": 8, "hyper": {"beta": "2..60"}},
    "high": {"epoch_images": 150_000, "final_population": 12, "hyper": {"beta": "80..437"}},
}
for _setting in RECURSION.values():
    _setting |= {
        "population": 10,
        "models": 5,
        "epochs": 7,
        "leaf_runs": 1,
        "levels": 2,
        "leaf_images": 60_000,
        "final_epochs": 5,
        "every_final": True,
        "learning_rate": "2e-4..2e-3",
    }
TOY: dict[str, Any] = {
    "network": "mlp",
    "network_options": {"hidden": 16},
    "batch_size": [32, 64],
    "latents": 4,
}


def every_second(dataset: Any) -> Any:
    """The dSprites with every second x and y."""
    from unbraid.data.subset import Subset

    values = dataset.factors(np.arange(len(dataset)))
    x, y = (values[:, dataset.factor_names.index(name)] for name in ("x", "y"))
    return Subset(dataset, np.flatnonzero((x % 2 == 0) & (y % 2 == 0)))


def data(toy: bool) -> Any:
    """What is trained on: the reduced dSprites, or a small drawn set for a trial."""
    from unbraid.data import load

    if toy:
        from unbraid.data.subset import Subset

        whole = load("sprites", image_size=28, x=8, y=6, scale=4, scale_min=0.12, scale_max=0.3)
        return Subset(whole, np.arange(20, len(whole)))
    return every_second(load("dsprites"))


def information(codes: Any, factors: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """MIG, and for each latent the share of each factor's entropy it knows."""
    from unbraid.metrics import mig

    found = mig(codes, factors)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.nan_to_num(found.mutual_information / found.factor_entropy)
    return {"mig": found.score, "shares": shares.round(4).tolist(), "factors": list(names)}


def winner_codes(search: Any, device: Any, member: int | None = None) -> tuple[Any, Any]:
    """Codes of 15,000 images by the winner's model(s), and their factors."""
    from unbraid.codes.codes import recorded_sample
    from unbraid.codes.encode import encode_run

    indices = recorded_sample(len(search.dataset), CODE_SAMPLES, 12345)
    mean, _ = encode_run(search.winner(), device, indices, member)
    return mean, search.dataset.factors(indices)


def say_epochs(name: str, began: float) -> Any:
    """Prints a line an epoch."""
    return lambda told: print(
        f"{name}: epoch {told['epoch'] + 1}, best {told['best']:.4f},"
        f" {time.perf_counter() - began:.0f} s",
        flush=True,
    )


def train_supervised(seed: int, out: Path, toy: bool, images: Any, setting: str) -> None:
    """PBT by MIG and random search with one seed."""
    import torch

    from unbraid.population.devices import choose_device, usual_precision
    from unbraid.search.pbt.make_search import make_search
    from unbraid.search.pbt.search import SearchRun

    device, names = choose_device("auto"), images.factor_names
    for kind, share in (("pbt", 0.2), ("random", 0.0)):
        options = {
            **COMMON,
            **SUPERVISED[setting],
            **(TOY | {"population": 6, "epochs": 3, "epoch_images": 2_000} if toy else {}),
        }
        options["precision"] = usual_precision(device)
        search, dataset = make_search(images, seed=seed, share=share, **options)
        folder, began = Path(tempfile.mkdtemp()), time.perf_counter()
        run = SearchRun.create(folder / "run", search, dataset)
        run.train(device, on_epoch=say_epochs(f"{kind} {seed}", began), warn=print)
        took = time.perf_counter() - began
        codes, factors = winner_codes(run, device)
        about = {
            "kind": kind,
            "setting": setting,
            "seed": seed,
            "seconds": took,
            "winner": run.winner_record(),
            **information(codes[0], factors, names),
            "population": search.population,
            "epochs": search.epochs,
            "epoch_images": search.epoch_images,
            "device": torch.cuda.get_device_name() if device.type == "cuda" else "CPU",
            "images": len(dataset),
            "lineage": json.loads(run.lineage.to_json(orient="records")),
        }
        print(
            f"{kind} {seed}: MIG {about['mig']:.4f} (in the search {about['winner']['score']:.4f}),"
            f" {took:.0f} s",
            flush=True,
        )
        np.savez_compressed(
            out / f"{kind}-{setting}-{seed}.npz",
            about=json.dumps(about),
            codes=codes.astype(np.float32),
            factors=factors,
        )
        shutil.rmtree(folder)


def train_recursion(
    seed: int, out: Path, toy: bool, images: Any, setting: str, runs: Path, finals: bool
) -> None:
    """A recursion with one seed: root and a leaf-run, and where *finals* the final populations
    without and with it.
    """
    import torch

    from unbraid.population.devices import choose_device, usual_precision
    from unbraid.search.pbt.search import SearchOutcome
    from unbraid.search.reduce.reduction import ReductionRule
    from unbraid.search.rpu.labelling import label
    from unbraid.search.rpu.plan import make_recursion
    from unbraid.search.rpu.recursion import Recursion
    from unbraid.search.rpu.stages import Stage, StageKind

    device, names = choose_device("auto"), images.factor_names
    options = {**COMMON, **RECURSION[setting]}
    if toy:
        options |= TOY | {
            "population": 5,
            "models": 2,
            "epochs": 3,
            "epoch_images": 3_000,
            "leaf_images": 2_000,
            "final_population": 5,
        }
        # A rule that cuts anything, so that the leaf-run is seen to run.
        options |= {
            "final_epochs": 2,
            "reduction": ReductionRule(chance=None, peak_deviations=0.5, fewest_images=3),
        }
    options["precision"] = usual_precision(device)
    plan, dataset = make_recursion(images, seed=seed, **options)
    folder, began = runs / f"{setting}-{seed}", time.perf_counter()
    run = (
        Recursion.open(folder, dataset)
        if Recursion.is_recursion(folder)
        else Recursion.create(folder, plan, dataset)
    )
    every, stages, arrays = dataset.factors(np.arange(len(dataset))), [], {}

    def train_stage(stage: Stage, search: Any) -> Any:
        if stage.kind is StageKind.FINAL and not finals:
            return SearchOutcome(False)
        name = stage.name
        start = time.perf_counter()
        outcome = search.train(
            device, on_epoch=say_epochs(f"{name} of seed {seed}", began), warn=print
        )
        entry: dict[str, Any] = {
            "stage": name,
            "images": len(search.dataset),
            "seconds": time.perf_counter() - start,
            "ended": outcome.why,
        }
        entry |= {
            "winner": search.winner_record(),
            "lineage": json.loads(search.lineage.to_json(orient="records")),
        }
        part = getattr(search.dataset, "indices", None)
        if stage.kind is StageKind.LEAF:
            own = search.dataset.factors(np.arange(len(search.dataset)))
            entry["variance_left"] = dict(
                zip(names, (own.var(axis=0) / every.var(axis=0)).round(5).tolist(), strict=True)
            )
        member = None
        if stage.kind is not StageKind.FINAL:
            found = label(search, device)
            entry |= {
                "active": list(found.latents),
                "kl": found.kl_per_latent.round(3).tolist(),
                "model": found.model,
            }
            entry["model_scores"] = list(found.model_scores)
            member = found.model
            arrays[f"labels:{name}"] = found.values.astype(np.float32)
            arrays[f"indices:{name}"] = (
                np.arange(len(dataset)) if stage.kind is StageKind.ROOT else part
            )
        codes, factors = winner_codes(search, device, member)
        entry |= information(codes[0], factors, names)
        arrays[f"codes:{name}"], arrays[f"factors:{name}"] = codes[0].astype(np.float32), factors
        knows = {
            latent: max(zip(entry["shares"][latent], names, strict=True))
            for latent in entry.get("active", [])
        }
        told = (
            f"{len(search.dataset):,} images, MIG {entry['mig']:.4f}, active {knows},"
            f" {entry.get('variance_left')}"
        )
        print(f"{name} of seed {seed}: {told}", flush=True)
        stages.append(entry)
        keep()
        return outcome

    def keep() -> None:
        about = {
            "kind": "recursion",
            "setting": setting,
            "seed": seed,
            "seconds": time.perf_counter() - began,
            "stages": stages,
            "images": len(dataset),
            "population": plan.root.population,
            "models": plan.root.models,
            "epoch_images": plan.root.epoch_images,
            "device": torch.cuda.get_device_name() if device.type == "cuda" else "CPU",
        }
        kind = "final" if finals else "leaf"
        np.savez_compressed(out / f"{kind}-{setting}-{seed}.npz", about=json.dumps(about), **arrays)

    run.train(device, train_stage, print)


def probe(out: Path, toy: bool, images: Any) -> None:
    """Seconds of two epochs with and without labels, and of the gather and scores between."""
    import threading

    import torch

    from unbraid.population.devices import choose_device, usual_precision
    from unbraid.search.pbt.generation import Generation
    from unbraid.search.pbt.judging import Judging
    from unbraid.search.pbt.make_search import make_search

    device, rows = choose_device("auto"), []

    def clock() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    for score, models in (("mig", 1), ("udr", 5)):
        options = {
            **COMMON,
            **SUPERVISED["wide"],
            "score": score,
            "population": 12,
            "epochs": 4,
            **(TOY | {"epoch_images": 2_000} if toy else {}),
        }
        search, dataset = make_search(
            images, precision=usual_precision(device), models=models, **options
        )
        sampler, individuals, stop = dataset.sampler(device), search.first(), threading.Event()
        generation = None
        for epoch in range(3):
            start = clock()
            everyone = search.generation_models(individuals, epoch)
            kept = None if generation is None else generation.rows(list(range(len(everyone)))[::-1])
            gathered = clock()
            generation = Generation(
                search.plan,
                everyone,
                dataset,
                device,
                sampler,
                epoch=epoch,
                epochs=4,
                epoch_images=search.epoch_images,
                rows=kept,
            )
            built = clock()
            judging = Judging(search.scorer, generation, dataset, out)
            generation.train(stop, chunk_done=judging.chunk_done)
            trained = clock()
            scores = judging.scores()
            judged = clock()
            row = {
                "score": score,
                "epoch": epoch,
                "models": len(everyone),
                "chunks": len(generation.chunks),
                "gather": gathered - start,
                "build": built - gathered,
                "train": trained - built,
                "judge": judged - trained,
                "images_per_second": len(everyone) * search.epoch_images / (trained - built),
            }
            rows.append(row)
            print(
                {
                    key: round(value, 3) if isinstance(value, float) else value
                    for key, value in row.items()
                },
                max(scores),
                flush=True,
            )
    (out / "probe.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def explained_by_turning(codes: Any, shape: Any, orientation: Any) -> float:
    """Share of the variance of *codes* within a shape that smooth functions of its orientation
    explain (four harmonics, corrected).

    Orientation looks different in each shape, and a code that goes around with it has no
    correlation with it.
    """
    shares = []
    for one in np.unique(shape):
        own = shape == one
        angle = 2 * np.pi * orientation[own] / 40
        waves = [wave(turn * angle) for turn in (1, 2, 3, 4) for wave in (np.cos, np.sin)]
        if own.sum() < 2 * len(waves):
            continue
        columns = np.stack([np.ones(own.sum()), *waves], axis=1)
        rest = codes[own] - columns @ np.linalg.lstsq(columns, codes[own], rcond=None)[0]
        shares.append(1.0 - (rest @ rest / (len(rest) - columns.shape[1])) / codes[own].var(ddof=1))
    return float(np.mean(shares)) if shares else 0.0


def table(folder: Path) -> dict[str, Any]:
    """What the files in *folder* show: scores of supervised searches, and stages of recursions."""
    from unbraid.metrics import dci
    from unbraid.report.rpu.figures import explained

    def score(codes: Any, factors: Any) -> float:
        split = len(factors) * 2 // 3
        return dci(codes[:split], factors[:split], codes[split:], factors[split:]).score

    supervised, stages = [], []
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as held:
            about = json.loads(str(held["about"]))
            if about["kind"] in ("pbt", "random"):
                codes, factors = (
                    held["codes"][0].astype(np.float64),
                    held["factors"].astype(np.int64),
                )
                supervised.append({"setting": "wide"} | about | {"dci": score(codes, factors)})
                continue
            for stage in about["stages"]:
                codes, factors = (held[f"{kind}:{stage['stage']}"] for kind in ("codes", "factors"))
                row = {
                    "setting": about.get("setting", "low"),
                    "seed": about["seed"],
                    "device": about["device"],
                    **stage,
                }
                del row["lineage"]  # hundreds of kilobytes
                row["explained"] = {
                    str(latent): {
                        name: round(explained(codes[:, latent], factors[:, at])[0], 4)
                        for at, name in enumerate(stage["factors"])
                    }
                    for latent in stage.get("active", [])
                }
                if stage["stage"].startswith("leaf") and "orientation" in stage["factors"]:
                    shape, turned = (
                        factors[:, stage["factors"].index(name)]
                        for name in ("shape", "orientation")
                    )
                    for latent, one in row["explained"].items():
                        share = explained_by_turning(
                            codes[:, int(latent)].astype(np.float64), shape, turned
                        )
                        one["orientation within each shape"] = round(share, 4)
                if stage["stage"].startswith("final"):
                    row["dci"] = score(codes.astype(np.float64), factors.astype(np.int64))
                stages.append(row)
    return {"supervised": supervised, "stages": stages}


def printed(found: dict[str, Any]) -> str:
    """Both tables."""
    lines = ["search   setting    seed   MIG     DCI     seconds"]
    for row in sorted(
        found["supervised"], key=lambda row: (row["setting"], row["kind"], row["seed"])
    ):
        lines.append(
            f"{row['kind']:<8} {row['setting']:<10} {row['seed']:<6} {row['mig']:.4f} "
            f" {row['dci']:.4f}  {row['seconds']:.0f}"
        )
    for setting, kind in itertools.product(SUPERVISED, ("pbt", "random")):
        gaps = [
            row["mig"]
            for row in found["supervised"]
            if (row["setting"], row["kind"]) == (setting, kind)
        ]
        if len(gaps) > 1:
            spread = f"standard deviation {np.std(gaps, ddof=1):.4f} over {len(gaps)} seeds"
            lines.append(f"{kind:<8} {setting:<10} mean {np.mean(gaps):.4f}, {spread}")
    lines.append(
        "β     seed  stage           images  score   MIG     active latents: factor that explains"
        " most of their variance"
    )
    for row in found["stages"]:
        told = ", ".join(
            f"{max(one, key=one.get)} {max(one.values()):.2f}" for one in row["explained"].values()
        )
        left = row.get("variance_left")
        told += f"; variance left: x {left['x']:.4f}, y {left['y']:.4f}" if left else ""
        scores = f"{row['winner']['score']:.4f}  {row['mig']:.4f}"
        lines.append(
            f"{row['setting']:<5} {row['seed']:<5} {row['stage']:<15} {row['images']:>8}  {scores} "
            f" {told}"
        )
    return "\n".join(lines)


def draw_lineages(results: Path, setting: str, seeds: list[int], out: Path) -> None:
    """Pages of the supervised searches by population-based training that *results* hold."""
    import pandas as pd

    from unbraid.report.pbt.context import write_pbt

    for row in json.loads(results.read_text("utf-8"))["supervised"]:
        if row["kind"] == "pbt" and row["setting"] == setting and row["seed"] in seeds:
            winner = row["winner"]
            place = (winner["epoch"], winner["individual"], winner["score"])
            title = f"dSprites, {setting} ranges, seed {row['seed']}"
            lineage = pd.DataFrame(row["lineage"])
            print(
                write_pbt(
                    out / f"lineage-{row['seed']}.html",
                    title=title,
                    lineage=lineage,
                    score_label="MIG",
                    winner=place,
                )
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "what", choices=("probe", "supervised", "leaf", "final", "table", "lineage")
    )
    parser.add_argument(
        "--runs",
        type=Path,
        default=Path("population_search_runs"),
        help="where recursions are kept between two calls",
    )
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument(
        "--setting",
        default=None,
        help=(
            f"ranges: {', '.join(SUPERVISED)} for supervised, {', '.join(RECURSION)} for leaf and"
            " final"
        ),
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=540.0,
        help="no seed is begun that would end later, by the time of the one before",
    )
    parser.add_argument("--out", type=Path, default=Path("population_search"))
    parser.add_argument(
        "--codes",
        type=Path,
        default=Path("population_search"),
        help="what `table` reads: the files of the others",
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=None,
        help="JSON file that `table` writes and `lineage` reads",
    )
    parser.add_argument(
        "--toy",
        action="store_true",
        help="a few steps of small networks, to see that everything runs",
    )
    given = parser.parse_args()
    if given.what == "table":
        found = table(given.codes)
        if given.results:
            given.results.write_text(json.dumps(found, indent=None) + "\n", encoding="utf-8")
        print(printed(found))
        return
    given.out.mkdir(parents=True, exist_ok=True)
    settings = SUPERVISED if given.what in ("supervised", "lineage") else RECURSION
    setting = given.setting or next(iter(settings))
    if setting not in settings:
        parser.error(f"--setting must be one of {', '.join(settings)} here, got {setting}")
    if given.what == "lineage":
        draw_lineages(
            given.results or RESULTS,
            setting,
            [int(seed) for seed in given.seeds.split(",")],
            given.out,
        )
        return
    recursion = functools.partial(train_recursion, runs=given.runs, finals=given.what == "final")
    work = train_supervised if given.what == "supervised" else recursion
    began, longest, images = time.perf_counter(), 0.0, data(given.toy)
    if given.what == "probe":
        probe(given.out, given.toy, images)
        return
    for seed in map(int, given.seeds.split(",")):
        start = time.perf_counter()
        if start - began + longest > given.seconds:
            print(f"seed {seed} is not begun: it would pass {given.seconds:.0f} s", flush=True)
            break
        work(seed, given.out, given.toy, images, setting)
        longest = max(longest, time.perf_counter() - start)


if __name__ == "__main__":
    main()
