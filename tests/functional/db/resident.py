# SPDX-License-Identifier: Apache-2.0
"""One of the two servers on a database, in a process of its own: requests on stdin, answers on stdout.

Of its own, because the reference can be given one database in the life of a process.
"""

import json
import sys

from osc_placement.server.shadow import differences
from osc_placement.server.shadow.exchange import Request
from tests.reliability.differential.sides import Ours, Reference


def main():
    """Answer each request, a line each, with its status and what its body says."""
    name, url = sys.argv[1:]
    side = {"ours": Ours, "reference": Reference}[name](url)
    for line in sys.stdin:
        answer = side.send(Request.from_json(line))
        print(json.dumps([answer.status, differences.normalize(answer.data)]))


if __name__ == "__main__":
    main()
