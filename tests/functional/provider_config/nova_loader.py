# SPDX-License-Identifier: Apache-2.0
"""What nova makes of provider configuration directories. Run by nova's Python, not by that of the tests.

Reads a JSON list of directories and prints a JSON list of the same length: what nova's loader returns of
each, or the text of the exception that it raises.
"""

import json
import sys

from nova.compute.provider_config import get_provider_configs


def load(directory):
    """What nova-compute has of a directory after its start."""
    try:
        return {"loaded": get_provider_configs(directory)}
    except Exception as error:
        return {"refused": f"{type(error).__name__}: {error}"}


print(json.dumps([load(directory) for directory in json.load(sys.stdin)], default=str))
