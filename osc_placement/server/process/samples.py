# SPDX-License-Identifier: Apache-2.0
"""Sample files of configuration and policy, made by oslo's own generators from our entry points."""

from __future__ import annotations

import logging

#: the entry points of our options and rules, for oslo-config-generator and oslopolicy-sample-generator too
NAMESPACE = "osc_placement.server"

#: the entry points of all options of placement.conf
CONFIG_NAMESPACES = (
    NAMESPACE,
    "keystonemiddleware.auth_token",
    "oslo.log",
    "oslo.middleware.cors",
    "oslo.middleware.http_proxy_to_wsgi",
    "oslo.policy",
)


def print_sample(kind: str) -> None:
    """Print a sample ``config`` or ``policy`` file."""
    if kind == "config":
        from oslo_config import generator as config_generator

        config_generator.main([f"--namespace={namespace}" for namespace in CONFIG_NAMESPACES])
        return
    from oslo_config import cfg
    from oslo_policy import generator as policy_generator

    # the generator sets up logging, at this level
    logging.disable(logging.WARNING)
    policy_generator.generate_sample(["--namespace", NAMESPACE], conf=cfg.ConfigOpts())
