# SPDX-License-Identifier: Apache-2.0
"""Headroom of hosts and aggregates: the command, and its moves made on a server."""

import random
import uuid

import pytest

from tests.functional.commands.proxy import proxy_to
from tests.functional.commands.pty_run import WholeTerminal

HEADROOM = ("resource", "provider", "headroom")
RACKS = [str(uuid.UUID(int=number)) for number in (1, 2, 3)]
EVERYWHERE = str(uuid.UUID(int=9))
NOWHERE = str(uuid.UUID(int=10))
OWNER = {"project_id": "project", "user_id": "user", "consumer_type": "INSTANCE"}
NO_BULK = (404, "application/json", '{"errors": [{"status": 404, "detail": "no such path"}]}')


@pytest.fixture(scope="module")
def endpoint(server_apart):
    """A server that has nothing but this cloud."""
    return server_apart.url


def make(client, name, aggregates=(), traits=(), parent=None, **stocks):
    """Create a provider; a stock is a total, or fields of an inventory."""
    identity = str(uuid.uuid5(uuid.NAMESPACE_DNS, name))
    made = client.create_provider(name, uuid=identity, parent=parent)["uuid"]
    inventories = {
        key: value if isinstance(value, dict) else {"total": value} for key, value in stocks.items()
    }
    generation = client.set_inventories(made, inventories, 0)["resource_provider_generation"]
    generation = client.set_provider_traits(made, traits, generation)["resource_provider_generation"]
    client.set_provider_aggregates(made, aggregates, generation)
    return made


def claim(client, consumer, allocations, generation=None):
    held = {provider: {"resources": amounts} for provider, amounts in allocations.items()}
    client.set_allocations(consumer, {"allocations": held, "consumer_generation": generation, **OWNER})


@pytest.fixture(scope="module")
def cloud(client):
    """Three racks of four hosts with devices, two of them with a pool; the third has too much on it.

    Return the allocations of each consumer.
    """
    dice = random.Random(8)
    hosts, held = [], {}
    for rack in range(3):
        for number in range(4):
            aggregates = [RACKS[rack], EVERYWHERE]
            fields = {"total": 9 - rack, "allocation_ratio": 2.0}
            host = make(client, f"r{rack}-h{number}", aggregates, VCPU=fields, MEMORY_MB=64)
            devices = [make(client, f"r{rack}-h{number}-gpu{each}", parent=host, VGPU=4) for each in range(2)]
            hosts.append((rack, host, devices))
    # the first two racks share one pool
    shared = "MISC_SHARES_VIA_AGGREGATE"
    pool = make(client, "pool", RACKS[:2], [shared], DISK_GB=500)
    for rack, host, devices in hosts:
        for number in range(5 if rack == 2 else 3):
            allocations = {host: {"VCPU": dice.randint(2, 3), "MEMORY_MB": dice.choice((4, 8, 12))}}
            if number < 2:
                allocations[devices[number]] = {"VGPU": 1}
            if number == 1 and rack < 2:
                allocations[pool] = {"DISK_GB": 20}
            # the order of their UUIDs decides who is placed first
            consumer = str(uuid.UUID(int=dice.getrandbits(128), version=4))
            claim(client, consumer, allocations)
            held[consumer] = allocations
    volume = str(uuid.uuid4())
    claim(client, volume, {pool: {"DISK_GB": 100}})
    held[volume] = {pool: {"DISK_GB": 100}}
    return held


def replay(client, rows, held, lost):
    """Make the moves of the rows on the server one after the other; restore what was there afterwards."""
    uuids = {provider["name"]: provider["uuid"] for provider in client.list_providers()}
    try:
        for row in rows:
            assert not any(name.startswith(lost) for name in row["resources"]), row
            allocations = {uuids[name]: amounts for name, amounts in row["resources"].items()}
            # the same amounts, wherever they come from
            assert totals(allocations) == totals(held[row["consumer"]])
            generation = client.read_consumer(row["consumer"]).generation
            claim(client, row["consumer"], allocations, generation)
    finally:
        for row in reversed(rows):
            generation = client.read_consumer(row["consumer"]).generation
            claim(client, row["consumer"], held[row["consumer"]], generation)


