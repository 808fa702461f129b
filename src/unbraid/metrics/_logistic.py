# SPDX-License-Identifier: Apache-2.0
"""How the metrics fit scikit-learn's logistic regressions: without complaint, and on one core."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def accept_unconverged() -> Iterator[None]:
    """Inside, fits that stop at their number of iterations are accepted.

    The products are too small for several cores, which spend most of their time waiting for each
    other: with two, a fit takes two to three times as long as with one.
    """
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", FutureWarning)  # announcements of coming defaults
        # Few rows are the caller's choice.
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        yield
