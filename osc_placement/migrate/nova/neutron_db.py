# SPDX-License-Identifier: Apache-2.0
"""Neutron's database as the source of ports, and on request the place where binding profiles are written.

It is that of the plugin ML2, Stein or later. A profile is written into the row of the active binding, as ML2
serializes it and as neutron's own tool ``neutron-sanitize-port-binding-profile-allocation`` does. Neutron's
API does more for the same profile:

* It unbinds the port, sets it to DOWN and binds it anew (``plugins/ml2/plugin.py``,
  ``_process_port_binding``), since a profile may change what a driver binds. The key ``allocation`` only
  chooses the mechanism driver of a port that is not bound yet (``plugins/ml2/managers.py``,
  ``_infer_driver_from_allocation``). These ports are bound: they stay as they are, and so does their traffic.
* It calls the mechanism drivers, and notifies agents and nova. No agent reads the key. Nova reads it from the
  API when it detaches the port or moves the instance; its cache of network information gets it later.
* It raises the revision number of the port and sets its ``updated_at``. Both are done here too, although
  neutron's tool does neither: it is for upgrades, and neutron-server may run meanwhile here. A client that
  read the port before and replaces its profile under If-Match gets 412, in place of removing the key. ML2/OVN
  writes ports whose revision it did not see to its northbound database again (``ovsdb/maintenance.py``).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from osc_placement.migrate.nova.database import Collision, NovaDatabase
from osc_placement.migrate.nova.ports import (
    KEEPS_CHANGING,
    LABEL,
    Allocation,
    Port,
    Rule,
    describe_change,
    describe_request,
    describe_unbound,
    parse_profile,
    read_port,
)
from osc_placement.migrate.nova.source import Unreadable

_NOT_WRITTEN: Final = (
    "neutron's database is only read; repeat the command without --neutron-db, or with --write-neutron-db"
)
_ACTIVE: Final = "ACTIVE"
_ABORTED: Final = "the database aborted each transaction: its row stays locked, or the connection is lost"
#: transactions for one binding profile, each further one after the port was changed or the last was aborted
_TRIES: Final = 4
#: characters of a profile that neutron allows (``plugins/ml2/models.py``, ``BINDING_PROFILE_LEN``)
_MOST_OF_PROFILE: Final = 4095


class NeutronDatabase:
    """A source that reads neutron's database at a URL; with ``may_write`` it writes binding profiles."""

    way: Final = "to neutron's database"
    batch: Final = 100

    def __init__(self, url: str, *, may_write: bool = False) -> None:
        label = f"{LABEL}'s database"
        self._database = NovaDatabase(url, label, LABEL)
        self._writable = NovaDatabase(url, label, LABEL, is_read_only=False) if may_write else None

    def list_ports(self) -> list[Port]:
        """Return the ports of instances; raise Unreadable if they cannot be read.

        PERF: the rules, segments and policies are few; ports are read in pages, joined with their bindings.
        """
        database, ports = self._database, list[Port]()
        try:
            bandwidth = self._read_rules("qos_minimum_bandwidth_rules", "min_kbps")
            packet_rate: Mapping[str, Sequence[Rule]] | None = None
            # since Yoga
            if database.columns("qos_minimum_packet_rate_rules"):
                packet_rate = self._read_rules("qos_minimum_packet_rate_rules", "min_kpps")
            of_port = self._read_pairs("qos_port_policy_bindings", "port_id", "policy_id")
            of_network = self._read_pairs("qos_network_policy_bindings", "network_id", "policy_id")
            # since Wallaby
            devices: Mapping[str, str] = {}
            if database.columns("portdeviceprofiles"):
                devices = self._read_pairs("portdeviceprofiles", "port_id", "device_profile")
            # in neutron's order
            columns = ("network_id", "physical_network", "segment_index")
            table = database.table("networksegments", columns)
            segments: dict[str, list[str | None]] = defaultdict(list)
            for row in database.fetch(sa.select(table).order_by(table.c.segment_index)):
                segments[row["network_id"]].append(row["physical_network"])
            for row in self._read_bindings():
                policy = of_port.get(row["id"]) or of_network.get(row["network_id"]) or ""
                rates = None if packet_rate is None else packet_rate.get(policy, ())
                physical, device = segments.get(row["network_id"], ()), devices.get(row["id"], "")
                ports.append(_make_port(row, (bandwidth.get(policy, ()), rates), physical, device))
            return ports
        finally:
            database.close()

    def refuse(self, port: Port) -> str:
        """Return why the binding profile of a port is not written; empty if it may be."""
        return describe_unbound(port) if self._writable else _NOT_WRITTEN

    def grant_all(self, grants: Sequence[tuple[Port, Allocation]]) -> list[str]:
        """Write the providers of ports into their binding profiles.

        Return for each port why it was not written, or nothing. The first try has all ports in one
        transaction. Ports that are left then have a transaction of their own for each further try, so that
        one whose row stays locked does not keep the others from being written.

        A try reads the port, and writes it under the condition that nothing was changed since. What others
        wrote into the profile before is kept. A port that has other providers by then, or another instance or
        host, is left as it is. Raise Unreadable if the database refuses a transaction before any port was
        decided; after that, it is the reason of those that are left.
        """
        if self._writable is None:
            return [_NOT_WRITTEN] * len(grants)
        left = {port.uuid: (port, allocation) for port, allocation in grants}
        reasons: dict[str, str] = {}
        aborted: set[str] = set()
        for number in range(_TRIES):
            for tried in [[*left]] if number == 0 else [[uuid] for uuid in left]:
                try:
                    with self._writable.writing() as connection:
                        decided = _ProfileWriter(self._database, connection).write_all(
                            [left[uuid] for uuid in tried]
                        )
                except Collision:
                    aborted.update(tried)
                    continue
                except Unreadable as error:
                    if not reasons:
                        raise
                    return [reasons.get(port.uuid, str(error)) for port, _ in grants]
                reasons |= decided
                aborted.difference_update(tried)
            left = {uuid: each for uuid, each in left.items() if uuid not in reasons}
        return [
            reasons.get(port.uuid, _ABORTED if port.uuid in aborted else KEEPS_CHANGING) for port, _ in grants
        ]

    def _read_rules(self, table: str, amount: str) -> Mapping[str, Sequence[Rule]]:
        """Return the rules of each policy; before Stein there was no direction.

        Neutron computes the key of a group in a profile from the rules of a policy, in the order in which its
        database returns them without ORDER BY. Where profiles are written, the rules of such a policy are
        read with the same statement, so that the keys are the ones neutron would write.
        """
        clause = self._database.table(table, ("id", "qos_policy_id", "direction", amount))
        rules: dict[str, list[Rule]] = defaultdict(list)
        for row in self._database.fetch(sa.select(clause).order_by(clause.c.id)):
            rules[row["qos_policy_id"]].append(Rule(row["id"], row["direction"], row[amount]))
        for policy in [policy for policy, several in rules.items() if self._writable and len(several) > 1]:
            found = self._database.fetch(sa.select(clause).where(clause.c.qos_policy_id.in_([policy])))
            rules[policy] = [Rule(row["id"], row["direction"], row[amount]) for row in found]
        return rules

    def _read_pairs(self, table: str, key: str, value: str) -> Mapping[str, str]:
        clause = self._database.table(table, (key, value))
        return {row[key]: row[value] for row in self._database.fetch(sa.select(clause))}

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
            is_own = sa.and_(is_own, bindings.c.status == _ACTIVE)
        selected = (ports.c.id, ports.c.network_id, ports.c.device_id)
        chosen = [bindings.c[name] for name in columns[1:]]
        statement = sa.select(*selected, *chosen).select_from(ports.outerjoin(bindings, is_own))
        statement = statement.where(ports.c.device_id != "")
        for rows in database.pages(statement, ports.c.id):
            yield from rows


