# SPDX-License-Identifier: Apache-2.0
"""How Sphinx builds the documentation: sphinx-build -W doc/source doc/build/html."""

import configparser
import pathlib

_setup = configparser.ConfigParser()
_setup.read(pathlib.Path(__file__).parents[2] / "setup.cfg")

project = _setup["metadata"]["name"]
release = version = _setup["metadata"]["version"]
html_theme = "alabaster"
nitpicky = True
