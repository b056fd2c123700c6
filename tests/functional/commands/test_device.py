# SPDX-License-Identifier: Apache-2.0
"""One-time-use devices: their list, and the release of those that are burned."""

import json
import uuid

import pytest
import yaml

from tests.functional.commands.proxy import proxy_to
from tests.functional.commands.pty_run import run_on_terminal

PROVIDER = ("resource", "provider")
LIST = (*PROVIDER, "device", "list")
BATCH = (*PROVIDER, "batch")
RELEASE = (*BATCH, "device", "release")
RUN = (*BATCH, "run")
CLASS = "CUSTOM_PCI_10DE_20B5"
ONE_TIME_USE = "HW_PCI_ONE_TIME_USE"
IN_USE = (
    f"the one-time-use device is in use: 1 {CLASS} allocated; a later run can release it, when it is free "
    "again and was cleaned"
)


class Devices:
    """Two hosts with devices that are named as nova names them.

    :ivar host: the name of the first host
    :ivar uuids: UUIDs by the state that a device has at first: burned, free and in use on the first host,
        ``other``, which is burned, on the second, and ``plain``, which is burned but no one-time-use device
    """

    def __init__(self, client):
        self.client = client
        cloud = f"compute-{uuid.uuid4().hex[:6]}"
        self.host, second = f"{cloud}-1", f"{cloud}-2"
        self.pattern = f"{cloud}-*"
        roots = {name: client.create_provider(name)["uuid"] for name in (self.host, second)}
        client.ensure_resource_class(CLASS)
        self.consumers = []
        self.names, self.uuids = {}, {}
        for number, (state, host) in enumerate(
            {
                "burned": self.host,
                "free": self.host,
                "in use": self.host,
                "other": second,
                "plain": second,
            }.items()
        ):
            self.names[state] = f"{host}_0000:8{number}:00.0"
            made = client.create_provider(self.names[state], parent=roots[host])["uuid"]
            self.uuids[state] = made
            self.set_reserved(state, 0)
            if state != "plain":
                client.set_provider_traits(made, [ONE_TIME_USE], 1)
        for state in ("burned", "other", "plain"):
            self.set_reserved(state, 1)
        self.use("in use")
        self._made = [*self.uuids.values(), *roots.values()]

    def set_reserved(self, state, reserved):
        """Do as nova-compute, or an operator, does."""
        generation = self.generation(state)
        self.client.set_inventories(
            self.uuids[state], {CLASS: {"total": 1, "max_unit": 1, "reserved": reserved}}, generation
        )

    def generation(self, state):
        return self.client.show_provider(self.uuids[state])["generation"]

    def reserved(self, state):
        return self.client.list_inventories(self.uuids[state])["inventories"][CLASS]["reserved"]

    def use(self, state):
        """Let an instance claim a device that is free, and nova-compute reserve it."""
        owner = {"project_id": "p", "user_id": "u", "consumer_generation": None, "consumer_type": "INSTANCE"}
        held = {self.uuids[state]: {"resources": {CLASS: 1}}}
        self.consumers.append(str(uuid.uuid4()))
        self.client.set_allocations(self.consumers[-1], {"allocations": held, **owner})
        self.set_reserved(state, 1)

    def delete_instances(self):
        while self.consumers:
            self.client.delete_allocations(self.consumers.pop())

    def close(self):
        self.delete_instances()
        for made in self._made:
            self.client.delete_provider(made)


@pytest.fixture
def devices(client):
    made = Devices(client)
    yield made
    made.close()


def rows_by_name(result):
    return {row["name"]: row for row in result.json}


# list