def totals(allocations):
    sums = {}
    for amounts in allocations.values():
        for name, amount in amounts.items():
            sums[name] = sums.get(name, 0) + amount
    return sums


@pytest.mark.parametrize("options", [(), ("--traits", "any", "--group-policy", "none")])
def test_the_server_accepts_every_move_of_every_host(openstack, client, cloud, options):
    """Each host is emptied by itself, as its rows say."""
    result = openstack.run(*HEADROOM, "--each-host", "--by", "placement", *options, "-f", "json")
    assert result.status in (0, 3), result.err
    domains = {row["domain"] for row in result.json}
    assert len(domains) == 12
    for domain in sorted(domains):
        replay(client, [row for row in result.json if row["domain"] == domain], cloud, domain)


def test_the_server_accepts_every_move_of_every_rack(openstack, client, cloud):
    """Of a rack that does not fit, the consumers that have a place can still be moved."""
    result = openstack.run(*HEADROOM, "--each-aggregate", "--by", "placement", "-f", "json")
    assert len({row["domain"] for row in result.json}) == 3
    for number, rack in enumerate(RACKS):
        rows = [row for row in result.json if row["domain"] == rack]
        assert rows
        replay(client, rows, cloud, f"r{number}-")


def test_each_rack_has_a_row(openstack, cloud):
    """The worst first; the aggregate of all hosts is left out, and said to be."""
    result = openstack.run(*HEADROOM, "--each-aggregate", "-f", "json")
    assert f"Aggregate {EVERYWHERE} is left out, because it has every host" in result.err
    rows = {row["domain"]: row for row in result.json}
    assert set(rows) == set(RACKS)
    assert {row["hosts"] for row in rows.values()} == {4}
    numbers = [row["not_placed"] for row in result.json]
    assert numbers == sorted(numbers, reverse=True)
    assert rows[RACKS[0]]["consumers"] == 12, "the volume on the pool is not lost"
    assert result.status == (3 if any(numbers) else 0)


def test_what_has_no_place_is_named_with_what_is_missing(openstack, client, cloud):
    """All racks but one at once: placed and not placed are all consumers, and the reason is a class."""
    words = ("--aggregate", RACKS[0], "--aggregate", RACKS[2], "--together", "-f", "json")
    (row,) = openstack.run(*HEADROOM, *words).json
    missing = openstack.run(*HEADROOM, *words, "--by", "consumer")
    placed = openstack.run(*HEADROOM, *words, "--by", "placement")
    assert {result.status for result in (missing, placed)} == {3}
    assert (row["verdict"], row["not_placed"]) == ("not found", len(missing.json))
    assert row["consumers"] == len(missing.json) + len(placed.json) == 32
    assert {one["consumer"] for one in (*missing.json, *placed.json)} <= cloud.keys()
    assert {one["type"] for one in missing.json} == {"INSTANCE"}
    assert any(one["reason"].startswith("VCPU: ") and "asked" in one["reason"] for one in missing.json)
    vcpus = sum(cloud_amount(cloud, one["consumer"], "VCPU") for one in missing.json)
    assert f"VCPU={vcpus}" in row["missing"].split(",")


def cloud_amount(cloud, consumer, resource_class):
    return totals(cloud[consumer]).get(resource_class, 0)


def test_a_host_that_fits_ends_with_status_0(openstack, cloud):
    """One host, given by the name of any of its providers."""
    result = openstack.run(*HEADROOM, "r0-h1-gpu0", "-f", "json")
    (row,) = result.json
    assert (result.status, row["domain"], row["verdict"], row["consumers"]) == (0, "r0-h1", "fits", 3)
    assert (row["missing"], row["reason"]) == ("", "")


