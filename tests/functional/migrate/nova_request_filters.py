# SPDX-License-Identifier: Apache-2.0
"""The query that nova's own scheduler sends to placement. Run by nova's Python, not by that of the tests.

Reads a JSON object from standard input: the URLs of nova's databases, the vNIC types of `ports` by UUID, and
`clouds`, each with its
`aggregates` (name and metadata), the `version` of its compute service and its `cases`. Prints an object with
the `traits` that nova knows, and `clouds`, each with the UUIDs of its aggregates by name and the answers to
its cases: the query string, or the name of the exception.
"""

import json
import sys

import nova.conf
import os_traits
from nova import config, context, objects
from nova.db.main import api as main_db
from nova.network import neutron
from nova.scheduler import request_filter, utils

SWITCHES = (
    "limit_tenants_to_placement_aggregate",
    "placement_aggregate_required_for_tenants",
    "query_placement_for_image_type_support",
    "enable_isolated_aggregate_filtering",
    "image_metadata_prefilter",
)
CELL0 = "00000000-0000-0000-0000-000000000000"
given = json.load(sys.stdin)
CONF = nova.conf.CONF
config.parse_args(["nova"], default_config_files=[], configure_db=False)
CONF.set_override("connection", given["api"], group="api_database")
CONF.set_override("connection", given["cell"], group="database")
objects.register_all()

from nova.db.api import api as api_db  # noqa: E402

api_db.configure(CONF)
main_db.configure(CONF)
admin = context.get_admin_context()


# a port has the UUID of its vNIC type, as neutron is not there
neutron.API.show_port = lambda _api, _context, uuid: {"port": {"binding:vnic_type": given["ports"][uuid]}}


def make_cell(**fields):
    """A cell that the scheduler asks for its compute services."""
    mapping = objects.CellMapping(admin, transport_url="none:///", **fields)
    mapping.create()
    return mapping


make_cell(uuid=CELL0, name="cell0", database_connection=given["cell0"])
cell = make_cell(uuid="11111111-1111-1111-1111-111111111111", name="cell1", database_connection=given["cell"])


def report_version(version):
    """Let the only compute service be of this version."""
    with context.target_cell(admin, cell) as there:
        for service in objects.ServiceList.get_all(there):
            service.destroy()
        fields = {"host": "host", "binary": "nova-compute", "topic": "compute", "report_count": 0}
        main_db.service_create(there, {**fields, "disabled": False, "version": version})


def make_aggregates(wanted):
    """Aggregates of these names and metadata in place of all; their UUIDs by name."""
    for old in objects.AggregateList.get_all(admin):
        old.destroy()
    made = {}
    for name, metadata in wanted.items():
        aggregate = objects.Aggregate(admin, name=name, metadata=metadata)
        aggregate.create()
        made[name] = aggregate.uuid
    return made


def ask(case):
    """The query string of one case."""
    for name in SWITCHES:
        CONF.set_override(name, name in case["enabled"], group="scheduler")
    try:
        image = objects.ImageMeta(properties=objects.ImageMetaProps.from_dict(dict(case["image"])), name="i")
        if case["disk_format"]:
            image.disk_format = case["disk_format"]
        spec = objects.RequestSpec(
            flavor=objects.Flavor(**case["flavor"]),
            is_bfv=case["volume_root"],
            image=image,
            project_id=case["project"],
            availability_zone=case["zone"],
            requested_networks=objects.NetworkRequestList(
                objects=[objects.NetworkRequest(port_id=uuid) for uuid in case["ports"]]
            ),
            requested_resources=[],
            pci_requests=None,
            request_level_params=objects.RequestLevelParams(),
        )
        request_filter.process_reqspec(admin, spec)
        request = utils.resources_from_request_spec(admin, spec, host_manager=None)
        return {"query": request.to_querystring()}
    except Exception as error:
        return {"refused": type(error).__name__, "text": str(error)}


def answer(cloud):
    """The answers for one cloud."""
    report_version(cloud["version"])
    aggregates = make_aggregates(cloud["aggregates"])
    return {"aggregates": aggregates, "answers": [ask(case) for case in cloud["cases"]]}


print(json.dumps({"traits": os_traits.get_traits(), "clouds": [answer(cloud) for cloud in given["clouds"]]}))
