# SPDX-License-Identifier: Apache-2.0
"""Tables of benchmark results, each made from one file of benchmarks/results."""

from __future__ import annotations

from typing import Any

import numpy as np

from tools.docs.tables import table
from tools.docs.wrap import wrap, wrap_lines
from unbraid.objectives import OBJECTIVES

Record = dict[str, Any]


def cpu_speed(record: Record) -> str:
    """Training on a CPU."""
    return table(
        "what | model-steps/s | ratio to the plain loop",
        (
            (row["what"], f"{row['model_steps_per_second']:.1f}", f"{row['ratio']:.2f}")
            for row in record["rows"]
        ),
        f"{record['machine']}; {record['setting']}.",
    )


def user_rate(record: Record) -> str:
    """Whole plans by the public commands."""
    scored = "".join(
        f" `unbraid score` of the {row['members']} models: {row['seconds_of_scoring']:.0f} s."
        for row in record["rows"]
        if row.get("seconds_of_scoring")
    )
    scored += "".join(
        f" `unbraid train` of {row['members']} models as long takes"
        f" {row['share_of_training']:.0%} of their search's time."
        for row in record["rows"]
        if row.get("share_of_training")
    )
    return table(
        "what was typed | model-steps/s | of the kernels' rate | seconds | on disk",
        (
            (
                row["what"] + (", nothing compiled before" if row["cold"] else ""),
                f"{row['model_steps_per_second']:,.0f}",
                f"{row['share']:.0%} of {row['kernels']:,.0f}",
                f"{row['seconds']:.0f}",
                f"{row['disk_bytes'] / 1e9:.2f} GB",
            )
            for row in record["rows"]
        ),
        f"One {record['machine']}, torch {record['torch']}, {record['date']}; dSprites, 64x64,"
        " conv_burgess, batch 64, bfloat16, checkpoints every 30 s; from the command to its end,"
        f" codes for scoring included; `python benchmarks/user_rate.py`.{scored}",
    )


def gpu_speed(record: Record) -> str:
    """Training on a GPU, of β-VAE and of everything else."""
    rows = table(
        "what | model-steps/s | ratio to the plain loop | TFLOP/s",
        (
            (
                row["what"],
                f"{row['model_steps_per_second']:,.0f}",
                f"{row['ratio']:.1f}",
                f"{row['tflops']:.1f}",
            )
            for row in record["rows"]
        ),
    )
    others = ", ".join(
        f"{_objective(row['objective'])} {row['of_beta_vae']:.0%}" for row in record["objectives"]
    )
    codes, ceilings = record["encoding"], record["ceilings"]
    return f"{rows}\n\n" + wrap_lines(
        f"Other objectives, of β-VAE's rate with the same population: {others}."
        f" Encoding {codes['images']:,} images for {codes['members']} members takes"
        f" {codes['seconds']:.0f} s and {codes['peak_gib']:.1f} GiB of the device's memory.\n\n"
        f"One {record['machine']} (copies at {ceilings['copy'] / 1e12:.1f} TB/s, bfloat16 products"
        f" at {ceilings['matrix'] / 1e12:.0f} TFLOP/s, measured in the same run), torch"
        f" {record['torch']}; β-VAE, 64x64, conv_burgess, batch {record['batch']}, bfloat16; ratios"
        " to the loop on dSprites; `python benchmarks/throughput.py`."
    )


def network_speed(record: Record) -> str:
    """Every convolutional network, at equal arithmetic."""
    first = record["networks"][0]["tflops"]
    return table(
        "network | model-steps/s | TFLOP/s | arithmetic a second, of the first's",
        (
            (
                row["what"],
                f"{row['model_steps_per_second']:,.0f}",
                f"{row['tflops']:.0f}",
                f"{row['tflops'] / first:.0%}",
            )
            for row in record["networks"]
        ),
        f"One {record['machine']}, torch {record['torch']}; populations of 128, β-VAE on dSprites,"
        f" 64x64, batch {record['batch']} and bfloat16 where nothing else is named; `python"
        " benchmarks/throughput.py --only networks`.",
    )


def _objective(name: str) -> str:
    """An objective as it is spelled today; few labels were objectives when this was measured."""
    if name in OBJECTIVES:
        return f"`{name}`"
    return "labels alone" if name == "supervised" else f"`{name.removeprefix('s2_')}` with labels"


def kernels(record: Record) -> str:
    """Each kernel against what memory and arithmetic allow."""
    return table(
        "kernel, population of 128 | ms | floor, ms | times | floor set by",
        (
            (
                row["kernel"],
                f"{row['ms']:.3f}",
                f"{row['floor_ms']:.3f}",
                f"{row['ms'] / row['floor_ms']:.1f}",
                row["floor"],
            )
            for row in record["kernels"]
        ),
        f"One {record['machine']}, batch {record['batch']}, bfloat16; `python"
        " benchmarks/throughput.py`.",
    )


