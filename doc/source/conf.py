# SPDX-License-Identifier: Apache-2.0
"""How Sphinx builds the documentation: sphinx-build -W doc/source doc/build/html."""

import configparser
import pathlib
import sys

_setup = configparser.ConfigParser()
_setup.read(pathlib.Path(__file__).parents[2] / "setup.cfg")

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "ext"))
extensions = [
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
