# SPDX-License-Identifier: Apache-2.0
"""Scores of the members of finished chunks, made while other chunks train on the same GPU."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from queue import SimpleQueue

import torch

from unbraid.codes.codes import CodeStore
from unbraid.core.cuda_streams import stream_of
from unbraid.population.devices import dataset_bytes
from unbraid.population.member import Member
from unbraid.population.run_folder import RunFolder
from unbraid.scoring.metric_names import needs
from unbraid.scoring.run_scores import score_members

_BESIDE_DATA = 2**33
"""Bytes that encoding a batch and growing trees take at most."""
_ROOMY = 40e9
"""Bytes of a GPU whose share that training leaves free, a fifth, holds what encodes and scores."""


class _Stop(Exception):
    """Training was stopped."""


class ScoringWhileTraining:
    """Encodes chunks that are done and scores them by *names*, in a thread and in processes.

    Standard errors come with them as *errors* says.

    It keeps what `score_run` would compute later and says nothing: whatever it cannot do, or fails
    at, is left to that. Metrics that compare models wait for all of them, and `elbo` for
    reconstructions.
    """

    def __init__(
        self, run: RunFolder, names: Sequence[str], device: torch.device, errors: str = "none"
    ) -> None:
        self._run, self._device, self._errors = run, device, errors
        self._names = [name for name in names if needs(name) not in ("population", "elbo")]
        self._chunks: SimpleQueue[tuple[Member, ...] | None] = SimpleQueue()
        self._stopped = False
        self._thread = threading.Thread(target=self._work, name="unbraid-score", daemon=True)
        self._thread.start()

    @staticmethod
    def pays(device: torch.device) -> bool:
        """Whether cores are free while *device* trains, and its memory has room."""
        return (
            device.type == "cuda"
            and torch.cuda.get_device_properties(device).total_memory >= _ROOMY
        )

    def chunk_done(self, chunk: tuple[Member, ...]) -> None:
        """Take a chunk whose results are on disk; returns at once, in any thread."""
        self._chunks.put(chunk)

    def finish(self) -> None:
        """Wait until every chunk so far is scored."""
        self._chunks.put(None)
        self._thread.join()

    def stop(self) -> None:
        """Leave what is not scored yet; what is scored is kept."""
        self._stopped = True
        self.finish()

    def _work(self) -> None:
        # On a stream of its own it need not wait for what is queued for training.
        own = stream_of(self._device, "score") if self._device.type == "cuda" else None
        with torch.cuda.stream(own):
            while (chunk := self._chunks.get()) is not None:
                try:
                    self._score(chunk)
                except (Exception, KeyboardInterrupt):
                    continue  # memory, disk, another process that scores: `score_run` will say it

    def _has_room(self) -> bool:
        """Whether the data once more and what encodes and scores fit beside training."""
        if self._device.type != "cuda":
            return True
        free, _ = torch.cuda.mem_get_info(self._device)
        return free >= dataset_bytes(self._run.dataset) + _BESIDE_DATA

    def _score(self, chunk: tuple[Member, ...]) -> None:
        def advance(scores: int, found_done: bool) -> None:
            if self._stopped:
                raise _Stop

        advance(0, True)
        if not self._has_room():
            return
        CodeStore(self._run).encode(self._device, chunk=chunk)
        diverged_at = self._run.trained(chunk).diverged_at.tolist()
        healthy = [one.id for one, at in zip(chunk, diverged_at, strict=True) if at < 0]
        score_members(
            self._run,
            self._names,
            ["mean"],
            healthy,
            advance,
            lambda line: None,
            self._device,
            self._errors,
        )
