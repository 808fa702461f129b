# SPDX-License-Identifier: Apache-2.0
"""Plans: what a request expands to, what is refused and in which words, and the record that repeats
a run.
"""

from __future__ import annotations

import dataclasses
import json
import math
from importlib.metadata import version
from typing import Any

import numpy as np
import pytest
import torch

import unbraid as ub
from unbraid.commands.verb import verb_of
from unbraid.core.errors import InputError
from unbraid.core.random import Stream
from unbraid.data import DATA
from unbraid.networks.mlp import Mlp
from unbraid.objectives import OBJECTIVES
from unbraid.population.plan import FORMAT, Plan, make_plan
from unbraid.population.resolve import GENERAL_OPTIONS

SPRITES: dict[str, Any] = {"x": 6, "y": 4, "image_size": 28}


def made(objective: Any = "beta_vae", **options: Any) -> Plan:
    return make_plan(
        "sprites", objective, **{"data_options": SPRITES, "network": "mlp", **options}
    )[0]


def refusal(data: Any = "sprites", objective: Any = "beta_vae", **options: Any) -> str:
    if isinstance(data, str) and data == "sprites":
        options = {"data_options": SPRITES, **options}
    with pytest.raises(InputError) as caught:
        make_plan(data, objective, **options)
    return str(caught.value)


def test_objectives_are_slowest_then_rates_then_seeds():
    members = made(
        [ub.BetaVAE(beta=[1, 4]), "vae", "annealed_vae"],
        hyper={"gamma": [10, 20]},
        learning_rate=[1e-3, 1e-4],
        seeds=[7, 5],
    ).members
    expected = [
        (objective, hyper, rate, seed)
        for objective, hyper in (
            ("beta_vae", {"beta": 1.0}),
            ("beta_vae", {"beta": 4.0}),
            ("vae", {}),
            (
                "annealed_vae",
                {"max_capacity": 25.0, "gamma": 10.0, "ramp_steps": 100_000.0, "ramp": "linear"},
            ),
            (
                "annealed_vae",
                {"max_capacity": 25.0, "gamma": 20.0, "ramp_steps": 100_000.0, "ramp": "linear"},
            ),
        )
        for rate in (1e-3, 1e-4)
        for seed in (7, 5)
    ]
    assert [(m.objective, m.hyper, m.learning_rate, m.seed) for m in members] == expected
    assert [m.id for m in members] == list(range(20))
    assert members[2].build() == ub.BetaVAE(beta=1)
    assert members[2].label() == "beta_vae beta=1 seed=7"
    assert members[8].label() == "vae seed=7"


def test_a_count_of_seeds_starts_at_zero():
    assert [m.seed for m in made(seeds=3).members] == [0, 1, 2]
    assert [m.seed for m in made(seeds=range(4, 6)).members] == [4, 5]


@pytest.mark.parametrize(
    ("options", "swept"),
    [
        ({}, []),
        ({"seeds": 3}, []),
        ({"hyper": {"beta": [1, 4]}, "seeds": 2}, ["beta"]),
        ({"hyper": {"beta": [1, 4]}, "learning_rate": [1e-3, 1e-4]}, ["learning_rate", "beta"]),
        ({"objective": ["vae", "beta_vae"]}, ["objective", "beta"]),
    ],
)
def test_what_is_swept(options: dict[str, Any], swept: list[str]):
    assert made(**options).swept() == swept


