# SPDX-License-Identifier: Apache-2.0
"""The directives ``rest-api`` and ``microversions``: what the API offers, by path and by microversion.

The first reads the OpenAPI description that is checked in, the second the remarks beside the names in
``osc_placement/microversion.py``; tests hold both to what the server does.
"""

import json
import pathlib
import re

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

ROOT = pathlib.Path(__file__).parents[2]
DESCRIPTION = ROOT / "tests" / "reliability" / "openapi.json"
VERSIONS = ROOT / "osc_placement" / "microversion.py"


def format_operation(method, path, operation):
    """An operation with what it takes."""
    yield from (f"**{method.upper()} {path}**", "")
    text = re.sub(rf"^{method.upper()} \S+?[:.]\s*", "", operation["description"].replace("\n", " "))
    since = operation["x-openstack"]["min-ver"]
    facts = [f"since {since}", *(["for everybody"] if operation.get("security") == [] else [])]
    sentence = f"{text[:1].upper()}{text[1:]} " if text else ""
    yield from (f"{sentence}*{', '.join(facts)}*", "")
    for parameter in operation["parameters"]:
        if parameter["in"] == "query":
            yield f"- ``{parameter['name']}``" + (", required" if parameter["required"] else "")
    yield ""
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        yield from ("The body, as JSON Schema:", "", ".. code-block:: json", "")
        yield from (f"   {line}" for line in json.dumps(schema, indent=2).splitlines())
        yield ""


def read_versions():
    """The microversions with what each brought."""
    for line in VERSIONS.read_text().splitlines():
        if match := re.fullmatch(r"[A-Z_]+ = Version\((\d+), (\d+)\)  # (.*)", line):
            yield f"{match[1]}.{match[2]}", match[3]


class Generated(SphinxDirective):
    """Sections that are written by a program."""

    source: pathlib.Path

    def make_section(self, title, lines):
        """A section with what reStructuredText says."""
        section = nodes.section(ids=[nodes.make_id(title)])
        section += nodes.title(text=title)
        self.state.nested_parse(StringList(list(lines), source=str(self.source)), 0, section)
        return section


class RestApi(Generated):
    """A section for each path of the API."""

    source = DESCRIPTION

    def run(self):
        """Write reStructuredText, and have it parsed."""
        self.env.note_dependency(str(self.source))
        paths = json.loads(self.source.read_text())["paths"]
        return [self.make_section(path, self.format_path(path, methods)) for path, methods in paths.items()]

    def format_path(self, path, methods):
        """The operations of a path."""
        for method, operation in methods.items():
            yield from format_operation(method, path, operation)


class Microversions(Generated):
    """A list of what each microversion brought."""

    source = VERSIONS

    def run(self):
        """Write reStructuredText, and have it parsed."""
        self.env.note_dependency(str(self.source))
        lines = [line for number, remark in read_versions() for line in (number, f"    {remark}")]
        holder = nodes.container()
        self.state.nested_parse(StringList(lines, source=str(self.source)), 0, holder)
        return holder.children


def setup(app):
    """Tell Sphinx."""
    app.add_directive("rest-api", RestApi)
    app.add_directive("microversions", Microversions)
    return {"parallel_read_safe": True}