def test_list_has_the_state_of_each_device(openstack, devices):
    """Providers without the trait are none, also if they are reserved."""
    result = openstack.run(*LIST, "--name", devices.pattern, "-f", "json")
    assert (result.status, result.err) == (0, "")
    assert [(row["device"], row["state"], row["reserved"], row["used"]) for row in result.json] == [
        (devices.names["burned"], "burned", 1, 0),
        (devices.names["free"], "free", 0, 0),
        (devices.names["in use"], "in use", 1, 1),
        (devices.names["other"], "burned", 1, 0),
    ]
    assert result.json[0] == {
        "host": devices.host,
        "device": devices.names["burned"],
        "uuid": devices.uuids["burned"],
        "resource_class": CLASS,
        "total": 1,
        "reserved": 1,
        "used": 0,
        "state": "burned",
    }


def test_list_of_burned_devices_of_a_host(openstack, devices):
    """A host stands for what is below it."""
    result = openstack.run(*LIST, devices.host, "--burned", "-f", "value", "-c", "device")
    assert (result.status, result.out.split()) == (0, [devices.names["burned"]])


def test_list_without_devices_is_empty(openstack, devices, rack):
    """There is nothing wrong with a host that has none; with one that does not exist there is."""
    result = openstack.run(*LIST, rack.hosts[0], "-f", "json")
    assert (result.status, result.json, result.err) == (0, [], "")
    for options, told in (((), "There is no one"), (("--burned",), "There is no burned one")):
        shown, status = run_on_terminal(openstack, *LIST, rack.hosts[0], *options, columns=80)
        assert (status, shown.splitlines()[0]) == (0, f"{told}-time-use device.")
    result = openstack.run(*LIST, "no-such-host", "-f", "json")
    assert (result.status, result.out, result.err.count("\n")) == (1, "", 1)
    assert "no-such-host" in result.err


def test_list_of_a_device_without_inventory(openstack, devices):
    """It is listed, as something is wrong with it."""
    devices.client.delete_inventories(devices.uuids["free"])
    result = openstack.run(*LIST, devices.names["free"], "-f", "json")
    assert [(row["resource_class"], row["state"]) for row in result.json] == [("", "no inventory")]


def test_tables_fit_80_columns(openstack, devices):
    """The list leaves out what a terminal has no place for, and says so; the state is there."""
    shown, status = run_on_terminal(openstack, *LIST, "--name", devices.pattern, columns=80)
    assert status == 0
    assert "burned" in shown
    assert "Columns not shown: uuid" in shown
    assert max(map(len, shown.splitlines())) <= 80
    shown, status = run_on_terminal(openstack, *RELEASE, devices.names["burned"], columns=80, answer="n\n")
    assert (status, devices.reserved("burned")) == (1, 1)
    assert "Change 1 resource provider? [y/N]" in shown
    # the answer was echoed before the question
    assert max(map(len, shown.replace("[y/N] ", "[y/N]\n").splitlines())) <= 80


# release


def test_burned_device_is_released_by_name(openstack, devices):
    """Only what is reserved changes, and a dry run changes nothing."""
    command = (*RELEASE, devices.names["burned"], "-f", "json")
    result = openstack.run(*command, "--dry-run")
    assert (result.status, devices.reserved("burned")) == (0, 1)
    result = openstack.run(*command, "--yes")
    assert (result.status, devices.reserved("burned"), devices.reserved("other")) == (0, 0, 1)
    (row,) = result.json
    assert (row["uuid"], row["result"]) == (devices.uuids["burned"], "applied")
    before, after = (row[side]["inventories"][CLASS] for side in ("before", "after"))
    assert after == before | {"reserved": 0}
    listed = openstack.run(*LIST, devices.names["burned"], "-f", "value", "-c", "state")
    assert listed.out.strip() == "free"


@pytest.mark.parametrize("option", [(), ("--atomic",)], ids=["one by one", "atomic"])
def test_burned_devices_are_released_by_a_list(openstack, devices, option):
    """The list of burned devices is a list of providers."""
    burned = openstack.run(*LIST, "--name", devices.pattern, "--burned", "-f", "value", "-c", "uuid").out
    result = openstack.run(*RELEASE, "--providers-file", "-", "--yes", *option, text=burned)
    assert result.status == 0
    assert [devices.reserved(each) for each in ("burned", "other", "in use", "plain")] == [0, 0, 1, 1]