class _ProfileWriter:
    """A transaction that writes binding profiles."""

    def __init__(self, database: NovaDatabase, connection: Connection) -> None:
        self._connection = connection
        self._ports = database.table("ports", ("id", "device_id", "standard_attr_id"))
        columns = ("port_id", "host", "vif_type", "profile", "status")
        self._bindings = database.table("ml2_port_bindings", columns)
        database.table("standardattributes", ("id", "revision_number", "updated_at"))
        updated_at = sa.column("updated_at", sa.DateTime)
        self._attributes = sa.table(
            "standardattributes", sa.column("id"), sa.column("revision_number"), updated_at
        )

    def write_all(self, grants: Sequence[tuple[Port, Allocation]]) -> dict[str, str]:
        """Write profiles; return by port why it was not written, empty if it was, or was right already.

        A port that was changed after it was read here is missing, so that the caller tries it again.
        """
        ports, bindings, attributes = self._ports, self._bindings, self._attributes
        statement = (
            sa.select(ports, bindings, attributes.c.revision_number)
            .join_from(ports, bindings, bindings.c.port_id == ports.c.id)
            .join(attributes, attributes.c.id == ports.c.standard_attr_id)
            .where(ports.c.id.in_([port.uuid for port, _ in grants]), bindings.c.status == _ACTIVE)
        )
        rows = {row["id"]: row for row in self._connection.execute(statement).mappings()}
        reasons: dict[str, str] = {}
        for port, allocation in grants:
            row = rows.get(port.uuid)
            text, reason = _make_profile(port, allocation, row)
            if reason is not None:
                reasons[port.uuid] = reason
            elif row is not None and self._write(row, text):
                reasons[port.uuid] = ""
        return reasons

    def _write(self, row: RowMapping, text: str) -> bool:
        """Replace the profile of a row, and raise the revision of its port, as neutron does.

        Return False if the port or its binding was changed since it was read. The revision is compared
        besides the profile, as MariaDB compares texts without case. Raise Collision if somebody else raised
        the revision meanwhile: PostgreSQL evaluates the condition of the first update on other tables by what
        was committed before the statement; the second update waits for whoever changes the port, and
        evaluates its own condition again.
        """
        ports, bindings, attributes = self._ports, self._bindings, self._attributes
        is_same_port = sa.exists().where(
            ports.c.id == row["id"],
            ports.c.device_id == row["device_id"],
            attributes.c.id == ports.c.standard_attr_id,
            attributes.c.revision_number == row["revision_number"],
        )
        same = [
            bindings.c[name] == row[name] for name in ("port_id", "host", "vif_type", "profile", "status")
        ]
        replacing = sa.update(bindings).where(*same, is_same_port).values(profile=text)
        if self._connection.execute(replacing).rowcount != 1:
            return False
        now = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
        raising = (
            sa.update(attributes)
            .where(
                attributes.c.id == row["standard_attr_id"],
                attributes.c.revision_number == row["revision_number"],
            )
            .values(revision_number=row["revision_number"] + 1, updated_at=now)
        )
        if self._connection.execute(raising).rowcount != 1:
            raise Collision
        return True


def _make_profile(port: Port, allocation: Allocation, row: RowMapping | None) -> tuple[str, str | None]:
    """Return the text of a profile with the providers, and what prevents the write.

    None: write it; empty: the profile is right already; otherwise: why it is not written.
    """
    if row is None:
        return "", "it was deleted, or is bound to no host any more"
    try:
        profile = parse_profile(row["profile"])
    except ValueError as error:
        return "", f"its profile cannot be read: {error}"
    document = {
        "device_id": row["device_id"],
        "binding:host_id": row["host"],
        "binding:vif_type": row["vif_type"],
        "binding:profile": profile,
    }
    text = json.dumps({**profile, "allocation": allocation})
    reason = describe_change(port, allocation, document)
    if reason is None and len(text) > _MOST_OF_PROFILE:
        reason = f"it would have {len(text):,} characters, and neutron allows {_MOST_OF_PROFILE:,}"
    return text, reason


def _make_port(
    row: RowMapping,
    rules: tuple[Sequence[Rule], Sequence[Rule] | None],
    segments: Sequence[str | None],
    device: str,
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