def test_every_problem_is_reported_at_once_and_in_full():
    message = refusal(
        "sprite",
        "beta_va",
        data_options={},
        seeds=0,
        steps=0,
        batch_size=1,
        learning_rate=[1e-3, math.nan, -1.0],
        latents=0,
        network="mpl",
        precision="float16",
        code_samples=1,
        log_every=0,
        checkpoint_seconds=-1,
    )
    assert message.splitlines() == [
        (
            "dataset 'sprite' is unknown; did you mean 'sprites'? Known:"
            f" {', '.join(sorted(DATA))}. A folder, an .npy or an .npz is given by its path."
        ),
        (
            "objective 'beta_va' is unknown; did you mean 'beta_vae'? Known:"
            f" {', '.join(sorted(OBJECTIVES))}."
        ),
        f"network 'mpl' is unknown; did you mean 'mlp'? Known: {', '.join(sorted(ub.NETWORKS))}.",
        "seeds must be at least 1; got 0.",
        "learning_rate must be a finite number above 0; got nan.",
        "learning_rate must be a finite number above 0; got -1.0.",
        "steps must be a whole number of at least 1; got 0.",
        "batch_size must be a whole number of at least 2; got 1.",
        "latents must be a whole number of at least 1; got 0.",
        "code_samples must be a whole number of at least 2; got 1.",
        "log_every must be a whole number of at least 1; got 0.",
        "checkpoint_seconds must be a number of at least 0; got -1.",
        "precision must be auto or one of float32, bfloat16; got 'float16'.",
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hyper": {"beta": -1}}, "beta_vae: beta must be at least 0; got -1."),
        ({"hyper": {"beta": [1, math.inf]}}, "beta_vae: beta must be a finite number; got inf."),
        (
            {"hyper": {"bta": 4}},
            (
                "option 'bta' is unknown; did you mean 'beta'? Known:"
                f" {', '.join(sorted(GENERAL_OPTIONS | {'beta'}))}."
            ),
        ),
        (
            {"hyper": {"step": 4}},
            (
                "option 'step' is unknown; did you mean 'steps'? Known:"
                f" {', '.join(sorted(GENERAL_OPTIONS | {'beta'}))}."
            ),
        ),
        (
            {"objective": ub.BetaVAE(), "hyper": {"beta": 2}},
            (
                "hyper goes to objectives given by name; got {'beta': 2}. Set the values in the"
                " objective itself."
            ),
        ),
        ({"objective": []}, "objective needs at least one; got []."),
        (
            {"likelihood": "bernouli"},
            (
                "likelihood 'bernouli' is unknown; did you mean 'bernoulli'? Known: bernoulli,"
                " gaussian, laplace."
            ),
        ),
        (
            {"network": "mlp", "network_options": {"hiden": 8}},
            (
                "mlp option 'hiden' is unknown; did you mean 'hidden'? "
                "Known: activation, decoder_layers, decoder_scale, encoder_layers, hidden, scale,"
                " start."
            ),
        ),
        ({"network_options": {"hidden": 8}}, "network conv_burgess has no options; got 'hidden'."),
        (
            {"network": "mlp", "network_options": {"hidden": 0}},
            "hidden must be a whole number of at least 1; got 0.",
        ),
        ({"seeds": []}, "seeds needs at least one; got []."),
        ({"seeds": -2}, "seeds must be at least 1; got -2."),
        ({"seeds": True}, "seeds must be how many seeds, or a list of them; got True."),
        ({"seeds": 1.5}, "seeds must be how many seeds, or a list of them; got 1.5."),
        ({"seeds": [3, 1, 3]}, "seeds must differ from each other; got [3, 1, 3]."),
        ({"seeds": [True, 2]}, "seeds must be whole numbers of at most 64 bits; got [True, 2]."),
        (
            {"seeds": [2**63]},
            "seeds must be whole numbers of at most 64 bits; got [9223372036854775808].",
        ),
        ({"learning_rate": []}, "learning_rate needs at least one; got []."),
        ({"learning_rate": 0}, "learning_rate must be a finite number above 0; got 0."),
        ({"learning_rate": True}, "learning_rate must be a finite number above 0; got True."),
        ({"learning_rate": "fast"}, "learning_rate must be a finite number above 0; got 'fast'."),
        ({"steps": "many"}, "steps must be a whole number of at least 1; got 'many'."),
        ({"steps": True}, "steps must be a whole number of at least 1; got True."),
        ({"steps": 10.0}, "steps must be a whole number of at least 1; got 10.0."),
        (
            {"checkpoint_seconds": math.nan},
            "checkpoint_seconds must be a number of at least 0; got nan.",
        ),
        (
            {"checkpoint_seconds": "often"},
            "checkpoint_seconds must be a number of at least 0; got 'often'.",
        ),
        (
            {"data_options": {"xx": 3}},
            (
                "sprites option 'xx' is unknown; did you mean 'x'? Known: channels, hue,"
                " image_size, orientation, scale, scale_max, scale_min, shade, shape, x, x_range,"
                " y, y_range."
            ),
        ),
    ],
)
def test_one_refusal(options: dict[str, Any], message: str):
    assert refusal(**options) == message


def test_weights_start_as_they_are_told():
    plan, dataset = made(initialisation="xavier_normal"), ub.load("sprites", **SPRITES)
    assert Plan.from_record(json.loads(json.dumps(plan.record()))) == plan
    assert "initialisation" not in made().record()  # older runs keep their digest
    usual, other = (
        one.layout(one.members[0], dataset).initial(torch.tensor([3]), Stream.INITIAL_WEIGHTS)
        for one in (made(), plan)
    )
    assert not torch.equal(usual, other)
    assert usual.std().item() == pytest.approx(other.std().item(), rel=0.05)
    assert refusal(initialisation="normal") == (
        "initialisation must be xavier_normal, or left out for the network's own; got 'normal'."
    )


