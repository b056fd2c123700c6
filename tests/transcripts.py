# SPDX-License-Identifier: Apache-2.0
"""The transcripts of README.rst and of the documentation: commands, and what they print."""

import pathlib
import re
import textwrap
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).parents[1]
SOURCE = ROOT / "doc" / "source"
README = "README.rst"
MANUAL = ("doc/source/cli/examples.rst", "doc/source/cli/rehearsal.rst")
DOCUMENTS = (README, *MANUAL)
#: pages whose commands need nothing but a server
PAGES = [
    page
    for page in [*sorted((SOURCE / "user").glob("*.rst")), SOURCE / "admin" / "size.rst"]
    if ".. code-block:: console" in page.read_text()
]


@dataclass
class Step:
    """A command of a transcript and its output."""

    command: str
    output: str


def read_steps(text):
    """Return the steps of all console blocks, in order."""
    blocks = re.findall(r"^\.\. code-block:: console\n\n((?:   .*\n|\n)+)", text, re.MULTILINE)
    lines = "".join(textwrap.dedent(block).rstrip("\n") + "\n" for block in blocks)
    parts = re.split(r"^\$ (.*)\n", lines, flags=re.MULTILINE)
    return [Step(command, output) for command, output in zip(parts[1::2], parts[2::2], strict=True)]
