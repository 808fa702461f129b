# SPDX-License-Identifier: Apache-2.0
"""Networks of one's own as plain `torch.nn.Module`s.

Subclass `ModuleNetwork` and return an encoder and a decoder.

    @dataclass(frozen=True)
    class MyNetwork(ModuleNetwork):
        "What it is, in one sentence."

        width: int = 32
        citation = Citation("Me", 2026, "My network")

        def encoder(self, sample_shape, latents):
            return MyEncoder(sample_shape, latents, self.width)
        def decoder(self, sample_shape, latents):
            return MyDecoder(sample_shape, latents, self.width)

    unbraid.networks.NETWORKS.register("my_network", MyNetwork)

The modules are written for one model and hold no state here: parameters and floating-point buffers
become weights with a member axis, and `torch.func` calls the module with each member's own. Members
start from the module's own initialisation. In training the module is in training mode, and what it
writes into its buffers (batch norm's running means) is noted for the member; elsewhere it is in
evaluation mode. Several members go through `torch.func.vmap`: slower than our networks, whose
layers know the member axis, and always in the precision of the weights, since which layers are
heavy is not known.

Refused, each with a reason: modules that draw random numbers (dropout), since a member's numbers
must depend on its seed and step alone, and batch norm with a cumulative average (momentum None),
which asks the host for a count.
"""

from __future__ import annotations

import functools
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from unbraid.core import random
from unbraid.core.errors import InputError, Problem, Shown, invalid
from unbraid.networks.layout import Layout, Weight
from unbraid.networks.network import Network, TrainedWeights, Weights

HALVES = ("encoder", "decoder")
_LATENTS = "latents"
"""A weight without numbers, whose shape tells how many latents the modules are to be built for."""
_PROBE_BATCH, _PROBE_LATENTS = 3, 2


@dataclass(frozen=True)
class ModuleNetwork(Network):
    """A network made of two modules. Fields are its options: numbers, words, or tuples of them."""

    def __post_init__(self) -> None:
        """Keep lists, as a stored plan has them, as tuples."""
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, list):
                object.__setattr__(self, item.name, tuple(value))

    @abstractmethod
    def encoder(self, sample_shape: tuple[int, ...], latents: int) -> nn.Module:
        """A module from samples `(batch, *sample_shape)` to mean and log-variance.

        Each is `(batch, latents)`.
        """

    @abstractmethod
    def decoder(self, sample_shape: tuple[int, ...], latents: int) -> nn.Module:
        """A module from latents `(batch, latents)` to raw outputs `(batch, *sample_shape)`."""

    @property
    def uses_columns(self) -> bool:
        """Nobody knows what it holds in memory; the larger estimate is the safe one."""
        return True

    @property
    def lowers_precision(self) -> bool:
        """Which of its layers are heavy is not known."""
        return False

    def problems(self, sample_shape: tuple[int, ...]) -> list[Problem]:
        """Builds both modules and tries them on a few samples; says what does not fit."""
        try:
            hash(self)
        except TypeError:
            rule = "must be numbers, words or tuples of them"
            return [Problem(f"options of network {type(self).__name__}", rule, self.options())]
        codes = (_PROBE_BATCH, _PROBE_LATENTS)
        generator = torch.Generator().manual_seed(0)
        x, z = (
            torch.rand(_PROBE_BATCH, *sample_shape, generator=generator),
            torch.randn(*codes, generator=generator),
        )
        return [
            *_complaints(self, "encoder", x, sample_shape, [codes, codes]),
            *_complaints(self, "decoder", z, sample_shape, [tuple(x.shape)]),
        ]

    def layout(self, sample_shape: tuple[int, ...], latents: int) -> Layout:
        """The parameters and buffers of both modules as `encoder.<name>` and `decoder.<name>`."""
        weights = [Weight(_LATENTS, (latents, 0))]
        for half in HALVES:
            module = _built(self, half, sample_shape, latents, 0)
            weights += [
                Weight(f"{half}.{name}", tuple(tensor.shape)) for name, tensor in _state(module)
            ]
        return ModuleLayout(
            tuple(weights), network=self, sample_shape=sample_shape, latents=latents
        )

    def encode(
        self, weights: Weights, x: Tensor, precision: torch.dtype | None = None
    ) -> tuple[Tensor, Tensor]:
        """The encoder of every member on its samples; *precision* has no say."""
        mean, logvar = self._call("encoder", weights, x, tuple(x.shape[2:]))
        return mean, logvar

    def decode(
        self,
        weights: Weights,
        z: Tensor,
        sample_shape: tuple[int, ...],
        precision: torch.dtype | None = None,
    ) -> Tensor:
        """The decoder of every member on its latents; *precision* has no say."""
        return self._call("decoder", weights, z, sample_shape)

    def _call(self, half: str, weights: Weights, x: Tensor, sample_shape: tuple[int, ...]) -> Any:
        training = isinstance(weights, TrainedWeights)
        latents = weights[_LATENTS].shape[1]
        # A call puts the members' weights into the module for its time, so that no two threads may
        # share one.
        module, trained, kept = _callable(
            self, half, sample_shape, latents, training, x.device, threading.get_ident()
        )
        own = {name: weights[f"{half}.{name}"] for name in trained}
        for name in kept:
            own[name] = weights[f"{half}.{name}"].detach()
            if training:
                # The module changes its buffers in place; what it changes is a copy, from which the
                # next call goes on.
                own[name] = weights.notes.get(f"{half}.{name}", own[name]).clone()
                weights.notes[f"{half}.{name}"] = own[name]
        if x.shape[0] == 1:
            out = functional_call(
                module, {name: tensor.squeeze(0) for name, tensor in own.items()}, (x.squeeze(0),)
            )
            return (
                tuple(part.unsqueeze(0) for part in out) if half == "encoder" else out.unsqueeze(0)
            )
        try:
            return vmap(functools.partial(functional_call, module))(own, (x,))
        except RuntimeError as error:
            if "vmap" not in str(error):
                raise
            what = f"{half} of network {type(self).__name__}"
            rule = "must run for several members at once, through torch.func.vmap"
            raise invalid(
                what, rule, Shown(_reason(error)), "Let no value of a tensor decide what is done."
            ) from error


