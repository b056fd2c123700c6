# SPDX-License-Identifier: Apache-2.0
"""Shards: every host in exactly one, whoever asks."""

import argparse
import itertools

import pytest

from osc_placement.migrate.nova.shard import WHOLE, Shard, read_shard

HOSTS = [f"compute{number}" for number in range(300)]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_host_is_in_one_shard(count):
    """The shards of a count have every host, and each of them once; none is left without."""
    parts = [[host for host in HOSTS if Shard(number, count).has(host)] for number in range(1, count + 1)]
    assert sorted(itertools.chain(*parts)) == sorted(HOSTS)
    assert all(parts)


def test_few_hosts_move_when_a_shard_is_added():
    """With one shard more, a host stays or goes to the new one."""
    for host in HOSTS:
        (before,) = (number for number in range(1, 5) if Shard(number, 4).has(host))
        (after,) = (number for number in range(1, 6) if Shard(number, 5).has(host))
        assert after in (before, 5)


def test_shard_is_read():
    """I/N, and nothing else."""
    assert read_shard("2/4") == Shard(2, 4)
    assert read_shard("1/1") == WHOLE


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "a/b", "1/2/3", "-1/2", "1/0"])
def test_malformed_shard_is_refused(text):
    """The text is repeated, with an example."""
    with pytest.raises(argparse.ArgumentTypeError, match="2/4"):
        read_shard(text)
