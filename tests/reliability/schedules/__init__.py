# SPDX-License-Identifier: Apache-2.0
"""Every order in which operations of the server can meet on a real database, by turns.

`controller` lets one operation at a time go on, up to its next statement; `explore` chooses who, one schedule
after the other; `cases` has the operations and what must hold after each schedule; `mutations` breaks the
server on purpose, to show that a schedule finds it.
"""
