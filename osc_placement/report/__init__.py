# SPDX-License-Identifier: Apache-2.0
"""What there is to see in a cloud: trees, capacity, what still fits, why a host is no candidate.

read.py asks the server; everything else here is pure, from values to values or text.
"""
