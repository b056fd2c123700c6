# SPDX-License-Identifier: Apache-2.0
"""What nova's own code reads of extra specs. Run by nova's Python, not by that of the tests.

Reads a JSON list of flavors and prints a JSON list of the same length: the groups of the request (resources,
required and forbidden traits by suffix), the group policy, the number of warnings, and the name of the
exception with which nova's API refuses the CPUs of the flavor; or of the scheduler's exception.
"""

import json
import logging
import sys

import nova.conf
from nova import objects
from nova.scheduler import utils
from nova.virt import hardware

nova.conf.CONF([], project="nova", default_config_files=[])
objects.register_all()


class Counter(logging.Handler):
    """A handler that counts warnings."""

    count = 0

    def emit(self, record):
        """Count one."""
        self.count += record.levelno == logging.WARNING


counter = Counter()
logging.getLogger("nova").addHandler(counter)


def find_refusal(flavor, image):
    """The exception of the API for the CPUs of a flavor."""
    try:
        hardware.numa_get_constraints(flavor, image)
    except Exception as error:
        return type(error).__name__
    return None


def read(fields):
    """What nova makes of one flavor."""
    flavor = objects.Flavor(**fields)
    image = objects.ImageMeta(properties=objects.ImageMetaProps())
    spec = objects.RequestSpec(flavor=flavor, is_bfv=False, image=image)
    counter.count = 0
    try:
        request = utils.ResourceRequest.from_request_spec(spec)
    except Exception as error:
        return {"error": type(error).__name__}
    groups = {
        suffix or "": [dict(group.resources), sorted(group.required_traits), sorted(group.forbidden_traits)]
        for suffix, group in request._rg_by_id.items()
    }
    warnings = counter.count
    return {
        "groups": groups,
        "policy": request.group_policy,
        "warnings": warnings,
        "refusal": find_refusal(flavor, image),
    }


print(json.dumps([read(fields) for fields in json.load(sys.stdin)]))
