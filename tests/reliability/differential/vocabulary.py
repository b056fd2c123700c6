# SPDX-License-Identifier: Apache-2.0
"""The few names that conversations are about, so that requests meet each other; and values that are odd."""

from __future__ import annotations

import uuid


def _uuids(kind: int, count: int) -> tuple[str, ...]:
    return tuple(str(uuid.UUID(f"{kind:08x}-0000-4000-8000-{number:012x}")) for number in range(1, count + 1))


PROVIDERS = _uuids(0xA, 9)
CONSUMERS = _uuids(0xC, 6)
AGGREGATES = _uuids(0xF, 4)
#: the same with another spelling of one of them, which is another aggregate
AGGREGATE_TEXTS = (*AGGREGATES, AGGREGATES[0].replace("-", ""))
STRANGER = "0e000000-0000-4000-8000-000000000001"
NAMES = tuple(f"host-{number}" for number in range(1, 10))
CLASSES = ("VCPU", "MEMORY_MB", "DISK_GB", "VGPU", "CUSTOM_GOLD", "CUSTOM_IRON")
CUSTOM_CLASSES = CLASSES[4:]
SHARING = "MISC_SHARES_VIA_AGGREGATE"
TRAITS = ("HW_CPU_X86_AVX2", "HW_CPU_X86_SSE", "COMPUTE_NODE", SHARING, "CUSTOM_FAST", "CUSTOM_RED")
CUSTOM_TRAITS = TRAITS[4:]
PROJECTS = ("project-1", "project-2")
USERS = ("user-1", "user-2")
CONSUMER_TYPES = ("INSTANCE", "MIGRATION", "VOLUME")

#: JSON that may stand where something else is expected
ODD_VALUES = (
    None,
    True,
    False,
    0,
    -1,
    1.5,
    2**31 - 1,
    2**31,
    "",
    "0",
    "x",
    "é",
    "CUSTOM_NOT_THERE",
    "VCPU",
    "a" * 201,
    "A" * 256,
    STRANGER,
    [],
    [1],
    ["x", "x"],
    {},
    {"x": 1},
)
#: text that may stand where a parameter of a query, or a part of a path, is expected
ODD_TEXTS = (
    "",
    "0",
    "-1",
    "x",
    ",",
    "!",
    "in:",
    "!in:",
    "in:,",
    "%C3%A9",
    "%20",
    "VCPU",
    "VCPU:",
    "VCPU:0",
    "VCPU:x",
    "VCPU:1:1",
    "VCPU:1,",
    "vcpu:1",
    "CUSTOM_NOT_THERE",
    "CUSTOM_NOT_THERE:1",
    "!CUSTOM_NOT_THERE",
    "!!CUSTOM_FAST",
    "in:CUSTOM_FAST,!CUSTOM_RED",
    STRANGER,
    f"in:{STRANGER}",
    f"!{STRANGER}",
    "_a",
    "none",
    "isolate",
    "true",
    "TRUE",
    "startswith:",
    "startswith:CUSTOM",
    "in:CUSTOM_FAST,HW_CPU_X86_SSE",
    "all",
    "unknown",
)
