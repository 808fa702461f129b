# SPDX-License-Identifier: Apache-2.0
"""Makes the generated parts of README.md and docs/ from registries, docstrings, declarations of
commands and benchmark results: `make docs`, or `python -m tools.docs [--check]`.
"""
