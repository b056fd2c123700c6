# SPDX-License-Identifier: Apache-2.0
"""How hard Hypothesis looks: the same few examples among all tests, many new ones by hand."""

import hypothesis

from tests.reliability import scale

EXAMPLES = 2000 if scale.is_full() else 60
#: milliseconds; generous, because what would be wrong grows without bound
DEADLINE = 5000

hypothesis.settings.register_profile(
    "reliability",
    max_examples=EXAMPLES,
    deadline=DEADLINE,
    derandomize=not scale.is_full(),
    suppress_health_check=list(hypothesis.HealthCheck),
)
PROFILE = hypothesis.settings.get_profile("reliability")
