# SPDX-License-Identifier: Apache-2.0
"""How Sphinx builds the documentation: sphinx-build -W doc/source doc/build/html."""

import configparser
import pathlib
import sys

_setup = configparser.ConfigParser()
_setup.read(pathlib.Path(__file__).parents[2] / "setup.cfg")

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "ext"))
# command lines have two hyphens
smartquotes = False
extensions = [
    "argparse_commands",
    "cliff.sphinxext",
    "oslo_config.sphinxext",
    "oslo_policy.sphinxext",
    "parity_differences",
    "rest_api",
    "sphinx.ext.autodoc",
]
autodoc_typehints = "none"
autodoc_member_order = "bysource"
# that of the library comes with whoever uses it
autodoc_mock_imports = ["fixtures"]
autoprogram_cliff_application = "openstack"

project = _setup["metadata"]["name"]
release = version = _setup["metadata"]["version"]
html_theme = "alabaster"
nitpicky = True

#: the pages that are manual pages, too, and what their programs and commands do
_MANUAL = {
    "openstack-allocation-candidate": "find, explain and claim what can be allocated",
    "openstack-resource-class": "list, create and delete resource classes",
    "openstack-resource-provider": "list, change and report on resource providers",
    "openstack-resource-provider-aggregate": "change the aggregates of a resource provider",
    "openstack-resource-provider-allocation": "show and change allocations of consumers",
    "openstack-resource-provider-batch": "change many resource providers, resume and undo it",
    "openstack-resource-provider-config": "generate, check and compare nova's provider configuration files",
    "openstack-resource-provider-inventory": "change the inventories of a resource provider",
    "openstack-resource-provider-trait": "change the traits of a resource provider",
    "openstack-resource-usage": "show usages of projects, consumers and resource providers",
    "openstack-trait": "list, create and delete traits",
    "placement-completion": "complete command lines in bash and zsh",
    "placement-migrate": "bring placement in line with nova",
    "placement-server": "a placement service in one command",
}
man_pages = [(f"cli/{name}", name, description, "", 1) for name, description in _MANUAL.items()]
