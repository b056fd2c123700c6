# SPDX-License-Identifier: Apache-2.0
"""Nova's own notification that a host joined or left an aggregate. Run by nova's Python, not by the tests'.

Arguments: nova.conf, the UUID of the aggregate, its name, and the action.
"""

import sys

from nova import config, objects, rpc
from nova.compute import utils
from nova.context import get_admin_context

path, uuid, name, action = sys.argv[1:]
config.parse_args(["nova"], default_config_files=[path], configure_db=False)
objects.register_all()
context = get_admin_context()
aggregate = objects.Aggregate(context, id=1, uuid=uuid, name=name, hosts=["h1"], metadata={})
for phase in ("start", "end"):
    utils.notify_about_aggregate_action(context, aggregate=aggregate, action=action, phase=phase)
rpc.cleanup()