def test_within_keeps_consumers_in_their_aggregate(openstack, cloud):
    """Nowhere in a rack is room for the rack's own consumers."""
    result = openstack.run(*HEADROOM, "r2-h0", "r0-h0", "--within", RACKS[2], "-f", "json")
    rows = {row["domain"]: row["verdict"] for row in result.json}
    assert rows == {"r2-h0": "not found", "r0-h0": "fits"}


def test_member_of_is_for_every_consumer(openstack, cloud):
    """New hosts are in the aggregate that is given."""
    rows = openstack.run(*HEADROOM, "r0-h0", "--member-of", RACKS[1], "--by", "placement", "-f", "json").json
    assert rows
    assert {row["host"][:3] for row in rows} == {"r1-"}


def test_a_server_without_bulk_reads_gives_the_same_answer(openstack, endpoint, cloud):
    """Consumers are read provider by provider, and only those of the hosts in question."""
    asked = []

    def interfere(method, path):
        asked.append(path)
        return NO_BULK if path.startswith("/-/") else None

    words = (*HEADROOM, "r2-h0", "--by", "placement", "-f", "json")
    with proxy_to(endpoint, interfere) as url:
        result = openstack.run(*words, endpoint=url)
    assert result.json == openstack.run(*words).json
    assert sum(path.startswith("/allocations/") for path in asked) == 5


def test_html_page_has_the_rows(openstack, cloud, tmp_path):
    """A page like those of capacity, beside the rows."""
    page = tmp_path / "headroom.html"
    result = openstack.run(*HEADROOM, "--each-aggregate", "--html", page, "-f", "json")
    assert len(result.json) == 3
    text = page.read_text()
    assert "<title>Headroom</title>" in text
    assert all(rack in text for rack in RACKS)


def test_html_page_names_new_places_as_a_table_does(openstack, cloud, tmp_path):
    """A provider and its amounts, and no document of Python or JSON."""
    page = tmp_path / "headroom.html"
    result = openstack.run(*HEADROOM, "--each-host", "--by", "placement", "--html", page, "-f", "json")
    (name, amounts), *_ = result.json[0]["resources"].items()
    text = page.read_text()
    assert f"{name}: " in text
    assert all(f"{resource_class}=" in text for resource_class in amounts)
    assert "{'" not in text


def test_output_fits_a_terminal(openstack, cloud):
    """80 columns, and no more lines than the terminal has; the totals are there in any case."""
    shown, _ = WholeTerminal(openstack, *HEADROOM, "--each-host", columns=80, rows=12).finish()
    lines = shown.rstrip().splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 12
    assert "12 fit" in shown
    assert "more rows" in shown


def test_terminal_is_told_that_no_consumer_is_without_a_place(openstack, cloud):
    """No row would otherwise say whether something was found."""
    rows = openstack.run(*HEADROOM, "--each-host", "-f", "json").json
    host = next(row["domain"] for row in rows if row["verdict"] == "fits" and row["consumers"])
    shown, status = WholeTerminal(openstack, *HEADROOM, host, "--by", "consumer", columns=80).finish()
    told = "Every consumer has a place elsewhere. (--by placement shows where)"
    assert (status, shown.splitlines()[0]) == (0, told)


def test_new_places_fit_80_columns_with_whole_uuids(openstack, cloud):
    """What is held there is left out if it does not fit; where it fits, each provider has a line of it."""
    rows = openstack.run(*HEADROOM, "r0-h1", "--by", "placement", "-f", "json").json
    words = (*HEADROOM, "r0-h1", "--by", "placement")
    shown, _ = WholeTerminal(openstack, *words, columns=60).finish()
    assert max(map(len, shown.splitlines())) <= 60
    assert all(f"| {row['consumer']} | {row['host']} " in shown for row in rows)
    shown, _ = WholeTerminal(openstack, *words, columns=200).finish()
    held = [(name, amounts) for row in rows for name, amounts in row["resources"].items()]
    assert {len(row["resources"]) for row in rows} > {1}
    for name, amounts in held:
        told = ",".join(f"{each}={amount}" for each, amount in sorted(amounts.items()))
        assert f"| {name}: {told} " in shown


