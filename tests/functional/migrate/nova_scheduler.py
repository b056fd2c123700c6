# SPDX-License-Identifier: Apache-2.0
"""What nova's own scheduler asks placement for. Run by nova's Python, not by that of the tests.

Reads a JSON list of cases (flavor, volume_root, image) and prints a JSON list of the same length: resources
by class, or the name of the exception.
"""

import json
import sys

import nova.conf
from nova import objects
from nova.scheduler import utils

nova.conf.CONF([], project="nova", default_config_files=[])
objects.register_all()


def ask(case):
    """The resources of one case."""
    flavor = objects.Flavor(**case["flavor"])
    image = objects.ImageMeta(properties=objects.ImageMetaProps.from_dict(case["image"]))
    spec = objects.RequestSpec(flavor=flavor, is_bfv=case["volume_root"], image=image)
    try:
        return dict(utils.ResourceRequest.from_request_spec(spec).merged_resources())
    except Exception as error:
        return type(error).__name__


print(json.dumps([ask(case) for case in json.load(sys.stdin)]))