@dataclass(frozen=True)
class ModuleLayout(Layout):
    """Where the numbers of both modules lie; rows start as the modules start themselves."""

    network: ModuleNetwork | None = None
    sample_shape: tuple[int, ...] = ()
    latents: int = 0

    def starting(self, initialisation: str) -> Layout:
        """Refuse any: modules know themselves how they start."""
        if initialisation:
            rule = "cannot be chosen for torch modules, which start as they do by themselves"
            raise invalid("initialisation", rule, initialisation, "Leave it out.")
        return self

    def initial(self, seed: Tensor, stream: random.Stream) -> Tensor:
        """Each member's modules, initialised by themselves from the member's seed."""
        assert self.network is not None
        rows = super().initial(
            seed, stream
        )  # what was added beside the modules starts as any weight
        views = self.views(rows)
        for step, half in enumerate(HALVES):
            words = random.words(seed, step, stream, (2,)).tolist()
            for member, (high, low) in enumerate(words):
                module = _built(
                    self.network, half, self.sample_shape, self.latents, (high << 32) | low
                )
                for name, tensor in _state(module):
                    views[f"{half}.{name}"][member].copy_(tensor.detach())
        return rows


def _state(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters and floating-point buffers by name, each once.

    Counters and masks of other kinds belong to the module.
    """
    yield from module.named_parameters()
    for name, buffer in module.named_buffers():
        if buffer.is_floating_point():
            yield name, buffer


_ONE_AT_A_TIME = threading.Lock()
"""Modules initialise themselves from torch's global generator, which the workers of a CPU share."""


def _with_seed(seed: int, act: Callable[[], Any]) -> Any:
    """*act* with torch's generator at *seed*; the generator is left as it was."""
    generator = torch.default_generator
    with _ONE_AT_A_TIME:
        before = generator.get_state()
        generator.manual_seed(seed)
        try:
            return act()
        finally:
            generator.set_state(before)


def _built(
    network: ModuleNetwork, half: str, sample_shape: tuple[int, ...], latents: int, seed: int
) -> nn.Module:
    """A module of *network*, checked, on the CPU."""

    def build() -> nn.Module:
        # Whoever asks first may be in inference mode, and what a module makes there could not be
        # used in training later.
        with torch.device("cpu"), torch.inference_mode(False), torch.enable_grad():
            return getattr(network, half)(sample_shape, latents)

    module = _with_seed(seed, build)
    what = f"{half} of network {type(network).__name__}"
    if not isinstance(module, nn.Module):
        raise invalid(what, "must be a torch.nn.Module", module)
    for name, part in module.named_modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            if part.momentum is None:
                where = Shown(f"momentum None in '{name}'")
                raise invalid(
                    what,
                    "must average batch norm with a momentum",
                    where,
                    "Leave it at torch's 0.1.",
                )
            part.num_batches_tracked = None  # only the cumulative average needs the count
    return module


@functools.lru_cache(maxsize=1024)
def _callable(
    network: ModuleNetwork,
    half: str,
    sample_shape: tuple[int, ...],
    latents: int,
    training: bool,
    device: torch.device,
    thread: int,
) -> tuple[nn.Module, list[str], list[str]]:
    """The module through which members are called, and the names of what is trained and kept."""
    module = _built(network, half, sample_shape, latents, 0).to(device).train(training)
    trained = [name for name, tensor in _state(module) if tensor.requires_grad]
    return module, trained, [name for name, tensor in _state(module) if not tensor.requires_grad]


def _complaints(
    network: ModuleNetwork,
    half: str,
    given: Tensor,
    sample_shape: tuple[int, ...],
    expected: list[tuple[int, ...]],
) -> list[Problem]:
    """What is wrong with one module, from building it and calling it twice in training mode."""
    what = f"{half} of network {type(network).__name__}"
    try:
        module = _built(network, half, sample_shape, _PROBE_LATENTS, 0).train()
    except InputError as error:
        return list(error.problems)
    except Exception as error:
        return [_failed(what, "must be built", sample_shape, error)]

    def call() -> Any:
        # A fresh copy of the buffers each time: only chance may make two calls differ.
        return functional_call(
            module, {name: tensor.detach().clone() for name, tensor in _state(module)}, (given,)
        )

    try:
        with torch.no_grad():
            first, second = (_with_seed(seed, call) for seed in (0, 1))
    except Exception as error:
        return [_failed(what, "must run", sample_shape, error)]
    found = [
        tuple(part.shape) if isinstance(part, Tensor) else type(part).__name__
        for part in _parts(first)
    ]
    if found != expected or isinstance(first, (tuple, list)) != (half == "encoder"):
        shapes = " and ".join(map(str, expected))
        rule = (
            "must return"
            f" {'a pair of tensors of shapes' if half == 'encoder' else 'one tensor of shape'}"
            f" {shapes}"
        )
        return [Problem(what, rule, Shown(f"{type(first).__name__} of {found}"))]
    if not all(
        torch.equal(one, other) for one, other in zip(_parts(first), _parts(second), strict=True)
    ):
        rule = (
            "must not draw random numbers, which would depend on more than the member's seed and"
            " step"
        )
        culprits = [
            name
            for name, part in module.named_modules()
            if isinstance(part, nn.modules.dropout._DropoutNd)
        ]
        value = Shown(
            f"dropout in {', '.join(map(repr, culprits))}"
            if culprits
            else "outputs that differ from call to call"
        )
        return [Problem(what, rule, value, "Leave that layer out.")]
    return []


def _parts(out: Any) -> list[Any]:
    return list(out) if isinstance(out, (tuple, list)) else [out]


def _failed(what: str, rule: str, sample_shape: tuple[int, ...], error: Exception) -> Problem:
    return Problem(what, f"{rule} for samples of shape {sample_shape}", Shown(_reason(error)))


def _reason(error: Exception) -> str:
    """What *error* is and the first line of what it says."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
