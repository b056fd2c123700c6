# SPDX-License-Identifier: Apache-2.0
"""A callback of Ansible that writes the results of each task to a file, as a line of JSON."""

from __future__ import annotations

import json
import os
import pathlib

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: record_results
type: notification
short_description: Write the results of tasks to the file in RECORDED_RESULTS
description: For tests.
"""


class CallbackModule(CallbackBase):
    """The callback."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "record_results"
    CALLBACK_NEEDS_ENABLED = True

    def v2_runner_on_ok(self, result):
        """Record a task that succeeded."""
        self._record(result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        """Record a task that failed."""
        self._record(result)

    def _record(self, result):
        line = json.dumps(result._result, default=str) + "\n"
        with pathlib.Path(os.environ["RECORDED_RESULTS"]).open("a") as file:
            file.write(line)
