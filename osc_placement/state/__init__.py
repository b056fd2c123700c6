# SPDX-License-Identifier: Apache-2.0
"""The state of a placement service as a file: export it, apply it.

``document`` says what a file may hold, ``text`` is YAML to document and back, ``plan`` compares with what is
there: all pure. ``read`` asks the server, and only ``write`` writes.
"""
