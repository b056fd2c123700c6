# SPDX-License-Identifier: Apache-2.0
"""``openstack resource provider tree``."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from osc_placement import microversion
from osc_placement.candidates.cloud import CloudView
from osc_placement.commands import base
from osc_placement.commands.html_page import add_html_option, write_page
from osc_placement.commands.reading import show_reading
from osc_placement.commands.watching import WatchedCommand
from osc_placement.errors import NameNotFound
from osc_placement.report.page import describe_size
from osc_placement.report.read import read_cloud
from osc_placement.report.tree import draw_dot, draw_mermaid, draw_trees, trees_to_json
from osc_placement.report.tree_page import tree_page
from osc_placement.terminal.escape import is_printable
from osc_placement.terminal.screen import screen_of, write_lines
from osc_placement.terminal.values import add_concurrency_option


def _as_yaml(cloud: CloudView) -> Iterator[str]:
    import yaml

    document = trees_to_json(cloud)
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    # YAML escapes control characters, but not those that change the direction of writing
    yield (text if is_printable(text) else yaml.safe_dump(document, sort_keys=False)).rstrip("\n")


TEXT: Final = "text"
#: the formats in which a tree can be written, besides text
_WRITERS: Final[dict[str, Callable[[CloudView], Iterable[str]]]] = {
    "json": lambda cloud: [json.dumps(trees_to_json(cloud), indent=2)],
    "yaml": _as_yaml,
    "dot": draw_dot,
    "mermaid": draw_mermaid,
}


class ShowTree(WatchedCommand):
    """Show resource providers as trees, with their inventories and how much of them is used.

    A bar shows the part of a class's capacity, ``(total - reserved) * allocation_ratio``, that is allocated.
    With --html a page whose trees fold is written in place of the text.
    """

    example = "resource provider tree compute-1"
    minimum = microversion.NESTED_PROVIDERS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "provider",
            metavar="<provider>",
            nargs="*",
            help="Name or UUID of a resource provider whose whole tree is shown (default: all "
            "trees, of which a terminal gets as many as it has space for)",
        )
        parser.add_argument(
            "-f",
            "--format",
            choices=(TEXT, *_WRITERS),
            default=TEXT,
            help="text (the default), json, yaml, or a graph for graphviz (dot) or mermaid",
        )
        parser.add_argument(
            "--brief", action="store_true", help="Omit UUIDs, traits and aggregates from the text"
        )
        add_html_option(parser, "Write an HTML page to this file")
        add_concurrency_option(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        trees = [base.resolve_provider(self.client, text) for text in parsed_args.provider]
        with show_reading(self.app.stderr, parsed_args.concurrency) as reading:
            cloud = read_cloud(self.client, trees=trees, reading=reading)
        for uuid in trees:
            if uuid not in cloud.records:
                raise NameNotFound(uuid)
        if parsed_args.html:
            write_page(self, parsed_args, partial(tree_page, cloud), describe_size(cloud))
        elif parsed_args.format == TEXT:
            screen = screen_of(self.app.stdout, brief=parsed_args.brief)
            is_bounded = screen.width is not None and not trees
            height = (self.height or shutil.get_terminal_size().lines - 1) if is_bounded else None
            write_lines(self.app.stdout, draw_trees(cloud, screen, height))
        else:
            write_lines(self.app.stdout, _WRITERS[parsed_args.format](cloud))
