# SPDX-License-Identifier: Apache-2.0
"""Schedules of clients: runs of the batch engine with faults at chosen requests, cut journals, and resumes.

The server is a real one, in this process. `cloud` has it, with a record of who wrote what, `wire` the faults,
`cases` the runs, `judge` what must hold, `trials` crashes and cut journals, `pairs` two clients beside each
other, `explore` the choice of schedules, `mutations` the mistakes that schedules must find.
"""