def test_selection_refuses_devices_in_use_and_leaves_others(openstack, devices):
    """The reasons are in the rows; the burned ones are released."""
    result = openstack.run(*RELEASE, "--name", devices.pattern, "--yes", "-f", "json")
    rows = rows_by_name(result)
    assert result.status == 3
    found = {
        state: (rows[name]["result"], rows[name]["reason"] or rows[name]["error"])
        for state, name in devices.names.items()
    }
    assert found == {
        "burned": ("applied", ""),
        "free": ("unchanged", "is not burned"),
        "in use": ("refused", IN_USE),
        "other": ("applied", ""),
        "plain": ("unchanged", f"no trait {ONE_TIME_USE}"),
    }
    assert devices.reserved("in use") == 1


def test_device_in_use_that_is_named_is_refused(openstack, devices):
    """No run begins."""
    before = (
        openstack.last_run()["id"] if openstack.run(*RUN, "list", "--all-clouds", "-f", "json").json else None
    )
    for option, column, told in (("--yes", "error", IN_USE), ("--dry-run", "reason", f"refused: {IN_USE}")):
        result = openstack.run(*RELEASE, devices.names["in use"], option, "-f", "json")
        assert (result.status, result.json[0][column]) == (3, told)
    result = openstack.run(*RELEASE, devices.names["in use"], "--yes", "--atomic")
    told = "Nothing was changed: device release: 1 resource provider, 1 refused\n"
    assert (result.status, result.err) == (3, told)
    assert devices.reserved("in use") == 1
    runs = openstack.run(*RUN, "list", "--all-clouds", "-f", "json").json
    assert (runs[-1]["id"] if runs else None) == before


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["no-such-device", "--yes"], 1, "No resource provider has the name or UUID no-such-device"),
        (
            ["{plain}", "--yes"],
            1,
            f"No selected resource provider has the trait {ONE_TIME_USE}, so there is no",
        ),
        (["--yes"], 2, "Say which resource providers to change"),
        (["{burned}", "--providers-file", "x", "--yes"], 2, "--providers-file cannot be used with devices"),
        (["{burned}"], 1, "--yes"),
    ],
)
def test_bad_input_is_one_line(openstack, devices, arguments, status, told):
    """And nothing is written."""
    given = [each.format(**devices.names) for each in arguments]
    result = openstack.run(*RELEASE, *given)
    assert (result.status, result.out) == (status, "")
    assert told in result.err.splitlines()[-1]
    assert "Traceback" not in result.err
    assert (devices.reserved("burned"), devices.reserved("plain")) == (1, 1)


# claims between reading and writing


@pytest.fixture
def claimer(devices):
    """A proxy's part: before the first write arrives, somebody else releases a device, and it is claimed."""
    pending = ["burned"]

    def claim(method, _path):
        if method in ("PUT", "POST") and pending:
            state = pending.pop()
            devices.set_reserved(state, 0)
            devices.use(state)

    return claim


@pytest.mark.parametrize("bulk_write", [False, True], ids=("one by one", "in portions"))
def test_claim_between_plan_and_write_is_not_lost(openstack, devices, claimer, bulk_write):
    """The conflict plans the device again, which is in use by then; the other one is released."""
    with proxy_to(openstack.endpoint, claimer, bulk_write=bulk_write) as endpoint:
        result = openstack.run(
            *RELEASE,
            devices.names["burned"],
            devices.names["other"],
            "--yes",
            "-f",
            "json",
            endpoint=endpoint,
        )
    rows = rows_by_name(result)
    assert (result.status, rows[devices.names["burned"]]["error"]) == (3, IN_USE)
    assert (devices.reserved("burned"), devices.reserved("other")) == (1, 0)


