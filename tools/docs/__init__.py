# SPDX-License-Identifier: Apache-2.0
"""Makes the generated parts of README.md and docs/ from registries, docstrings, declarations of
commands and benchmark results: `make docs`, or `python -m tools.docs [--check]`.
"""


class DocsError(ValueError):
    """The docs cannot be made; the text says why and what mends it."""
