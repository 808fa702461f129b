# SPDX-License-Identifier: Apache-2.0
"""Which images training sees: a rule on the factors that leaves some out or draws some more often.

A rule is an expression in the factors' names whose value at a combination of factor values is its
weight: true and false, or a number of at least 0. Everything that can be asked of held-out and
correlated factors is such a rule:

    shape != 2 or x < 16                hearts are never seen on the right
    1 + 9 * (scale == 5)                the largest scale ten times as often
    correlated(x, y, 0.2)               exp(-(x - y)^2 / (2 * 0.2^2)), both scaled to 0..1
                                        (Träuble et al. 2021, eq. 1)
    anticorrelated(x, y, 0.2)           the same with y running backwards, as in Roth et al. 2023
    confounded(shape, 0.2)              shape correlated with every other factor, as there
    correlated(x, y, 0.1) * correlated(shape, scale, 0.1)

Values are those of the labels as they were given. Besides comparisons there are `and`, `or`, `not`,
`in (1, 2)`, + - * / % and `abs`. A name that is not a word is written in quotes: `"my factor" < 3`.
Rules are read, not executed: only what is listed here exists.
"""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbraid.core.errors import InputError, Shown, invalid, unknown
from unbraid.data.dataset import Dataset

TOTAL = 2**62
"""What the weights of all images add up to, in whole numbers."""

_BINARY: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda value, choices: np.isin(value, choices),
    ast.NotIn: lambda value, choices: ~np.isin(value, choices),
}
_FUNCTIONS = {"abs": 0, "correlated": 2, "anticorrelated": 2, "confounded": 1}
"""How many factors each takes; a width follows, but for `abs`, which takes any value."""
_LONGEST = 2000


def _example(values: dict[str, NDArray[Any]]) -> str:
    """Such a rule on the first and the last factor that have several *values*; empty where none
    has.
    """
    several = [name for name, own in values.items() if len(own) > 1]
    if not several:
        return ""
    first, last = several[0], several[-1]
    middle = values[last][len(values[last]) // 2]
    return f", such as: {first} != {values[first][-1]:g} or {last} < {middle:g}"


class SamplingRule:
    """A rule such as `shape != 2 or x < 16`, checked against the factors of a dataset."""

    def __init__(self, text: str, dataset: Dataset) -> None:
        self.text = str(text).strip()
        self._names, self._sizes = dataset.factor_names, dataset.factor_sizes
        self._values = dict(zip(dataset.factor_names, dataset.factor_values, strict=True))
        self._remedy = f"Write a rule on the factors with == < and or{_example(self._values)}."
        if not self.text:
            raise invalid(
                "where", "must be a rule", str(text), "Leave it out to train on everything."
            )
        if not dataset.labelled:
            value = Shown(f"'{self.text}' for data without any")
            raise invalid(
                "where", "needs data with factors", value, "Leave the rule out, or give factors."
            )
        if len(self.text) > _LONGEST:
            raise invalid(
                "where", f"must be at most {_LONGEST} characters long", Shown(f"{len(self.text)}")
            )
        try:
            with warnings.catch_warnings():  # of what is refused below, as in `1or 2`
                warnings.simplefilter("ignore")
                self._tree = ast.parse(self.text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise invalid("where", "must be an expression", self.text, self._remedy) from error

    def weights(self, factors: NDArray[np.int64]) -> NDArray[np.float64]:
        """The weight of each row of *factors*; refused unless finite, at least 0, not all 0."""
        columns = {
            name: self._values[name][column]
            for name, column in zip(self._names, np.asarray(factors).T, strict=True)
        }
        try:
            with np.errstate(all="ignore"):
                found = np.asarray(self._value(self._tree, columns), dtype=np.float64)
        except RecursionError as error:
            raise invalid(
                "where", "must be a simpler expression", self.text, self._remedy
            ) from error
        weights = np.broadcast_to(found, (len(factors),))
        bad = ~(np.isfinite(weights) & (weights >= 0))
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            place = ", ".join(f"{name}={column[row]}" for name, column in columns.items())
            found = Shown(f"{weights[row]:g} at {place}")
            raise invalid("where", "must give finite weights of at least 0", found, self._remedy)
        if not weights.any():
            raise invalid(
                "where",
                "must leave some images to train on",
                Shown(f"'{self.text}', which leaves none"),
            )
        return weights

    def _value(self, node: ast.AST, columns: dict[str, NDArray[np.int64]]) -> Any:
        """The value of one part of the rule, for all rows."""
        again = lambda part: self._value(part, columns)  # noqa: E731
        if isinstance(node, ast.Name) or (
            isinstance(node, ast.Constant) and isinstance(node.value, str)
        ):
            name = node.id if isinstance(node, ast.Name) else node.value
            if name not in columns:
                raise InputError(
                    unknown("factor", str(name), self._names, f"The rule is '{self.text}'.")
                )
            return columns[str(name)]
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, (bool, int, float))
            and abs(node.value) < 1e15
        ):
            return node.value
        if isinstance(node, ast.BoolOp):
            parts = [_truth(again(part)) for part in node.values]
            return (np.logical_and if isinstance(node.op, ast.And) else np.logical_or).reduce(
                np.broadcast_arrays(*parts)
            )
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ~_truth(again(node.operand))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return np.negative(np.asarray(again(node.operand), dtype=np.float64))
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            return _BINARY[type(node.op)](_number(again(node.left)), _number(again(node.right)))
        if isinstance(node, ast.Compare) and all(type(op) in _BINARY for op in node.ops):
            if len(node.ops) > 1 and any(isinstance(op, (ast.In, ast.NotIn)) for op in node.ops):
                raise invalid(
                    "where",
                    "may not chain `in` with other comparisons",
                    self.text,
                    "Join them by `and`.",
                )
            sides = [again(node.left)]
            for op, part in zip(node.ops, node.comparators, strict=True):
                sides.append(
                    self._choices(part) if isinstance(op, (ast.In, ast.NotIn)) else again(part)
                )
            truths = [
                _BINARY[type(op)](left, right)
                for op, left, right in zip(node.ops, sides, sides[1:], strict=False)
            ]
            return np.logical_and.reduce(np.broadcast_arrays(*truths))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            return self._call(node.func.id, node.args, columns)
        part = ast.get_source_segment(self.text, node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitAnd, ast.BitOr)):
            # They bind more tightly than comparisons: x == 1 | y == 2 would not mean what it seems
            # to.
            raise invalid("where", "is written with `and` and `or`", part, self._remedy)
        rule = (
            "may use factors, numbers, comparisons, and, or, not, in, + - * / % and "
            + ", ".join(_FUNCTIONS)
        )
        raise invalid("where", rule, part or self.text, self._remedy)

    def _choices(self, node: ast.AST) -> list[float]:
        """The numbers behind `in`."""
        values = (
            [self._value(part, {}) for part in node.elts]
            if isinstance(node, (ast.Tuple, ast.List, ast.Set))
            else []
        )
        if not values:
            part = ast.get_source_segment(self.text, node)
            raise invalid(
                "where", "needs a list of numbers behind `in`", part, "For example x in (1, 2)."
            )
        return values

    def _call(
        self, name: str, arguments: list[ast.expr], columns: dict[str, NDArray[np.int64]]
    ) -> NDArray[np.float64]:
        if name not in _FUNCTIONS:
            raise InputError(unknown("function of a rule", name, _FUNCTIONS))
        count = _FUNCTIONS[name]
        if name == "abs" and len(arguments) == 1:
            return np.abs(_number(self._value(arguments[0], columns)))
        names = [
            one.id if isinstance(one, ast.Name) else getattr(one, "value", None)
            for one in arguments[:count]
        ]
        if len(arguments) != count + 1 or not all(isinstance(one, str) for one in names):
            example = f"For example {name}({', '.join(self._names[:count])}, 0.2)."
            raise invalid("where", f"needs {name}({'FACTOR, ' * count}WIDTH)", self.text, example)
        width = self._value(arguments[count], columns)
        if not isinstance(width, (int, float)) or not 0 < width < 1e6:
            part = ast.get_source_segment(self.text, arguments[count])
            raise invalid(
                f"the width of {name}", "must be a number above 0", part, "0.2 is a strong one."
            )
        if len(set(names)) < len(names):
            raise invalid("where", f"needs two different factors in {name}", self.text)
        # Looking the factors up refuses unknown ones.
        first, *rest = (self._scaled(one, self._value(one, columns)) for one in arguments[:count])
        if name == "confounded":
            rest = [
                self._scaled(ast.Name(other), columns[other])
                for other in self._names
                if other != names[0]
            ]
        if name == "anticorrelated":
            rest = [1.0 - rest[0]]
        return np.exp(
            -sum((np.square(first - other) for other in rest), np.zeros(len(first)))
            / (2.0 * width**2)
        )

    def _scaled(self, node: ast.expr, values: NDArray[np.int64]) -> NDArray[np.float64]:
        """A factor's place among its values, from 0 to 1."""
        name = node.id if isinstance(node, ast.Name) else str(getattr(node, "value", ""))
        return np.searchsorted(self._values[name], values) / max(
            1, self._sizes[self._names.index(name)] - 1
        )