def test_claim_between_plan_and_atomic_write_changes_nothing(openstack, devices, claimer):
    """Neither the device that was claimed nor the other."""
    with proxy_to(openstack.endpoint, claimer, bulk_write=True) as endpoint:
        result = openstack.run(
            *RELEASE, devices.names["burned"], devices.names["other"], "--yes", "--atomic", endpoint=endpoint
        )
    assert result.status == 3
    assert f"{devices.names['burned']}: {IN_USE}" in result.err
    assert (devices.reserved("burned"), devices.reserved("other")) == (1, 1)


def test_claim_between_readings_is_not_lost(openstack, devices):
    """Inventories are read before usages: a claim in between is seen in the usages."""
    devices.set_reserved("burned", 1)
    pending = ["burned"]

    def claim(method, path):
        if path.endswith("/usages") and devices.uuids["burned"] in path and pending:
            devices.set_reserved("burned", 0)
            devices.use(pending.pop())

    with proxy_to(openstack.endpoint, claim) as endpoint:
        result = openstack.run(*RELEASE, devices.names["burned"], "--yes", "-f", "json", endpoint=endpoint)
    assert (result.status, pending) == (3, [])
    assert result.json[0]["error"] == IN_USE
    assert devices.reserved("burned") == 1


def test_device_whose_usages_cannot_be_read_is_not_released(openstack, devices):
    """Unknown is not unused."""

    def refuse(method, path):
        if path.endswith("/usages"):
            return 500, "application/json", '{"errors": [{"status": 500, "detail": "broken"}]}'
        return None

    with proxy_to(openstack.endpoint, refuse) as endpoint:
        result = openstack.run(*RELEASE, devices.names["burned"], "--yes", "-f", "json", endpoint=endpoint)
    assert (result.status, devices.reserved("burned")) == (3, 1)


# saved plans, resume, undo


def test_saved_plan_is_not_for_a_device_that_was_used_again(openstack, devices):
    """It is burned again, and was not cleaned since; --replan is the operator's word that it was."""
    path = openstack.home / f"{devices.host}.plan"
    assert openstack.run(*RELEASE, devices.names["burned"], "--plan-out", path).status == 0
    devices.set_reserved("burned", 0)
    devices.use("burned")
    devices.delete_instances()
    result = openstack.run(*BATCH, "apply", path, "--yes")
    assert (result.status, devices.reserved("burned")) == (1, 1)
    assert result.err.splitlines()[0] == (
        f"{devices.names['burned']}: it was changed since, and may have been used again"
    )
    assert openstack.run(*BATCH, "apply", path, "--yes", "--force").status == 1
    assert devices.reserved("burned") == 1
    assert openstack.run(*BATCH, "apply", path, "--yes", "--replan").status == 0
    assert devices.reserved("burned") == 0


def test_saved_plan_is_not_for_a_device_in_use(openstack, devices):
    """Nor is it planned again."""
    path = openstack.home / f"{devices.host}.plan"
    assert openstack.run(*RELEASE, devices.names["burned"], "--plan-out", path).status == 0
    devices.set_reserved("burned", 0)
    devices.use("burned")
    result = openstack.run(*BATCH, "apply", path, "--yes", "--replan", "-f", "json")
    assert (result.status, devices.reserved("burned")) == (3, 1)
    assert result.json[0]["error"] == IN_USE


def begin_release(openstack, devices, writable):
    """Start a run that does nothing yet; return its ID."""
    names = (devices.names["burned"], devices.names["other"])
    assert openstack.run(*RELEASE, *names, "--yes").status == 3
    writable.set()
    return openstack.last_run()["id"]


def test_resume_releases_what_is_left(openstack, devices, writable):
    """Here nothing was done."""
    run = begin_release(openstack, devices, writable)
    assert devices.reserved("burned") == 1
    assert openstack.run(*RUN, "resume", run, "--yes").status == 0
    assert (devices.reserved("burned"), devices.reserved("other")) == (0, 0)


