# SPDX-License-Identifier: Apache-2.0
"""What pytest does not look into: it needs atheris, which `make fuzz` installs."""

collect_ignore = ["guided.py"]