def _truth(value: Any) -> NDArray[np.bool_]:
    return np.asarray(value) != 0


def _number(value: Any) -> Any:
    """*value* as floats: truth values count as 1 and 0, and integers cannot overflow."""
    return np.asarray(value, dtype=np.float64)


def count_images(rule: str, dataset: Dataset) -> int:
    """How many images of *dataset* the rule lets training see at all."""
    return int(np.count_nonzero(_weights(rule, dataset)))


def cumulative_weights(rule: str | None, dataset: Dataset) -> NDArray[np.int64]:
    """Running totals of the weights that *rule* gives the images of *dataset*, scaled to `TOTAL`:
    int64 `(n,)`.

    The image of a whole number r in 0..TOTAL-1 is the first whose total exceeds r; one of weight 0
    is never that, nor need be one whose weight is below 2^-53 of all weights together. Without a
    *rule* all images weigh the same; those that are not to be trained on weigh nothing.
    """
    weights = _weights(rule, dataset)
    running = np.cumsum(weights / weights.max())
    # Whole numbers below 2^53 scaled by a power of two: equal totals stay equal, and the last is
    # exactly TOTAL.
    return np.floor(running / running[-1] * 2.0**53).astype(np.int64) << 9


def _weights(rule: str | None, dataset: Dataset) -> NDArray[np.float64]:
    """The weight of every image: by *rule*, and 0 outside the data's training split."""
    weights = np.ones(len(dataset))
    if rule is not None:
        weights = SamplingRule(rule, dataset).weights(dataset.factors(np.arange(len(dataset))))
    training = dataset.training_indices
    if training is None:
        return weights
    seen = np.zeros(len(dataset))
    seen[training] = weights[training]
    if not seen.any():
        found = Shown(f"'{rule}', which leaves none of those to train on")
        raise invalid("where", "must leave some images to train on", found)
    return seen