def test_resume_refuses_devices_that_were_used_since(openstack, devices, writable):
    """One that is in use, and one that is burned again."""
    run = begin_release(openstack, devices, writable)
    devices.set_reserved("burned", 0)
    devices.use("burned")
    devices.delete_instances()
    devices.set_reserved("other", 0)
    devices.use("other")
    result = openstack.run(*RUN, "resume", run, "--yes", "-f", "json")
    rows = rows_by_name(result)
    assert result.status == 3
    assert (devices.reserved("burned"), devices.reserved("other")) == (1, 1)
    assert "may have been used again" in rows[devices.names["burned"]]["error"]
    assert rows[devices.names["other"]]["result"] == "refused"


def test_undo_burns_again_what_nobody_changed_since(openstack, devices):
    """A device that was claimed since is reserved by nova-compute already."""
    names = (devices.names["burned"], devices.names["other"])
    assert openstack.run(*RELEASE, *names, "--yes").status == 0
    devices.use("other")
    generation = devices.generation("other")
    result = openstack.run(*RUN, "undo", openstack.last_run()["id"], "--yes", "-f", "json")
    rows = rows_by_name(result)
    assert (result.status, devices.reserved("burned")) == (0, 1)
    assert rows[devices.names["other"]]["result"] == "unchanged"
    assert devices.generation("other") == generation


def test_undo_of_the_undo_does_not_release_a_device_in_use(openstack, devices):
    """No run does, whatever its command is."""
    assert openstack.run(*RELEASE, devices.names["burned"], "--yes").status == 0
    assert openstack.run(*RUN, "undo", openstack.last_run()["id"], "--yes").status == 0
    undo = openstack.last_run()["id"]
    devices.set_reserved("burned", 0)
    devices.use("burned")
    for options in ((), ("--force",)):
        result = openstack.run(*RUN, "undo", undo, "--yes", *options, "-f", "json")
        assert (result.status, devices.reserved("burned")) == (3, 1)
        assert IN_USE in result.json[0]["error"]


def free_by_inventory_set(devices, state="burned"):
    """The command that frees a device without saying that it releases one."""
    return (*BATCH, "inventory", "set", f"{CLASS}:reserved=0", "--name", devices.names[state])


def use_again(devices):
    """Let an instance have the burned device, which is burned once more afterwards."""
    devices.set_reserved("burned", 0)
    devices.use("burned")
    devices.delete_instances()


AGAIN = "was changed since its release was planned, and may have been used again"


def test_inventory_set_that_is_planned_again_does_not_release_a_device(openstack, devices):
    """It was used and burned between the plan and the write; what is no device is planned again."""
    pending = [True]

    def interfere(method, _path):
        if method in ("PUT", "POST") and pending:
            pending.clear()
            use_again(devices)
            devices.set_reserved("plain", 0)
            devices.set_reserved("plain", 1)

    for state, ended in (("burned", 3), ("plain", 0)):
        with proxy_to(openstack.endpoint, interfere) as endpoint:
            command = free_by_inventory_set(devices, state)
            result = openstack.run(*command, "--yes", "-f", "json", endpoint=endpoint)
        assert (result.status, devices.reserved(state)) == (ended, 1 if ended else 0)
        assert (AGAIN in result.json[0]["error"]) == bool(ended)
        pending.append(True)


def test_saved_inventory_set_is_not_for_a_device_that_was_used_again(openstack, devices):
    """Its values are as they were; --replan is the operator's word that it was cleaned."""
    path = openstack.home / f"{devices.host}.plan"
    assert openstack.run(*free_by_inventory_set(devices), "--plan-out", path).status == 0
    use_again(devices)
    result = openstack.run(*BATCH, "apply", path, "--yes", "-f", "json")
    assert (result.status, devices.reserved("burned")) == (3, 1)
    assert AGAIN in result.json[0]["error"]
    assert openstack.run(*BATCH, "apply", path, "--yes", "--replan").status == 0
    assert devices.reserved("burned") == 0


