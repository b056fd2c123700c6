# SPDX-License-Identifier: Apache-2.0
"""The directive ``parity-differences``: what the comparison with the reference plugin knows to differ.

It reads the file by which the tests judge, so that the page cannot say something else.
"""

import pathlib

import yaml
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

SOURCE = pathlib.Path(__file__).parents[2] / "tests" / "functional" / "commands" / "parity_differences.yaml"


def format_options(options):
    """A list item for each command that has options of its own."""
    for command, added in sorted(options.items()):
        yield f"- ``{command}``: " + ", ".join(f"``{option}``" for option in added)


def format_differences(differences):
    """A list item for each reason, with the command lines that it holds for."""
    reasons = {}
    for difference in differences:
        reasons.setdefault(difference["why"], []).append(difference)
    for why, group in reasons.items():
        yield f"- {why[0].upper()}{why[1:]}:"
        yield ""
        for difference in group:
            for line in difference["lines"]:
                at = difference.get("versions")
                yield f"  - ``{' '.join(line.split())}``" + (f" (at {', '.join(at)})" if at else "")
        yield ""


class ParityDifferences(SphinxDirective):
    """Options that the reference has not, then lines that print something else, each with the reason."""

    def run(self):
        """Write reStructuredText, and have it parsed."""
        self.env.note_dependency(str(SOURCE))
        known = yaml.safe_load(SOURCE.read_text())
        parts = {
            "Options that are new": format_options(known["options"]),
            "Lines that print something else": format_differences(known["differences"]),
        }
        return [self.make_section(title, lines) for title, lines in parts.items()]

    def make_section(self, title, lines):
        """A section with a list."""
        section = nodes.section(ids=[nodes.make_id(title)])
        section += nodes.title(text=title)
        self.state.nested_parse(StringList(list(lines), source=str(SOURCE)), 0, section)
        return section


def setup(app):
    """Tell Sphinx."""
    app.add_directive("parity-differences", ParityDifferences)
    return {"parallel_read_safe": True}
