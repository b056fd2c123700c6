# SPDX-License-Identifier: Apache-2.0
"""A small real control plane around our server: Keystone, glance and nova."""