def test_resumed_inventory_set_is_not_for_a_device_that_was_used_again(openstack, devices, writable):
    """Nor is it made when the run is resumed once more."""
    assert openstack.run(*free_by_inventory_set(devices), "--yes").status == 3
    writable.set()
    run = openstack.last_run()["id"]
    use_again(devices)
    for _ in range(2):
        result = openstack.run(*RUN, "resume", run, "--yes", "-f", "json")
        assert (result.status, devices.reserved("burned")) == (3, 1)
        assert AGAIN in result.json[0]["error"]


def test_inventory_set_does_not_release_a_device_in_use(openstack, devices):
    """It does release those that are not, and what is no device."""
    result = openstack.run(
        *BATCH,
        "inventory",
        "set",
        f"{CLASS}:reserved=0",
        "--name",
        f"{devices.pattern}_*",
        "--yes",
        "-f",
        "json",
    )
    rows = rows_by_name(result)
    assert (result.status, rows[devices.names["in use"]]["error"]) == (3, IN_USE)
    assert [devices.reserved(state) for state in ("burned", "other", "plain", "in use")] == [0, 0, 0, 1]


def test_inventory_set_of_an_aggregate_does_not_release_a_device_in_use(openstack, devices):
    """It is a run as well; a device that is burned is released."""
    rack = str(uuid.uuid4())
    for state in ("in use", "burned"):
        openstack.run(*PROVIDER, "aggregate", "add", devices.uuids[state], rack)
    command = (*PROVIDER, "inventory", "set", rack, "--aggregate", "--amend", "--resource")
    result = openstack.run(*command, f"{CLASS}:reserved=0")
    assert (result.status, IN_USE in result.err) == (1, True)
    assert (devices.reserved("in use"), devices.reserved("burned")) == (1, 0)


def test_apply_does_not_release_a_device_in_use(openstack, devices):
    """The file was written when it was free."""
    export = openstack.run(*PROVIDER, "export", "--name", devices.host)
    document = yaml.safe_load(export.out)
    for entry in document["providers"]:
        for inventory in (entry.get("inventories") or {}).values():
            inventory["reserved"] = 0
    result = openstack.run(*PROVIDER, "apply", "-f", "-", "--yes", text=json.dumps(document))
    assert (result.status, devices.reserved("in use"), devices.reserved("burned")) == (3, 1, 0)
    assert IN_USE in result.err


def test_apply_that_takes_a_device_from_its_instance_releases_it_in_a_second_run(openstack, devices):
    """A device must be cleaned between the two; the first run says that another one can release it."""
    export = openstack.run(*PROVIDER, "export", "--name", devices.host)
    document = yaml.safe_load(export.out)
    document["allocations"] = []
    for entry in document["providers"]:
        for inventory in (entry.get("inventories") or {}).values():
            inventory["reserved"] = 0
    command = (*PROVIDER, "apply", "-f", "-", "--prune", "--name", devices.host, "--yes")
    first = openstack.run(*command, text=json.dumps(document))
    assert (first.status, devices.reserved("in use")) == (3, 1)
    assert "a later run can release it" in first.err
    assert devices.client.list_allocations(devices.consumers.pop())["allocations"] == {}
    assert openstack.run(*command, text=json.dumps(document)).status == 0
    assert devices.reserved("in use") == 0


def test_run_shows_what_was_released(openstack, devices):
    """The journal has the state before."""
    assert openstack.run(*RELEASE, devices.names["burned"], "--yes").status == 0
    assert "device release" in json.dumps(openstack.last_run())
    (row,) = openstack.run(*RUN, "show", openstack.last_run()["id"], "-f", "json").json
    assert (row["before"], row["after"]) == (f"{CLASS}:reserved=1", f"{CLASS}:reserved=0")