@pytest.mark.parametrize("by", ["domain", "consumer"])
def test_aggregates_and_reasons_fit_80_columns(openstack, cloud, by):
    """UUIDs are long; what is left out is named."""
    words = ("--aggregate", RACKS[0], "--aggregate", RACKS[2], "--by", by)
    shown, _ = WholeTerminal(openstack, *HEADROOM, *words, "--together", columns=80).finish()
    assert max(map(len, shown.rstrip().splitlines())) <= 80
    assert "Columns not shown: " in shown


def test_each_aggregate_has_its_reason_at_80_columns(openstack, cloud):
    """Beside the verdict and a UUID, in several lines if it is long."""
    words = (*HEADROOM, "--each-aggregate", "--required", "HW_CPU_X86_AVX512F")
    rows = openstack.run(*words, "-f", "json").json
    reasons = {row["reason"] for row in rows} - {""}
    shown, _ = WholeTerminal(openstack, *words, columns=80).finish()
    cells = [line.split("|")[-2].split() for line in shown.splitlines() if line.startswith("|")]
    told = " ".join(word for cell in cells for word in cell)
    assert reasons
    assert all(reason in told for reason in reasons)


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ((), 2, "Give resource providers, --aggregate, --each-aggregate or --each-host"),
        (("r0-h00",), 1, "(is it r0-h0"),
        ((NOWHERE,), 1, NOWHERE),
        (("VCPU=4", "MEMORY_MB=8GB"), 2, "resource provider capacity --fit VCPU=4,MEMORY_MB=8GB\n"),
        (("--resource", "VCPU=4", "--resource", "X"), 2, "resource provider capacity --fit VCPU=4\n"),
        (("--resource", "X"), 2, "resource provider capacity --fit VCPU=4,MEMORY_MB=8192\n"),
        (("--aggregate", NOWHERE), 1, f"aggregate {NOWHERE}; see the aggregates with: openstack"),
        (("--each-host", "--within", NOWHERE), 1, f"No host is in aggregate {NOWHERE}"),
        (("--each-host", "--member-of", NOWHERE), 1, f"No host is in aggregate {NOWHERE}"),
        (("--each-host", "--required", "HW_CPU_X86_AVX9"), 1, "(is it HW_CPU_X86_AVX"),
        (("--each-host", "--each-aggregate"), 2, "--each-aggregate cannot be used with --each-host"),
        (("--each-host", "r0-h0"), 2, "one by one"),
    ],
)
def test_bad_input_is_one_line(openstack, cloud, words, status, message):
    """It says what is wrong; nothing is on standard output. Only a wrong command line ends with 2."""
    result = openstack.run(*HEADROOM, *words)
    assert (result.status, result.out) == (status, "")
    assert message in result.err
    assert len(result.err.strip().splitlines()) == 1


def test_an_aggregate_of_everything_has_nothing_left(openstack, cloud):
    """Given by itself, it is judged: no other host is left."""
    result = openstack.run(*HEADROOM, "--aggregate", EVERYWHERE, "-f", "json")
    (row,) = result.json
    assert (result.status, row["not_placed"], row["reason"]) == (3, 44, "no other host meets the conditions")


def test_a_uuid_that_is_the_name_is_shown_once_on_a_terminal(openstack, cloud):
    """An aggregate without a name has its UUID in its place; a pipe and -c have both columns."""
    words = (*HEADROOM, "--each-aggregate")
    shown, _ = WholeTerminal(openstack, *words, columns=200).finish()
    assert all(shown.count(rack) == 1 for rack in RACKS)
    shown, _ = WholeTerminal(openstack, *words, "-c", "uuid", columns=200).finish()
    assert all(shown.count(rack) == 1 for rack in RACKS)
    assert all(openstack.run(*words).out.count(rack) == 2 for rack in RACKS)
