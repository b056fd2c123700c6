# SPDX-License-Identifier: Apache-2.0
"""Completion of command lines in bash and zsh: ``placement-completion``.

``main`` is the program: it prints the code for a shell, and is called by that code at each press of the tab
key. ``programs`` finds what may stand at the cursor, ``values`` says what an argument takes, and ``names``
reads names from the cloud and keeps them for a short time.
"""
