# SPDX-License-Identifier: Apache-2.0
"""The models of an epoch on their device: grouped, copied with all they have, trained on from
there, stopped and taken up again.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from unbraid.core.errors import UnbraidError
from unbraid.core.store import read_tensors, write_tensors
from unbraid.data.dataset import Dataset
from unbraid.objectives import factor_vae
from unbraid.population.adam import EPSILON, Adam
from unbraid.population.plan import Plan
from unbraid.population.state import State
from unbraid.population.training_step import TrainingStep
from unbraid.search.pbt import generation as generation_module
from unbraid.search.pbt.exploit import epoch_seed
from unbraid.search.pbt.generation import (
    Generation,
    GenerationModel,
    Rows,
    stored_rows,
    updates_of_epoch,
)

CPU = torch.device("cpu")
IMAGES = 40
"""Of an epoch: 5 updates with batches of 8, 10 with batches of 4, and 3 with batches of 16."""
EPOCHS = 3
CONVOLUTIONS: dict[str, Any] = {
    "network": "conv_burgess",
    "network_options": {},
    "data_options": {"x": 4, "y": 4, "scale": 2},
}
Made = tuple[Plan, Dataset]


@pytest.fixture(autouse=True)
def small_discriminator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factor_vae, "_HIDDEN", 16)


@pytest.fixture(params=[1, 2, 8])
def together(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """At most so many models in a chunk, as on a GPU."""
    monkeypatch.setattr(
        generation_module, "chunk_size", lambda plan, dataset, device: request.param
    )
    return request.param


def model(
    made: Made, batch_size: int = 8, seed: int = 0, rate: float = 1e-3, **hyper: Any
) -> GenerationModel:
    first = made[0].members[0]
    return GenerationModel(
        replace(first, seed=seed, learning_rate=rate, hyper={**first.hyper, **hyper}), batch_size
    )


def begin(
    made: Made,
    models: Sequence[GenerationModel],
    epoch: int = 0,
    rows: Rows | None = None,
    **options: Any,
) -> Generation:
    plan, dataset = made
    settings = {"epochs": EPOCHS, "epoch_images": IMAGES, **options}
    return Generation(
        plan, models, dataset, CPU, dataset.sampler(CPU), epoch=epoch, rows=rows, **settings
    )


def trained(*args: Any, **options: Any) -> Generation:
    made = begin(*args, **options)
    assert made.train(threading.Event())
    return made


def bits(rows: Rows, at: int) -> dict[str, torch.Tensor]:
    return {
        name: tensor[at].contiguous().view(-1).view(torch.uint8).clone()
        for name, tensor in rows.items()
    }


def equal(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    return left.keys() == right.keys() and all(
        torch.equal(left[name], right[name]) for name in left
    )


def all_bits(one: Generation) -> list[dict[str, torch.Tensor]]:
    rows = one.rows(range(len(one.models)))
    return [bits(rows, at) for at in range(len(one.models))]


def test_updates_of_an_epoch():
    assert [updates_of_epoch(IMAGES, size) for size in (1, 4, 8, 16, 39, 40, 41)] == [
        40,
        10,
        5,
        3,
        2,
        1,
        1,
    ]


@given(some.integers(1, 10**10), some.integers(2, 10**5))
def test_an_epoch_is_the_least_number_of_updates_that_see_all_its_images(images: int, size: int):
    updates = updates_of_epoch(images, size)
    assert (updates - 1) * size < images <= updates * size


def test_models_are_grouped_by_batch_size_and_structure(small_plan, together: int):
    made = small_plan("control_vae")
    models = [model(made, size, seed) for seed, size in enumerate((8, 4, 8, 16, 4, 8))] + [
        model(made, 8, 6, anti_windup="published"),
        model(made, 8, 7, capacity=3.0),
    ]
    one = begin(made, models)
    expected = {
        1: [[0], [2], [5], [7], [1], [4], [3], [6]],
        2: [[0, 2], [5, 7], [1, 4], [3], [6]],
        8: [[0, 2, 5, 7], [1, 4], [3], [6]],
    }[together]
    assert one.places() == expected
    for chunk in one.chunks:
        size = models[chunk.places[0]].batch_size
        assert chunk.program.plan.batch_size == size
        assert chunk.end == updates_of_epoch(IMAGES, size)
        assert chunk.program.members == tuple(models[place].member for place in chunk.places)


def test_an_epoch_ends_after_its_updates_and_progress_counts_its_images(small_plan, together: int):
    made = small_plan()
    one, seen = begin(made, [model(made, size, seed) for seed, size in enumerate((8, 16, 8))]), []
    assert one.train(threading.Event(), progress=seen.append)
    assert sorted(zip(one.steps(), map(tuple, one.places()), strict=True)) == (
        [(3, (1,)), (5, (0,)), (5, (2,))] if together == 1 else [(3, (1,)), (5, (0, 2))]
    )
    assert sum(seen) == 5 * 8 * 2 + 3 * 16
    assert one.train(threading.Event(), progress=seen.append), "an epoch that is over stays over"
    assert sum(seen) == 5 * 8 * 2 + 3 * 16
    assert one.rows([0, 1, 2])["age"].tolist() == [5, 3, 5]


def test_epochs_without_selection_are_plain_training(small_plan):
    """Two epochs with nothing changed are ten updates of a program, to the last bit, and nobody is
    older than the clock.
    """
    made = small_plan("beta_tcvae")
    models = [model(made, 8, 3, beta=2.0)]
    one = trained(made, models)
    two = trained(made, models, 1, one.rows([0]))
    assert two.chunks[0].state.age.tolist() == [0]
    plan = replace(made[0], batch_size=8, steps=15, log_every=5, members=(models[0].member,))
    program = TrainingStep(plan, plan.members, made[1], CPU)
    state = program.start()
    for _ in range(10):
        program.step(state)
    assert equal(bits(two.chunks[0].state.tensors(), 0), bits(state.tensors(), 0))


KINDS: dict[str, tuple[Any, dict[str, Any], set[str]]] = {
    "plain": ("beta_vae", {}, set()),
    "memory": ("control_vae", {}, {"memory"}),
    "auxiliary": (
        "factor_vae",
        {},
        {"auxiliary.weights", "auxiliary.gradient_mean", "auxiliary.gradient_square"},
    ),
    "batch norm": (
        "beta_vae",
        {
            "network": "conv_batchnorm",
            "network_options": {},
            "data_options": {"x": 4, "y": 4, "scale": 2, "image_size": 32},
        },
        set(),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_has_every_bit_of_its_parent(small_plan, kind: str):
    objective, options, more = KINDS[kind]
    made = small_plan(objective, **options)
    one = trained(made, [model(made, size, seed) for seed, size in enumerate((16, 8, 16, 4))])
    parents = [
        one.chunks[[chunk.places for chunk in one.chunks].index((place,))].state
        for place in range(4)
    ]
    rows = one.rows([3, 1, 1, 0])
    adam = {"weights", "gradient_mean", "gradient_square"}
    assert (
        set(rows)
        == {"diverged_at", "window", "history", "age"} | {f"model.{name}" for name in adam} | more
    )
    assert rows["age"].tolist() == [10, 5, 5, 3]
    for tensor in (
        rows["model.gradient_mean"],
        rows["model.gradient_square"],
        *(rows[name] for name in more),
    ):
        assert (tensor != 0).any(dim=1).all(), "where nothing happened, nothing is shown"
    # The copies take other batch sizes than their parents had.
    two = begin(
        made, [model(made, size, 10 + place) for place, size in enumerate((8, 16, 4, 16))], 1, rows
    )
    for chunk in two.chunks:
        (place,) = chunk.places
        parent = parents[(3, 1, 1, 0)[place]]
        found, expected = chunk.state.tensors(), parent.tensors()
        assert found.keys() == expected.keys()
        for name in found.keys() - {"age"}:
            assert torch.equal(found[name].view(torch.uint8), expected[name].view(torch.uint8)), (
                name
            )
        assert (
            chunk.state.step
            == chunk.state.clock.item()
            == updates_of_epoch(IMAGES, chunk.program.plan.batch_size)
        )
        assert chunk.state.age.item() + chunk.state.step == parent.step
        if kind == "batch norm":
            running = chunk.program.layout.views(chunk.state.model.weights)[
                "encoder.norm1.running_mean"
            ]
            assert torch.equal(
                running,
                chunk.program.layout.views(parent.model.weights)["encoder.norm1.running_mean"],
            )
            assert (running != 0).any()


def test_copies_share_no_memory_with_their_parent_or_each_other(small_plan):
    made = small_plan("control_vae")
    one = trained(made, [model(made, seed=1), model(made, seed=2)])
    before = all_bits(one)
    rows = one.rows([0, 0])
    held = [bits(rows, at) for at in range(2)]
    trained(made, [model(made, seed=3), model(made, seed=4)], 1, rows)
    assert all(map(equal, all_bits(one), before))
    assert all(equal(bits(rows, at), held[at]) for at in range(2))


def test_the_moved_learning_rate_is_in_effect(small_plan, together: int):
    """Of two copies with the same batches, the one with twice the rate goes twice as far in the
    first update.
    """
    made = small_plan()
    one = trained(made, [model(made, rate=1e-3), model(made, 4, rate=5e-4)], epoch_images=8)
    rows = one.rows([0, 0, 0])
    two = trained(
        made,
        [model(made, seed=9, rate=rate) for rate in (1e-3, 2e-3, 5e-4)],
        1,
        rows,
        epoch_images=8,
    )
    start, end = rows["model.weights"].double(), two.rows([0, 1, 2])["model.weights"].double()
    steps = end - start
    assert steps[0].abs().max() > 5e-4
    torch.testing.assert_close(steps[1], 2 * steps[0], rtol=1e-3, atol=2e-7)
    torch.testing.assert_close(steps[2], 0.5 * steps[0], rtol=1e-3, atol=2e-7)


def test_the_moved_strength_is_in_effect(small_plan, together: int):
    """The recorded loss is the reconstruction and the new beta times the KL."""
    made = small_plan("beta_vae")
    one = trained(made, [model(made, beta=4.0)])
    two = trained(
        made,
        [model(made, seed=place, beta=beta) for place, beta in enumerate((4.0, 8.0, 2.0))],
        1,
        one.rows([0, 0, 0]),
    )
    reconstruction, kl, loss = two.rows([0, 1, 2])["history"][:, 1].unbind(dim=1)
    assert (kl > 0.01).all()
    torch.testing.assert_close(
        loss, reconstruction + torch.tensor([4.0, 8.0, 2.0]) * kl, rtol=1e-5, atol=1e-4
    )


def test_a_copy_trains_like_a_program_made_by_hand_with_the_new_values(small_plan):
    """Ray Tune's scheduler restores the old values with the old state (its issue 62173): here they
    are the new, to the last bit.
    """
    made = small_plan("factor_vae")
    one = trained(
        made, [model(made, 8, 1, rate=1e-3, gamma=5.0), model(made, 4, 2, rate=1e-4, gamma=40.0)]
    )
    parent = one.chunks[0].state
    moved = model(made, 16, epoch_seed(2, 1), rate=2e-3, gamma=4.0)
    two = trained(made, [model(made, 8, epoch_seed(1, 1), gamma=5.0), moved], 1, one.rows([0, 0]))

    def by_hand(changed: GenerationModel) -> dict[str, torch.Tensor]:
        plan = replace(made[0], batch_size=16, steps=9, log_every=3, members=(changed.member,))
        program = TrainingStep(plan, plan.members, made[1], CPU)
        # Five updates lie behind it, where the clock of batches of 16 stands at 3.
        tensors = {name: tensor.clone() for name, tensor in parent.tensors().items()} | {
            "age": torch.tensor([5 - 3])
        }
        state = State.from_tensors(tensors, 3, CPU)
        for _ in range(3):
            program.step(state)
        return bits(state.tensors() | {"age": state.age + state.clock}, 0)

    found = all_bits(two)[1]
    assert equal(found, by_hand(moved))
    for kept in ({"rate": 1e-3, "gamma": 4.0}, {"rate": 2e-3, "gamma": 5.0}):
        old = by_hand(model(made, 16, epoch_seed(2, 1), **kept))
        assert not torch.equal(found["model.weights"], old["model.weights"])


def test_a_copy_does_not_see_the_batches_of_its_parent(small_plan):
    made = small_plan()
    models = [model(made, 8, epoch_seed(7 + place, 1)) for place in range(2)]
    one = trained(made, [model(made, 8, 7), model(made, 8, 8)])
    two = begin(made, models, 1, one.rows([0, 0]))
    drawn = [chunk.program.draw(torch.arange(5, 10)) for chunk in two.chunks]
    assert not torch.equal(drawn[0].indices, drawn[1].indices)
    assert not (drawn[0].noise == drawn[1].noise).any()
    # Nor does anybody see again what it saw in the epoch before.
    first = one.chunks[0].program.draw(torch.arange(5))
    assert not torch.equal(drawn[0].indices, first.indices)
    assert not (drawn[0].noise == first.noise).any()


@pytest.mark.parametrize("objective", ["beta_vae", "factor_vae"])
def test_adam_counts_the_updates_of_the_member_itself(
    small_plan, monkeypatch: pytest.MonkeyPatch, objective: str
):
    """5 updates with batches of 8, 10 with 4, 3 with 16: torch's Adam with a counter of its own
    goes the same way.
    """
    calls: dict[int, list[tuple[Any, ...]]] = {}
    real = Adam.update

    def noted(
        adam: Adam, gradient: Any, healthy: Any, rate: Any, betas: Any, updates_before: Any
    ) -> None:
        told = (gradient.rows[0].clone(), float(rate[0]), betas, int(updates_before[0]))
        calls.setdefault(adam.weights.shape[1], []).append(told)
        real(adam, gradient, healthy, rate, betas, updates_before)

    monkeypatch.setattr(Adam, "update", noted)
    made = small_plan(objective)
    one = begin(made, [model(made, 8, 1)])
    groups = {adam.weights.shape[1]: adam for adam in one.chunks[0].state.optimisers}
    peers = {size: torch.nn.Parameter(adam.weights[0].clone()) for size, adam in groups.items()}
    one.train(threading.Event())
    for epoch, (size, rate) in enumerate([(4, 2e-3), (16, 5e-4)], start=1):
        one = trained(made, [model(made, size, 1 + epoch, rate)], epoch, one.rows([0]))
    state = one.chunks[0].state
    for adam in state.optimisers:
        own, peer = calls.pop(adam.weights.shape[1]), peers[adam.weights.shape[1]]
        assert [before for *_, before in own] == list(range(18))
        optimiser = torch.optim.Adam([peer], betas=own[0][2], eps=EPSILON)
        for gradient, rate, *_ in own:
            optimiser.param_groups[0]["lr"] = rate
            peer.grad = gradient
            optimiser.step()
        torch.testing.assert_close(adam.weights[0], peer.detach(), rtol=0, atol=2e-6)
    assert not calls


def second_epoch(made: Made) -> tuple[list[GenerationModel], Rows]:
    """Four models in their second epoch, some of them copies with other batch sizes than their
    parents had, and their rows.
    """
    one = trained(made, [model(made, size, seed) for seed, size in enumerate((8, 4, 8, 16))])
    models = [
        model(made, size, 20 + place, rate)
        for place, (size, rate) in enumerate([(8, 1e-3), (16, 2e-3), (4, 5e-4), (16, 1e-3)])
    ]
    return models, one.rows([0, 0, 1, 3])


def stop_after(count: int) -> tuple[threading.Event, Callable[[int], None]]:
    """An event, and a progress that sets it at its call number *count*."""
    stop, calls = threading.Event(), itertools.count(1)
    return stop, lambda images: stop.set() if next(calls) >= count else None


def test_stopped_and_taken_up_again_is_trained_at_once(small_plan, together: int):
    made = small_plan("control_vae")
    models, rows = second_epoch(made)
    whole, halves = trained(made, models, 1, rows), begin(made, models, 1, rows)
    stop, progress = stop_after(4)
    assert not halves.train(stop, progress=progress)
    assert any(chunk.end // 2 < chunk.state.step < chunk.end for chunk in halves.chunks), (
        "nothing stopped in the middle"
    )
    steps = halves.steps()
    assert not halves.train(stop), "a stop that is set stops at once"
    assert halves.steps() == steps
    assert halves.train(threading.Event())
    assert all(map(equal, all_bits(halves), all_bits(whole)))


def test_time_that_runs_out_changes_nothing(small_plan, monkeypatch: pytest.MonkeyPatch):
    made = small_plan()
    models, rows = second_epoch(made)
    whole, parts = trained(made, models, 1, rows), begin(made, models, 1, rows)
    # Every look at the clock is a second.
    monkeypatch.setattr(
        generation_module, "time", SimpleNamespace(monotonic=itertools.count().__next__)
    )
    assert not parts.train(threading.Event(), seconds=0)
    assert parts.steps() == begin(made, models, 1, rows).steps()
    calls = 1
    while not parts.train(threading.Event(), seconds=10):
        calls += 1
    assert calls >= 3
    assert all(map(equal, all_bits(parts), all_bits(whole)))


def test_a_file_in_the_middle_of_an_epoch_holds_everything(
    small_plan, tmp_path: Path, together: int
):
    made = small_plan("factor_vae")
    models, rows = second_epoch(made)
    whole, broken_off = trained(made, models, 1, rows), begin(made, models, 1, rows)
    stop, progress = stop_after(4)
    assert not broken_off.train(stop, progress=progress)
    about = {"places": broken_off.places(), "steps": broken_off.steps()}
    write_tensors(tmp_path / "state.safetensors", broken_off.tensors(), about)
    tensors, told = read_tensors(tmp_path / "state.safetensors")
    stored, clocks = stored_rows(tensors, told["places"], told["steps"])
    assert clocks == [
        broken_off.steps()[number]
        for place in range(4)
        for number, own in enumerate(broken_off.places())
        if place in own
    ]
    assert all(equal(bits(stored, place), own) for place, own in enumerate(all_bits(broken_off)))
    again = begin(made, models, 1, stored, clocks=clocks)
    assert sum(again.steps()) > sum(begin(made, models, 1, rows).steps())
    assert again.train(threading.Event())
    assert all(map(equal, all_bits(again), all_bits(whole)))
    # What is done when the file is written stays done.
    done, done_clocks = stored_rows(whole.tensors(), whole.places(), whole.steps())
    over = begin(made, models, 1, done, clocks=done_clocks)
    assert all(chunk.done for chunk in over.chunks)
    assert all(map(equal, all_bits(over), all_bits(whole)))


def test_a_diverged_model_is_frozen_and_no_other_notices(small_plan, together: int):
    made = small_plan("beta_vae")
    healthy = [model(made, size, place) for place, size in enumerate((8, 8, 4, 8))]
    broken = [*healthy[:1], model(made, 8, 1, rate=1e30), *healthy[2:]]
    whole, one = trained(made, healthy), trained(made, broken)
    assert whole.diverged() == [False] * 4
    assert one.diverged() == [False, True, False, False]
    assert [
        equal(left, right) for left, right in zip(all_bits(one), all_bits(whole), strict=True)
    ] == [True, False, True, True]
    frozen = one.rows([1])
    assert torch.isfinite(frozen["model.weights"]).all()
    # Kept as it is, it stays frozen where it stands; replaced, its place is a healthy copy.
    two = trained(made, [model(made, 8, 5), model(made, 8, 6)], 1, one.rows([1, 0]))
    assert two.diverged() == [True, False]
    assert torch.equal(two.rows([0])["model.weights"], frozen["model.weights"])
    assert not torch.equal(two.rows([1])["model.weights"], one.rows([0])["model.weights"])
    assert torch.isnan(two.rows([0])["history"]).all()


def test_history_has_one_record_an_epoch_which_copies_inherit(small_plan):
    made = small_plan("beta_vae")
    models = [model(made, 8, 1), model(made, 4, 2)]
    one = trained(made, models)
    first = one.rows([0, 1])
    assert first["history"].shape == (2, EPOCHS, 3)
    assert torch.isfinite(first["history"][:, 0]).all()
    assert torch.isnan(first["history"][:, 1:]).all()
    # The record is the mean over the updates of the epoch.
    for place, (size, updates) in enumerate([(8, 5), (4, 10)]):
        plan = replace(
            made[0], batch_size=size, steps=updates, log_every=1, members=(models[place].member,)
        )
        program = TrainingStep(plan, plan.members, made[1], CPU)
        state = program.start()
        for _ in range(updates):
            program.step(state)
        torch.testing.assert_close(
            first["history"][place, 0], state.history[0].mean(dim=0), rtol=1e-5, atol=1e-5
        )
    two = trained(made, [model(made, 4, 3), model(made, 16, 4)], 1, one.rows([1, 1]))
    history = two.rows([0, 1])["history"]
    assert torch.equal(history[:, 0], first["history"][[1, 1], 0])
    assert torch.isfinite(history[:, 1]).all()
    assert not torch.equal(history[0, 1], history[1, 1])
    assert torch.isnan(history[:, 2]).all()
    three = trained(made, [model(made, 8, 5)], 2, two.rows([1]))
    assert torch.equal(three.rows([0])["history"][0, :2], history[1, :2])
    assert torch.isfinite(three.rows([0])["history"]).all()


def test_an_error_in_one_chunk_is_raised_and_stops_the_others(small_plan):
    made = small_plan()
    one, stop = begin(made, [model(made, 8, seed) for seed in range(4)]), threading.Event()

    def fail(images: int) -> None:
        raise RuntimeError("of the progress bar")

    with pytest.raises(RuntimeError, match="of the progress bar"):
        one.train(stop, progress=fail)
    assert stop.is_set()
    assert not all(chunk.done for chunk in one.chunks)


# The memory of the device.


def test_chunks_gather_their_rows_from_the_old_ones_and_hold_no_others(small_plan, together: int):
    made = small_plan("factor_vae")
    old = trained(made, [model(made, size, seed) for seed, size in enumerate((8, 4, 8, 16, 4))])
    places = [3, 3, 0, 4, 1]
    asked: list[tuple[tuple[int, ...], Rows]] = []

    def heritage(part: Sequence[int]) -> Rows:
        asked.append((tuple(part), old.rows([places[place] for place in part])))
        return asked[-1][1]

    models = [model(made, size, 30 + seed) for seed, size in enumerate((8, 8, 4, 16, 4))]
    new, plain = begin(made, models, 1, heritage), begin(made, models, 1, old.rows(places))
    assert [part for part, _ in asked] == [chunk.places for chunk in new.chunks]
    assert sorted(place for part, _ in asked for place in part) == list(range(5))
    for chunk, (_, rows) in zip(new.chunks, asked, strict=True):
        for name, tensor in chunk.state.tensors().items():
            assert name == "age" or tensor.data_ptr() == rows[name].data_ptr(), (
                f"{name} was copied once more"
            )
    for left, right in zip(all_bits(new), all_bits(plain), strict=True):
        assert equal(left, right)
    assert new.train(threading.Event())
    assert plain.train(threading.Event())
    for left, right in zip(all_bits(new), all_bits(plain), strict=True):
        assert equal(left, right)


@given(
    places=some.lists(some.integers(0, 4), min_size=1, max_size=7),
    sizes=some.sampled_from([1, 2, 3, 5]),
)
def test_rows_come_in_the_order_asked_for(places: list[int], sizes: int):
    """Five models in chunks of several sizes, each with its number for a state: what is gathered
    are the numbers asked for.
    """
    chunks = []
    order = [4, 2, 0, 3, 1]
    for first in range(0, 5, sizes):
        part = order[first : first + sizes]
        numbers = torch.tensor(part, dtype=torch.float64)
        state = SimpleNamespace(
            tensors=lambda numbers=numbers: {"number": numbers[:, None].repeat(1, 3)}
        )
        state.age, state.clock = numbers.long(), torch.tensor(100)
        chunks.append(SimpleNamespace(places=tuple(part), state=state))
    one = Generation.__new__(Generation)
    one.device, one.chunks = CPU, chunks
    rows = one.rows(places)
    assert rows["number"].tolist() == [[float(place)] * 3 for place in places]
    assert rows["age"].tolist() == [100 + place for place in places]


FULL = (
    "the memory of cpu, which others may use too, has no room for {}. Free some memory and go on"
    " with `unbraid resume`, or begin anew with a smaller population, fewer models or smaller batch"
    " sizes."
)


def run_out(*_: Any, **__: Any) -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")


@pytest.mark.parametrize(
    "owner", [(TrainingStep, "start"), (TrainingStep, "__init__"), (State, "from_tensors")]
)
def test_too_little_memory_for_a_population_is_told_with_a_remedy(
    small_plan, monkeypatch: pytest.MonkeyPatch, owner: tuple[Any, str]
):
    made = small_plan()
    rows = begin(made, [model(made)]).rows([0]) if owner[0] is State else None
    monkeypatch.setattr(*owner, run_out)
    with pytest.raises(UnbraidError) as told:
        begin(
            made,
            [model(made, 8, seed) for seed in range(3)],
            0 if rows is None else 1,
            rows and rows_of_three(rows),
        )
    assert str(told.value) == FULL.format("a population of 3 models")
    assert isinstance(told.value.__cause__, torch.OutOfMemoryError)


def rows_of_three(rows: Rows) -> Rows:
    return {name: tensor.repeat(3, *[1] * (tensor.ndim - 1)) for name, tensor in rows.items()}


def test_too_little_memory_for_copies_or_a_step_is_told_with_a_remedy(
    small_plan, monkeypatch: pytest.MonkeyPatch
):
    made = small_plan()
    one = trained(made, [model(made, 8, seed) for seed in range(3)])
    with monkeypatch.context() as patch:
        patch.setattr(generation_module, "_gathered", run_out)
        with pytest.raises(UnbraidError) as told:
            one.rows([0, 1])
    assert str(told.value) == FULL.format("a copy of 2 models")
    monkeypatch.setattr(TrainingStep, "step", run_out)
    with pytest.raises(UnbraidError) as told:
        trained(made, [model(made)])
    assert str(told.value) == FULL.format("a chunk of 1 model")


STEPS_GONE_ON_WITH: dict[str, tuple[str, dict[str, Any], list[dict[str, Any]]]] = {
    "a number": ("beta_vae", {}, [{"beta": 2.0}, {"beta": 9.0}]),
    "schedules": (
        "annealed_vae",
        {},
        [{"max_capacity": "linear(0, 5, 9)"}, {"max_capacity": "cosine(1, 3, 20)"}],
    ),
    "memory": ("control_vae", {}, [{"capacity": 2.0}, {"capacity": 9.0}]),
    "auxiliary": ("factor_vae", {}, [{"gamma": 5.0}, {"gamma": 40.0}]),
    "a prior": ("decomposition", {"prior": "student_t"}, [{"alpha": 1.0}, {"alpha": 3.0}]),
}


def _keeps_captured_steps(patch: pytest.MonkeyPatch) -> None:
    """As a GPU with room does."""
    patch.setattr(generation_module.Stepper, "captured", property(lambda self: True))
    patch.setattr(Generation, "_has_room", lambda self: True)


@pytest.mark.parametrize("what", STEPS_GONE_ON_WITH)
def test_a_captured_step_gone_on_with_trains_other_members_to_the_bit(
    small_plan, what: str, monkeypatch: pytest.MonkeyPatch
):
    objective, options, (old, new) = STEPS_GONE_ON_WITH[what]
    _keeps_captured_steps(monkeypatch)
    made = small_plan(objective, **options)
    one = trained(made, [model(made, 8, seed, **old) for seed in (1, 2)])
    rows = one.rows([1, 1])
    models = [model(made, 8, seed, rate=2e-3, **new) for seed in (3, 4)]
    fresh = all_bits(trained(made, models, 1, rows))
    held = one.chunks[0].stepper
    two = trained(made, models, 1, rows, before=one)
    assert two.chunks[0].stepper is held, "the captured step was not gone on with"
    assert all(map(equal, all_bits(two), fresh))
    last = [model(made, 8, seed, **old) for seed in (5, 6)]
    rows = two.rows([0, 1])
    anew = all_bits(trained(made, last, 2, rows))
    assert all(map(equal, all_bits(trained(made, last, 2, rows, before=two)), anew))


def test_a_captured_step_is_gone_on_with_only_by_members_of_its_form(
    small_plan, monkeypatch: pytest.MonkeyPatch
):
    _keeps_captured_steps(monkeypatch)
    monkeypatch.setattr(generation_module, "chunk_size", lambda plan, dataset, device: 2)
    made = small_plan("control_vae")
    one = trained(made, [model(made, 8, seed) for seed in (1, 2)])
    others = {
        "batch size": [model(made, 4, 3), model(made, 4, 4)],
        "fewer": [model(made, 8, 3)],
        "another kind": [model(made, 8, seed, anti_windup="published") for seed in (3, 4)],
        "a schedule": [model(made, 8, seed, capacity="linear(0, 5, 9)") for seed in (3, 4)],
    }
    for name, models in others.items():
        rows = one.rows(range(len(models)))
        two = begin(made, models, 1, rows, before=one)
        assert two.train(threading.Event())
        assert two.chunks[0].stepper is not one.chunks[0].stepper, name
        assert all(map(equal, all_bits(two), all_bits(trained(made, models, 1, rows))))


def test_until_a_chunk_begins_the_old_population_is_whole(
    small_plan, monkeypatch: pytest.MonkeyPatch
):
    """It is what is saved where something goes wrong before."""
    _keeps_captured_steps(monkeypatch)
    made = small_plan()
    one = trained(made, [model(made)])
    before = all_bits(one)
    two = begin(made, [model(made, seed=3)], 1, one.rows([0]), before=one)
    stop = threading.Event()
    stop.set()
    two.train(stop)
    assert all(map(equal, all_bits(one), before))


@pytest.mark.gpu
@pytest.mark.parametrize("what", STEPS_GONE_ON_WITH)
def test_on_a_gpu_a_replayed_step_trains_other_members_to_the_bit(small_plan, what: str):
    objective, options, (old, new) = STEPS_GONE_ON_WITH[what]
    plan, dataset = small_plan(objective, **CONVOLUTIONS, **options)
    made, device = (replace(plan, precision="bfloat16"), dataset), torch.device("cuda")
    sampler = dataset.sampler(device)

    def on_gpu(models: list[GenerationModel], epoch: int, **given: Any) -> Generation:
        settings = {"epoch": epoch, "epochs": 2, "epoch_images": 400, **given}
        one = Generation(made[0], models, dataset, device, sampler, **settings)
        assert one.train(threading.Event())
        return one

    one = on_gpu([model(made, 8, seed, **old) for seed in (1, 2)], 0)
    (held,) = one.captured()
    assert held.captured
    rows = one.rows([1, 1])
    models = [model(made, 8, seed, rate=2e-3, **new) for seed in (3, 4)]
    fresh = all_bits(on_gpu(models, 1, rows=rows))
    two = on_gpu(models, 1, rows=rows, before=one)
    assert two.captured() == [held]
    assert all(map(equal, all_bits(two), fresh))


@pytest.mark.gpu
def test_on_a_gpu_copies_stay_there_and_train_as_on_a_cpu(small_plan):
    made = small_plan("beta_tcvae")
    first = [model(made, size, seed) for seed, size in enumerate((8, 4, 8, 16, 4, 8))]
    second = [model(made, size, 20 + seed, 2e-3) for seed, size in enumerate((8, 8, 4, 4, 16, 10))]
    histories = {}
    for device in (torch.device("cuda"), CPU):
        one, rows = None, None
        for epoch, models in enumerate((first, second)):
            rows = None if one is None else one.rows([0, 0, 2, 4, 4, 5])
            options = {"epoch": epoch, "epochs": 2, "epoch_images": 400, "rows": rows}
            one = Generation(made[0], models, made[1], device, made[1].sampler(device), **options)
            assert one.train(threading.Event())
        assert one is not None
        assert rows is not None
        assert {tensor.device.type for tensor in rows.values()} == {device.type}
        assert len(one.chunks) == (4 if device.type == "cuda" else 6)
        histories[device.type] = one.rows(range(6))["history"].cpu()
    assert torch.isfinite(histories["cpu"]).all()
    torch.testing.assert_close(histories["cuda"], histories["cpu"], rtol=0.02, atol=0.02)


def test_however_often_ctrl_c_is_pressed_the_workers_are_joined():
    calls = []

    class Pool:
        def shutdown(self, wait: bool) -> None:
            calls.append(wait)
            if len(calls) < 3:
                raise KeyboardInterrupt

    generation_module._join(Pool())  # pyright: ignore[reportArgumentType]
    assert calls == [True, True, True]


# Chunks of one width.


def widths(one: Generation) -> list[int]:
    return [len(chunk.program.members) for chunk in one.chunks]


def test_chunks_of_one_width_are_filled_up_with_copies_that_nobody_sees(small_plan):
    made = small_plan("beta_vae")
    models = [model(made, size, seed) for seed, size in enumerate((8, 4, 8, 8, 4))]
    one = trained(made, models, together=2)
    assert [chunk.places for chunk in one.chunks] == [(0, 2), (3,), (1, 4)]
    assert widths(one) == [2, 2, 2]
    assert len(one.diverged()) == 5
    assert {len(tensor) for tensor in one.tensors().values()} == {1, 2}
    rows, clocks = stored_rows(one.tensors(), one.places(), one.steps())
    assert clocks == [5, 10, 5, 5, 10]
    again = begin(made, models, rows=rows, clocks=clocks, together=2)
    assert widths(again) == [2, 2, 2]
    assert all(map(equal, all_bits(one), all_bits(again)))


def test_a_model_is_the_same_to_the_last_bit_whoever_trains_in_its_chunk(small_plan):
    """What two searches are compared by: of one width, neighbours and their number say nothing."""
    made = small_plan("beta_vae", **CONVOLUTIONS)
    first = model(made, 8, 7, beta=2.0)
    alone = trained(made, [first], together=3)
    among = trained(
        made, [model(made, 4, 1), first, model(made, 8, 2), model(made, 8, 3)], together=3
    )
    assert equal(all_bits(alone)[0], all_bits(among)[1])


def test_the_next_epoch_begins_from_models_alone(small_plan):
    made = small_plan("beta_vae")
    one = trained(made, [model(made, 8, seed) for seed in range(3)], together=2)
    picked = one.rows([2, 2, 0])
    following = begin(
        made, [model(made, 8, 5), model(made, 8, 6), model(made, 8, 0)], 1, picked, together=2
    )
    assert all(equal(all_bits(following)[at], bits(picked, at)) for at in range(3))
