# SPDX-License-Identifier: Apache-2.0
"""Neutron's database as the source of ports: that of the plugin ML2, Stein or later."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import RowMapping

from osc_placement.migrate.nova.database import NovaDatabase
from osc_placement.migrate.nova.neutron import LABEL
from osc_placement.migrate.nova.ports import Port, Rule, describe_request, parse_profile, read_port


class NeutronDatabase:
    """A source that reads neutron's database at a URL; nothing is written there."""

    def __init__(self, url: str) -> None:
        self._database = NovaDatabase(url, f"{LABEL}'s database", LABEL)

    def list_ports(self) -> list[Port]:
        """Return the ports of instances; raise Unreadable if they cannot be read.

        PERF: the rules, segments and policies are few; ports are read in pages, joined with their bindings.
        """
        try:
            return list(self._list_ports())
        finally:
            self._database.close()

    def refuse(self, _port: Port) -> str:
        """Return that it is neutron's API that writes binding profiles."""
        return "only neutron's API writes it; repeat the command without --neutron-db"

    def grant(self, port: Port, _allocation: str | Mapping[str, str]) -> str:
        """Write nothing; return why."""
        return self.refuse(port)

    def _list_ports(self) -> Iterator[Port]:
        database = self._database
        bandwidth = self._read_rules("qos_minimum_bandwidth_rules", "min_kbps")
        packet_rate: Mapping[str, Sequence[Rule]] = {}
        # since Yoga
        if database.columns("qos_minimum_packet_rate_rules"):
            packet_rate = self._read_rules("qos_minimum_packet_rate_rules", "min_kpps")
        of_port = self._read_pairs("qos_port_policy_bindings", "port_id", "policy_id")
        of_network = self._read_pairs("qos_network_policy_bindings", "network_id", "policy_id")
        # since Wallaby
        devices: Mapping[str, str] = {}
        if database.columns("portdeviceprofiles"):
            devices = self._read_pairs("portdeviceprofiles", "port_id", "device_profile")
        segments = self._read_segments()
        for row in self._read_bindings():
            policy = of_port.get(row["id"]) or of_network.get(row["network_id"]) or ""
            rules = bandwidth.get(policy, ()), packet_rate.get(policy, ())
            yield _make_port(row, rules, segments.get(row["network_id"], ()), devices.get(row["id"], ""))

    def _read_rules(self, table: str, amount: str) -> Mapping[str, Sequence[Rule]]:
        """Return the rules of each policy; before Stein there was no direction."""
        clause = self._database.table(table, ("id", "qos_policy_id", "direction", amount))
        rules: dict[str, list[Rule]] = defaultdict(list)
        for row in self._database.fetch(sa.select(clause).order_by(clause.c.id)):
            rules[row["qos_policy_id"]].append(Rule(row["id"], row["direction"], row[amount]))
        return rules

    def _read_pairs(self, table: str, key: str, value: str) -> Mapping[str, str]:
        clause = self._database.table(table, (key, value))
        return {row[key]: row[value] for row in self._database.fetch(sa.select(clause))}

    def _read_segments(self) -> Mapping[str, Sequence[str | None]]:
        """Return the physical network of each segment of each network, in neutron's order."""
        columns = ("network_id", "physical_network", "segment_index")
        clause = self._database.table("networksegments", columns)
        segments: dict[str, list[str | None]] = defaultdict(list)
        for row in self._database.fetch(sa.select(clause).order_by(clause.c.segment_index)):
            segments[row["network_id"]].append(row["physical_network"])
        return segments

    def _read_bindings(self) -> Iterator[RowMapping]:
        """Yield the ports of instances and other devices, with their active bindings.

        They are chosen by their device, as nova-manage does; nova lets users name another owner.
        """
        database = self._database
        ports = database.table("ports", ("id", "network_id", "device_id"))
        columns = ("port_id", "host", "vnic_type", "vif_type", "profile")
        bindings = database.table("ml2_port_bindings", columns, ("status",))
        is_own = bindings.c.port_id == ports.c.id
        # since Rocky a port may have another binding on the host that it moves to
        if "status" in bindings.c:
            is_own = sa.and_(is_own, bindings.c.status == "ACTIVE")
        selected = (ports.c.id, ports.c.network_id, ports.c.device_id)
        chosen = [bindings.c[name] for name in columns[1:]]
        statement = sa.select(*selected, *chosen).select_from(ports.outerjoin(bindings, is_own))
        statement = statement.where(ports.c.device_id != "")
        for rows in database.pages(statement, ports.c.id):
            yield from rows


def _make_port(
    row: RowMapping, rules: tuple[Sequence[Rule], Sequence[Rule]], segments: Sequence[str | None], device: str
) -> Port:
    """Return the port of a row; its error says what is wrong with it."""
    document: dict[str, Any] = {
        "id": row["id"],
        "device_id": row["device_id"],
        "device_profile": device,
        "binding:host_id": row["host"],
        "binding:vif_type": row["vif_type"],
    }
    try:
        profile = parse_profile(row["profile"])
        granted = profile.get("allocation") or {}
        known = granted if isinstance(granted, dict) else ()
        request = describe_request(row["id"], row["vnic_type"] or "normal", *rules, segments, known)
    except (KeyError, ValueError) as error:
        reason = f"its resource request cannot be read: {error}"
        return Port(row["id"], row["device_id"], row["host"] or "", error=reason)
    return read_port({**document, "resource_request": request, "binding:profile": profile})
