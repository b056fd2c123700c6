# SPDX-License-Identifier: Apache-2.0
"""The state of a placement service as a file: export and apply.

``document`` defines what a file may contain, ``text`` converts YAML to a document and back, ``plan`` compares
a document with the server's state: all pure. ``read`` reads from the server, and only ``write`` writes.
"""
