# SPDX-License-Identifier: Apache-2.0
"""The state of a placement service as a file: export and apply.

``document`` defines what a file may contain; ``text`` converts YAML to a document and back, with ``emit`` for
ordinary entries and ``node`` for the places that errors name. ``selection`` restricts a document to some
trees. ``plan`` compares a document with the server's state and makes the plan of a run, ``judge`` finds what
the server would refuse of it, ``description`` describes what is planned, and ``results`` what became of it.
All of these are pure. ``read`` reads from the server. Nothing here writes to it: ``batch`` does.
"""
