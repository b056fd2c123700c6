# SPDX-License-Identifier: Apache-2.0
"""Reports on a cloud: trees, capacity, how many more requests fit, why a host is no candidate.

read.py asks the server; all other modules are pure and turn values into values or text.
"""