def precision(record: Record, data: str = "dSprites", script: str = "precision") -> str:
    """Whether bfloat16 moves results, at the last step."""
    last = max(row["step"] for row in record["rows"])
    rows = []
    for row in record["rows"]:
        if row["step"] != last:
            continue
        (low, high), digits = row["difference_95"], 2 if row["quantity"] == "elbo" else 4
        of = [
            f"{row[kind]['mean']:.{digits}f} ± {row[kind]['std']:.{digits}f}"
            for kind in ("float32", "bfloat16")
        ]
        difference = f"{low:+.{digits}f} to {high:+.{digits}f}"
        tests = f"{row['mann_whitney_p']:.2f}", f"{row['kolmogorov_smirnov_p']:.2f}"
        rows.append((f"{last:,}", row["quantity"].upper(), *of, difference, *tests))
    return table(
        "at step | | float32 | bfloat16 | difference, 95% | Mann-Whitney p | Kolmogorov-Smirnov p",
        rows,
        f"{record['seeds']} seeds of β-VAE (β = {record['beta']:g}) on {data}, mean ± standard"
        f" deviation over seeds; `python benchmarks/{script}.py`.",
    )


def cpu_precision(record: Record) -> str:
    """The same on a CPU."""
    rates = {name: run["model_steps_per_second"] for name, run in record["runs"].items()}
    told = (
        f"It trained {rates['bfloat16'] / rates['float32']:.2f} times as many model-steps a second"
        " in bfloat16, other work beside it."
    )
    rows = precision(record, "3,072 sprites of 32x32 pixels", "cpu_precision")
    return f"{rows}\n\n{wrap(told)}"


def data_speed(record: Record) -> str:
    """Images per second of the drawn datasets."""
    rows = [
        (
            f"`{row['name']}`",
            device,
            f"{row['images_per_second']:,.0f}",
            f"{row['ratio']:,.1f}",
            f"{row.get('device_bytes', row['host_bytes']) / 1e6:,.0f} MB",
        )
        for device, found in record.items()
        for row in found["rows"]
    ]
    settings = (
        f"{device}: {found['machine']}; the plain loader of XYSquares gives"
        f" {found['plain']:,.0f} images/s on one core there"
        for device, found in record.items()
    )
    return table(
        "data | device | images/s | ratio to a plain loader | kept in memory",
        rows,
        f"{'. '.join(settings)}. `python benchmarks/data.py`.",
    )


def perturbation(record: Record) -> str:
    """β-VAEs on original, perturbed and noisy data."""
    return table(
        "data | β | MIG | active latents",
        (
            (
                row["version"],
                f"{row['beta']:g}",
                f"{row['mig_mean']:.3f} ± {row['mig_std']:.3f}",
                f"{row['active']:.1f}",
            )
            for row in record["rows"]
        ),
        f"β-VAE on {record['data']}, {record['seeds']} seeds (mean ± standard deviation),"
        f" {record['steps']:,} steps, {record['machine']}; `python benchmarks/perturbation.py`.",
    )


def metric_speed(record: Record) -> str:
    """Metrics beside those of disentanglement_lib."""
    rows = [
        (
            row["what"] + (f" ({row['note']})" if row["note"] else ""),
            f"{row['seconds']:.{4 if row['seconds'] < 0.1 else 2}f}",
            f"{row['theirs']:.2f}",
            f"{row['faster']:.1f}",
        )
        for row in record["rows"]
    ]
    members = record["population"]
    return table(
        "metric | CPU s | disentanglement_lib, CPU s | times faster",
        rows,
        f"{members['members']} members at once, 10,000 samples each, {members['what']}:"
        f" {members['seconds']:.1f} s. {record['machine']}; the other library's recorded seconds"
        f" scaled by {record['scale']:.2f}, the same boosted trees timed on both machines; `python"
        " benchmarks/metrics.py`.",
    )


