# SPDX-License-Identifier: Apache-2.0
"""The limits on what one client may ask of a server process."""

#: the key in a WSGI environment of the number of threads of the process, if its server tells it
THREADS_KEY = "placement.threads"

#: bytes of a request body: a reshape of a hundred thousand allocations is a third of it
LARGEST_BODY = 64 << 20
#: bytes of request line and headers together: a query with two thousand aggregates is smaller
LARGEST_HEAD = 128 << 10
#: bytes of a request line, most of which is a query
LARGEST_REQUEST_LINE = 64 << 10

#: seconds within which a request has to arrive completely, counted from its first byte or from the connection
REQUEST_SECONDS = 30
#: seconds within which a client has to read some bytes of an answer that waits for it
STALL_SECONDS = 30
#: bytes per second at which an answer has to be read on average, after the first `STALL_SECONDS`
SLOWEST_READING = 16 << 10

#: connections to one process
CONNECTIONS = 1000
#: connections of one client address to one process; the addresses of proxies are exempt
CONNECTIONS_PER_ADDRESS = 256
#: bytes that all connections of a process may have waiting: requests that arrive, answers that are not read
BUFFERED = 256 << 20
#: bytes of answers to one client that the system accepts before it sends them, without those on their way.
#: By default it accepts megabytes, and the memory of many clients that do not read delays all others
UNSENT_IN_SYSTEM = 16 << 10
