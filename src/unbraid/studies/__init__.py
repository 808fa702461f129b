# SPDX-License-Identifier: Apache-2.0
"""Papers re-run: one folder a study, one line here."""

from unbraid.core.registry import Registry

STUDIES = Registry("study", "unbraid.studies", {})