def scoring_speed(record: Record) -> str:
    """The usual metrics of a population, and each alone."""
    rows = [
        (f"`{row['metric']}`, a model on one core", f"{row['wall_s']:.3f}", f"{row['cpu_s']:.3f}")
        for row in record["one_core"]
    ]
    for key, what in (
        ("dci_by_cores", "`dci` of {} models, by the cores"),
        ("dci_on_gpu", "`dci` of {} models, on the GPU"),
        ("usual", "all six of {} models, both together"),
    ):
        one = record[key]
        rows.append((what.format(one["members"]), f"{one['wall_s']:.1f}", f"{one['cpu_s']:.1f}"))
    return table(
        "what | s | CPU s",
        rows,
        f"10 latents, dSprites' factors, 10,000 samples to fit and 5,000 to test; {record['cores']}"
        f" cores and one {record['device']}, torch {record['versions']['torch']}. No number of DCI"
        f" by the GPU is farther than {record['dci_apart']:.0e} from that by the cores; `python"
        " benchmarks/scoring.py`.",
    )


def disentangling(record: Record) -> str:
    """What populations on a GPU reached: medians with the least and the most over seeds."""
    rows = []
    for row in record["rows"]:
        spacing = f", spacing {row['data']['spacing']}" if "spacing" in row["data"] else ""
        rows.append(
            (
                f"{row['data']['name']}{spacing}",
                f"`{row['objective']}`",
                f"`{row['likelihood']}`",
                row["latents"],
                ", ".join(f"{name} {value:g}" for name, value in row["strength"].items()),
                row["members"],
                f"{row['steps']:,}",
                f"{row['seconds']:.0f} ({row['population']} members)",
                _spread(row["mig"]),
                _spread(row["dci"]),
            )
        )
    first = record["rows"][0]
    return table(
        "data | objective | likelihood | latents | strength | seeds | steps | s for the population"
        " | MIG | DCI",
        rows,
        f"One {first['device']}, {first['precision']}; `python benchmarks/disentangling.py`, whose"
        " head says the rest.",
    )


def _spread(values: list[float]) -> str:
    return f"**{np.median(values):.3f}** ({min(values):.3f} to {max(values):.3f})"


def pairs_miniature(record: Record) -> str:
    """MIG of the miniature by spacing."""
    return table(
        "spacing | MIG, mean over seeds | each seed",
        (
            (row["spacing"], f"{row['mean']:.3f}", ", ".join(f"{gap:.3f}" for gap in row["mig"]))
            for row in record["rows"]
        ),
        f"{record['setting']}; {record['machine']}; `{record['command']}`.",
    )


def few_labels(record: Record) -> str:
    """MIG and DCI with labels of different kinds."""
    return table(
        "labels | MIG | DCI",
        (
            (row["labels"], f"{row['mig_mean']:.3f}", f"{row['dci_mean']:.3f}")
            for row in record["rows"]
        ),
        f"Means over {len(record['rows'][0]['mig'])} seeds. {record['setting']};"
        f" `{record['command']}`.",
    )


def decomposition(record: Record) -> str:
    """The pinwheel by α and by β, and sparsity of digits by α for both priors."""
    pinwheel = [
        (
            f"{sign} = {row[name]:g}, {other} = 0",
            f"{row['kl_nats_mean']:.3f}",
            ", ".join(f"{nats:.2f}" for nats in row["kl_nats"]),
            f"{np.mean(row['posterior_std']):.3f}",
        )
        for name, sign, other in (("alpha", "α", "β"), ("beta", "β", "α"))
        for row in record[f"pinwheel_{name}"]["rows"]
    ]
    fall, machine = record["pinwheel_alpha"], record["machine"]
    rows, gaps = record["digits"]["rows"], record["digits"]["mean_gaps"]
    alphas = dict.fromkeys(row["alpha"] for row in rows)
    digits = [
        (f"α = {alpha:g}", *(_hoyer(rows, alpha, gamma) for gamma in (0.8, 0)), f"{gap:.3f}")
        for alpha, gap in zip(alphas, gaps, strict=True)
    ]
    first = table(
        "pinwheel | KL(p ‖ q(z)), nats, mean over seeds | each seed | posterior deviation",
        pinwheel,
        f"KL(p ‖ q) falls with every α in {fall['seeds_that_fall']} of {fall['seeds']} seeds;"
        f" these {len(fall['rows']) * fall['seeds']} models took {fall['wall_s']:.0f} s."
        f" {machine[0].upper()}{machine[1:]}; `{record['command']}`.",
    )
    second = table(
        "digits | Hoyer sparsity with γ = 0.8 | with γ = 0 | mean gap",
        digits,
        f"Least KL of any model {record['digits']['least_kl_nats']:.1f} nats.",
    )
    return f"{first}\n\n{second}"


def _hoyer(rows: list[Record], alpha: float, gamma: float) -> str:
    chosen = [row for row in rows if row["alpha"] == alpha and row["gamma"] == gamma]
    return ", ".join(f"{row['hoyer']:.3f}" for row in chosen)


