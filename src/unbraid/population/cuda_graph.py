# SPDX-License-Identifier: Apache-2.0
"""A step without the host: several updates captured once as a CUDA graph and replayed.

A plain step launches a few hundred kernels, and below a hundred members the device waits for the
host between them. A replay is one launch. The graph reads the step number from the device's own
clock, draws the numbers of all its steps first, and changes the state in place; the host looks only
when it wants to know something.

The members of a chunk are captured in lanes, side by side: while the kernels of one lane leave a
part of the device idle, those of another fill it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import torch

from unbraid.core.kernel_launch import compiling_in_parallel
from unbraid.networks.layers import uses_kernels
from unbraid.population.state import State
from unbraid.population.training_step import DRAWN_AT_ONCE, TrainingStep

_STEPS_BEFORE_CAPTURE = 2
"""In the first steps kernels are compiled and workspaces made, which a capture must not see."""
_REPLAYS_AHEAD = 2
_MOST_LANES = 4
_MEMBERS_PER_LANE = 2
"""Fewer in a lane cost more launches than they fill gaps."""


class _Lane(NamedTuple):
    """Members that are captured on a stream of their own."""

    training: TrainingStep
    state: State
    """Rows of the chunk's state."""


class Stepper:
    """Advances one chunk: step by step on a CPU, by replays of a captured graph on a GPU."""

    def __init__(
        self, training: TrainingStep, state: State, warn: Callable[[str], None] = lambda line: None
    ) -> None:
        self.device = training.device
        self.state = state
        self._warn = warn
        self._graph: torch.cuda.CUDAGraph | None = None
        self._steps_before_capture: float = _STEPS_BEFORE_CAPTURE
        self._events: list[torch.cuda.Event] = []
        self.lanes = _lanes(training, state)
        if uses_kernels(self.device):
            _rehearse(self.lanes)
        for lane in self.lanes:
            lane.training.prepare(lane.state)

    def advance(self, at_most: int) -> int:
        """Do as many updates as suit the device, 1 to *at_most*; returns their number."""
        if self.device.type != "cuda" or at_most < DRAWN_AT_ONCE or not self._captured():
            for lane in self.lanes:
                lane.training.step(lane.state)
            self.state.step = self.lanes[0].state.step
            self._steps_before_capture -= 1
            return 1
        assert self._graph is not None
        self._graph.replay()
        self.state.step += DRAWN_AT_ONCE
        for lane in self.lanes:
            lane.state.step = self.state.step
        self._stay_near()
        return DRAWN_AT_ONCE

    def _captured(self) -> bool:
        """Whether there is a graph to replay; it is captured once that is due and possible."""
        if self._graph is None and self._steps_before_capture <= 0:
            try:
                self._graph = self._capture()
            except torch.cuda.OutOfMemoryError:
                raise
            except RuntimeError as error:
                # An objective or a dataset of someone's own may ask the host in the middle of a
                # step.
                self._steps_before_capture = math.inf
                reason = str(error).splitlines()[0]
                self._warn(
                    "a step cannot be captured as a CUDA graph, so training goes on step by step,"
                    f" slower: {reason}"
                )
        return self._graph is not None

    def _capture(self) -> torch.cuda.CUDAGraph:
        for lane in self.lanes:
            lane.training.forget_draws()
        torch.cuda.synchronize(self.device)
        torch.cuda.empty_cache()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(self.device):
            # Streams of this device: the library's own belongs to whichever device captured first.
            first, *others = (torch.cuda.Stream(self.device) for _ in self.lanes)
            with torch.cuda.graph(graph, stream=first, capture_error_mode="thread_local"):
                for stream in others:
                    stream.wait_stream(first)
                # Launches take turns, so that no lane's kernels stand behind all of another's.
                draws = []
                for lane, stream in zip(self.lanes, (first, *others), strict=True):
                    with torch.cuda.stream(stream):
                        steps = lane.state.clock + torch.arange(DRAWN_AT_ONCE, device=self.device)
                        draws.append(lane.training.draw(steps))
                for at in range(DRAWN_AT_ONCE):
                    for lane, drawn, stream in zip(
                        self.lanes, draws, (first, *others), strict=True
                    ):
                        with torch.cuda.stream(stream):
                            lane.training.update(lane.state, drawn, at)
                for stream in others:
                    first.wait_stream(stream)
        return graph

    def _stay_near(self) -> None:
        """Let the host run only a few replays ahead: progress is true and stops are quick."""
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(self.device))
        self._events.append(event)
        if len(self._events) > _REPLAYS_AHEAD:
            self._events.pop(0).synchronize()


def _lanes(training: TrainingStep, state: State) -> list[_Lane]:
    """The members of a chunk in lanes of equal size; one where kernels of our own do not run."""
    if not uses_kernels(training.device) or len(training.members) < 2 * _MEMBERS_PER_LANE:
        return [_Lane(training, state)]
    members = len(training.members)
    count = min(_MOST_LANES, members // _MEMBERS_PER_LANE)
    cuts = [round(members * number / count) for number in range(count + 1)]
    places = [slice(first, last) for first, last in itertools.pairwise(cuts)]
    lanes = [_Lane(training.part(one), training.part_of_state(state, one)) for one in places]
    lanes[0].state.clock = state.clock  # the clock of the whole goes with it
    return lanes


def _rehearse(lanes: list[_Lane]) -> None:
    """Compile the kernels of a step, all at once, by a step that nobody keeps."""
    with compiling_in_parallel(lanes[0].training.device):
        # Lanes differ by a member at most, but kinds and few or many members have their own.
        for lane in lanes:
            copy = lane.state.copy()
            lane.training.prepare(copy)
            lane.training.update(copy, lane.training.draw(copy.clock.view(1)), 0)
