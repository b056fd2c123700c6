# SPDX-License-Identifier: Apache-2.0
"""The cases, one file each; a new one is a new file and a line here."""

from benchmarks.case import Case
from benchmarks.cases import batch_ratio, serve

ALL: tuple[Case, ...] = (serve.CASE, batch_ratio.CASE)