SETTINGS = {
    "published": (
        "Learning rates and β drawn as published (1e-5 to 1, of which two fifths lie above 0.01,"
        " and 1 to 437)"
    ),
    "wide": "Learning rates from 1e-5 to 1e-2, β from 1 to 200",
}


def searches_by_mig(record: Record) -> str:
    """Population-based training against random search, a table for each setting."""
    parts = []
    for setting, about in SETTINGS.items():
        rows = {
            (row["kind"], row["seed"]): row
            for row in record["supervised"]
            if row["setting"] == setting
        }
        if not rows:
            continue
        seeds = sorted({seed for _, seed in rows})
        lines = []
        for seed in seeds:
            pair = rows["pbt", seed], rows["random", seed]
            values = pair[0]["winner"]["values"]
            told = f"{values['learning_rate']:.2g}, {values['beta']:.3g}, {values['batch_size']:g}"
            scores = (f"{row[name]:.3f}" for row in pair for name in ("mig", "dci"))
            lines.append((seed, *scores, told))
        means = []
        for kind in ("pbt", "random"):
            for name, bold in (("mig", "**"), ("dci", "")):
                values = [rows[kind, seed][name] for seed in seeds]
                mean, deviation = np.mean(values), np.std(values, ddof=1)
                means.append(f"{bold}{mean:.3f}{bold} ± {deviation:.3f}")
        first = rows["pbt", seeds[0]]
        title = wrap(
            f"{about}; {first['population']} individuals, {first['epochs']} epochs of"
            f" {first['epoch_images']:,} images each:"
        )
        header = (
            "seed | population-based: MIG | DCI | random: MIG | DCI | winner's learning rate, β,"
            " batch"
        )
        parts.append(f"{title}\n\n{table(header, [*lines, ('mean', *means, '')])}")
    note = wrap(
        f"{first['images']:,} images of dSprites (every second x and y), {first['device']}; ± is"
        " the standard deviation over seeds."
    )
    return "\n\n".join([*parts, note])


BETAS = {"high": "80 to 437", "low": "2 to 60"}
_ORDER = {"root": 0, "leaf": 1, "final": 2}


def rpu_stages(record: Record) -> str:
    """Stages of rPU-VAE, a table for each range of β."""
    parts = []
    for setting, betas in BETAS.items():
        rows = [row for row in record["stages"] if row["setting"] == setting]
        rows.sort(key=lambda row: (row["seed"], _ORDER[row["stage"].split("-")[0]], row["stage"]))
        if not rows:
            continue
        lines = []
        for row in rows:
            explained = ", ".join(
                f"{max(one, key=one.get)} {max(one.values()):.2f}"
                for one in row["explained"].values()
            )
            left = row.get("variance_left")
            rest = f"{100 * left['x']:.2f}%, {100 * left['y']:.2f}%" if left else ""
            scores = f"{row['winner']['score']:.3f}", f"{row['mig']:.3f}"
            lines.append(
                (row["seed"], row["stage"], f"{row['images']:,}", *scores, explained, rest)
            )
        header = (
            "seed | stage | images | score | MIG | active latents: what explains most of their"
            " variance | x, y left"
        )
        parts.append(f"β from {betas}:\n\n{table(header, lines)}")
    return "\n\n".join(parts)


def udr_speed(record: Record) -> str:
    """How long the agreement of all groups takes."""
    rows = [
        (
            device,
            row["what"],
            *(
                f"{row[name]:.2f} s" if row.get(name) is not None else ""
                for name in ("all_groups_s", "group_by_group_s", "loop_s")
            ),
        )
        for device, about in record.items()
        for row in about["rows"]
    ]
    machines = "; ".join(f"{device}: {about['machine']}" for device, about in record.items())
    return table(
        "device | method | all groups at once | group by group | peer in a loop",
        rows,
        f"{next(iter(record.values()))['population']}; {machines}; the peer is scikit-learn's Lasso"
        " or SciPy; `python benchmarks/udr_batch.py`.",
    )


def discoveries(record: Record) -> str:
    """What `discover` found in drawn images whose factors it was not shown."""
    rows = [
        (
            f"{row['images']:,} of {row['data']}, {row['device']}",
            "; ".join(
                f"{one['title']} ({one['factor']} {one['correlation']:.3f})" for one in row["found"]
            ),
            f"{row['udr']:.2f}",
            f"{row['minutes']:.1f}",
            row["models"],
        )
        for row in record["rows"]
    ]
    return table(
        "images | found, with the true factor it follows (rank correlation) | agreement | minutes"
        " | models",
        rows,
        "Hues come round: their correlation is that from where the code cuts the circle. `python"
        " benchmarks/discover.py`.",
    )