def test_points_take_no_bernoulli_and_no_convolutions():
    assert refusal("pinwheel", likelihood="bernoulli").splitlines() == [
        (
            "likelihood needs samples between 0 and 1, and these are real-valued or standardised;"
            " got 'bernoulli'. Use the likelihood gaussian."
        ),
        (
            "samples must be square with a side of 28, 32, 64, 96, 128 and 1 or 3 channels for a"
            " convolutional network; got vectors of shape (2,). Use the network mlp."
        ),
    ]


def test_images_that_cannot_be_halved_are_refused_with_a_remedy():
    assert (
        refusal(np.zeros((4, 50, 50), dtype=np.uint8))
        == "images must be square with a side of 28, 32, 64, 96, 128 and 1 or 3 channels for a"
        " convolutional network; got 50x50 with 1 channel. Make them 64x64 (resize=64 for your"
        " own), or use the network mlp."
    )


def test_the_likelihood_suits_the_data_unless_given():
    assert made().likelihood == "bernoulli"
    assert made(likelihood="gaussian").likelihood == "gaussian"
    assert make_plan("pinwheel", "vae", network="mlp")[0].likelihood == "gaussian"


def test_networks_may_be_given_built_and_must_be_registered():
    assert made(network=Mlp(hidden=5)).record() == made(network_options={"hidden": 5}).record()

    class Stranger(Mlp):
        pass

    with pytest.raises(InputError) as caught:
        made(network=Stranger(hidden=5))
    assert (
        str(caught.value)
        == "network Stranger is not registered, so a run could not find it again; call"
        " unbraid.NETWORKS.register('my_network', Stranger), or add it to the entry points"
        " 'unbraid.networks' of an installed package."
    )


def test_recorded_windows_default_to_two_hundred():
    assert made(steps=1000).log_every == 5
    assert made(steps=50).log_every == 1
    assert made(steps=50, log_every=7).log_every == 7


def test_the_record_survives_json():
    plan = made(
        [ub.BetaVAE(beta=[1, 4]), "dip_vae_i"],
        seeds=[3, 2**62],
        learning_rate=[1e-3, 3e-4],
        command="unbraid train x",
    )
    again = Plan.from_record(json.loads(json.dumps(plan.record())))
    assert again == plan
    assert again.digest() == plan.digest()
    assert [m.build() for m in again.members] == [m.build() for m in plan.members]
    assert plan.made_with.keys() == {"unbraid", "torch", "python"}


def test_another_format_is_refused():
    with pytest.raises(InputError) as caught:
        Plan.from_record({**made().record(), "format": 99})
    (problem,) = caught.value.problems
    assert (problem.name, problem.rule, problem.value) == ("format", f"must be {FORMAT}", 99)
    assert f"(unbraid {version('unbraid')})" in problem.remedy


def test_the_digest_covers_every_field():
    plan = made()
    member = plan.members[0]
    other: dict[str, Any] = {
        "data": "own",
        "data_options": {**SPRITES, "x": 7},
        "data_fingerprint": "0",
        "network": "conv_burgess",
        "network_options": {"hidden": 3},
        "latents": 9,
        "likelihood": "gaussian",
        "steps": 1,
        "batch_size": 3,
        "precision": "bfloat16",
        "log_every": 3,
        "checkpoint_seconds": 3.0,
        "code_samples": 3,
        "where": "x < 3",
        "command": "other",
        "made_with": {},
        "format": 3,
        "standardise": {"mean": [0.5], "std": [0.5]},
        "initialisation": "xavier_normal",
        "full_batch": True,
        "amsgrad": True,
        "members": (dataclasses.replace(member, seed=1),),
    }
    assert other.keys() == {item.name for item in dataclasses.fields(Plan)}, (
        "a new field needs a value here"
    )
    digests = {dataclasses.replace(plan, **{name: value}).digest() for name, value in other.items()}
    for change in (
        {"hyper": {"beta": 5.0}},
        {"learning_rate": 2e-4},
        {"id": 4},
        {"objective": "vae"},
    ):
        digests.add(
            dataclasses.replace(plan, members=(dataclasses.replace(member, **change),)).digest()
        )
    assert plan.digest() not in digests
    assert len(digests) == len(other) + 4


@pytest.mark.parametrize("objective", [3, None, ub.BetaVAE, [ub.BetaVAE], ["vae", 3]])
def test_what_is_no_objective_is_refused(objective: Any):
    wrong = objective[-1] if isinstance(objective, list) else objective
    told = (
        f"objective must be an objective, its name, or a list of them; got {wrong!r}. For example"
        " 'beta_vae' or "
    )
    assert refusal(objective=objective) == f"{told}unbraid.BetaVAE(beta=4)."


def test_what_a_misspelt_option_is_told_of_is_what_train_takes() -> None:
    options = {one.name for one in verb_of(ub.train).options if not one.argument}
    assert options == GENERAL_OPTIONS
