# SPDX-License-Identifier: Apache-2.0
"""A step without the host: several updates captured once as a CUDA graph and replayed.

A plain step launches a few hundred kernels, and below a hundred members the device waits for the
host between them. A replay is one launch. The graph reads the step number from the device's own
clock, draws the numbers of all its steps first, and changes the state in place; the host looks only
when it wants to know something.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from unbraid.core.cuda_streams import stream_of
from unbraid.core.kernel_launch import compiling_in_parallel
from unbraid.networks.layers import uses_kernels
from unbraid.population.state import State
from unbraid.population.training_step import TrainingStep

_STEPS_BEFORE_CAPTURE = 2
"""In the first steps kernels are compiled and workspaces made, which a capture must not see."""
UPDATES_OF_A_GRAPH = 8
"""Draws and the launch of a replay weigh little against so many; captures and what is left over at
the end, done step by step, weigh more with each.
"""
_REPLAYS_AHEAD = 4


def rehearse(training: TrainingStep) -> None:
    """Compile the kernels of a step, all at once, by a step that nobody keeps.

    It sees blank images: the data may still be on their way to the device.
    """
    if not uses_kernels(training.device):
        return

    def blank(indices: Tensor, *_: Tensor) -> Tensor:
        shape = (*indices.shape, *training.dataset.sample_shape)
        return torch.zeros(shape, device=training.device)

    sampler, training.sampler = training.sampler, blank
    try:
        with compiling_in_parallel(training.device):
            state = training.start()
            training.prepare(state)
            training.update(state, training.draw(state.clock.view(1)), 0)
    except torch.cuda.OutOfMemoryError:
        raise
    except Exception:
        return  # an objective of someone's own may refuse what was in memory; training will tell
    finally:
        training.sampler = sampler


class Stepper:
    """Advances one chunk: step by step on a CPU, by replays of a captured graph on a GPU."""

    def __init__(
        self,
        training: TrainingStep,
        state: State,
        warn: Callable[[str], None] = lambda line: None,
        *,
        updates: int = UPDATES_OF_A_GRAPH,
    ) -> None:
        """*updates* are captured as one graph: fewer cost less to capture and leave fewer over."""
        self.training = training
        self._updates = updates
        self.state = state
        self._warn = warn
        self._graph: torch.cuda.CUDAGraph | None = None
        self._steps_before_capture: float = _STEPS_BEFORE_CAPTURE
        self._events: list[torch.cuda.Event] = []
        training.prepare(state)

    def advance(self, at_most: int) -> int:
        """Do as many updates as suit the device, 1 to *at_most*; returns their number."""
        if self.training.device.type != "cuda" or at_most < self._updates or not self._captured():
            self.training.step(self.state)
            self._steps_before_capture -= 1
            return 1
        assert self._graph is not None
        self._graph.replay()
        self.state.step += self._updates
        self._stay_near()
        return self._updates

    @property
    def captured(self) -> bool:
        """Whether it has a graph, which costs a second to make."""
        return self._graph is not None

    def go_on(self, training: TrainingStep, state: State) -> None:
        """Advance the members of *training* from *state* on, by the graph that is there: both are
        written in place, *state* is not needed any more. `TrainingStep.can_become` says whether
        that is possible.
        """
        self.training.become(training)
        self.state.become(state)

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
        self.training.forget_draws()
        torch.cuda.synchronize(self.training.device)
        torch.cuda.empty_cache()
        device, graph = self.training.device, torch.cuda.CUDAGraph()
        with torch.cuda.device(device):
            # A stream of this device: the library's own belongs to whichever device captured first.
            with torch.cuda.graph(
                graph, stream=stream_of(device, "capture"), capture_error_mode="thread_local"
            ):
                draws = self.training.draw(
                    self.state.clock + torch.arange(self._updates, device=device)
                )
                for at in range(self._updates):
                    self.training.update(self.state, draws, at)
        return graph

    def _stay_near(self) -> None:
        """Let the host run only a few replays ahead: progress is true and stops are quick."""
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(self.training.device))
        self._events.append(event)
        if len(self._events) > _REPLAYS_AHEAD:
            self._events.pop(0).synchronize()
