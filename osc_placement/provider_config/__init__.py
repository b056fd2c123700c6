# SPDX-License-Identifier: Apache-2.0
"""Nova's provider configuration files (provider.yaml): their rules, what they mean, and how to write them.

By the source of nova 34: nova-compute reads ``*.yaml`` of one directory when it starts
(``nova/compute/provider_config.py``), and in each update adds the traits and inventories that an entry names
to the provider it identifies, with the trait OWNER_NOVA (``_merge_provider_configs`` of
``nova/compute/resource_tracker.py``). It never removes a trait because no file names it any more.
"""
