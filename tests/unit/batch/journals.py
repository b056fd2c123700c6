# SPDX-License-Identifier: Apache-2.0
"""Runs of every kind with their journals, on a cloud in memory, and the ways to resume and to undo them."""

import copy
import hashlib
import re
from dataclasses import dataclass

from osc_placement.batch import execute, journal, select, service
from osc_placement.batch.execute import execute_atomically, execute_reshape
from osc_placement.batch.facets import ProviderState
from osc_placement.batch.inventory import RatioEdit
from osc_placement.batch.membership import TraitEdit
from osc_placement.batch.plan import RESHAPE, Change, Consumer, Plan, make_plan
from osc_placement.batch.repeat import Recorded
from osc_placement.batch.reshape import Move, Moves
from osc_placement.batch.undo import plan_undo
from osc_placement.errors import Forbidden, NotFound
from osc_placement.model import Inventory
from tests.unit.batch.cloud import FakeCloud, conflict, processors

SERVER = "http://placement.test/placement"
KINDS = ("batch", "atomic", "reshape", "undo", "migration")


class Cloud(FakeCloud):
    """A cloud in memory that can reshape too, and whose contents can be compared and copied."""

    endpoint = SERVER

    def __init__(self, *names, **settings):
        super().__init__(*names, **settings)
        self.names, self.parents, self.unlistable = {}, {}, None

    @property
    def contents(self):
        """All that a run may change, generations aside."""
        providers = {
            name: {
                key: copy.deepcopy(value) for key, value in facets.items() if not key.startswith("resource")
            }
            for name, facets in self.facets.items()
        }
        return providers, {name: claim["allocations"] for name, claim in self.claims.items()}

    def copy(self):
        """Another cloud with the same contents."""
        other = Cloud()
        other.facets, other.claims = copy.deepcopy(self.facets), copy.deepcopy(self.claims)
        return other

    def list_providers(self, uuid=None, member_of=(), required=(), in_tree=None, resources=None):
        """As the client's; a provider has the name and the parent that `names` and `parents` give it."""
        self.calls.append(("list", uuid))
        if self.unlistable:
            raise self.unlistable
        found = []
        for provider in self.providers:
            facets = self.facets[provider.uuid]
            aggregates = {
                name for condition in member_of for name in condition.removeprefix("in:").split(",")
            }
            parent = self.parents.get(provider.uuid)
            if (
                uuid in (None, provider.uuid)
                and (not aggregates or aggregates & set(facets["aggregates"]))
                and all(
                    (name[1:] not in facets["traits"]) if name[0] == "!" else name in facets["traits"]
                    for text in required
                    for name in text.split(",")
                )
                and in_tree in (None, parent or provider.uuid)
                and all(
                    facets["inventories"].get(name, {"total": 0})["total"] >= amount
                    for name, amount in (resources or {}).items()
                )
            ):
                found.append(
                    {
                        "uuid": provider.uuid,
                        "name": self.names.get(provider.uuid, provider.name),
                        "generation": provider.generation,
                        "parent_provider_uuid": parent,
                    }
                )
        return found

    def show_provider(self, uuid):
        """As the client's."""
        if uuid not in self.facets:
            raise NotFound(404, "no such provider")
        return {"uuid": uuid, "name": uuid, "generation": self.facets[uuid]["resource_provider_generation"]}

    def list_provider_allocations(self, uuid):
        """As the client's."""
        held = {
            name: {"resources": dict(claim["allocations"][uuid]["resources"])}
            for name, claim in self.claims.items()
            if uuid in claim["allocations"]
        }
        return {"allocations": held}

    def list_allocations(self, consumer, _version=None):
        """As the client's."""
        if consumer in self.failing:
            raise self.failing[consumer]
        return copy.deepcopy(super().list_allocations(consumer))

    def provider_usages(self, uuid):
        """As the client's."""
        return {}

    def reshape(self, payload, _version=None):
        """As the client's: all of it or nothing."""
        for uuid, entry in payload["inventories"].items():
            self.before_write(uuid)
            if entry["resource_provider_generation"] != self.facets[uuid]["resource_provider_generation"]:
                raise conflict()
        for uuid, entry in payload["inventories"].items():
            self.touch(uuid, inventories=copy.deepcopy(entry["inventories"]))
        for uuid, claim in payload["allocations"].items():
            generation = (claim["consumer_generation"] or 0) + 1
            self.claims[uuid] = {**copy.deepcopy(claim), "consumer_generation": generation}


@dataclass(frozen=True)
class Made:
    """A run that was made: its journal, and the cloud after it; ``before`` is what an undo leads back to."""

    kind: str
    path: object
    cloud: Cloud
    before: object

    @property
    def id(self):
        """Of the run."""
        return self.path.stem


def read_with(cloud):
    """The reader that plans of resume and undo want."""
    return lambda subjects, facets: select.read_states(cloud, subjects, facets, concurrency=1)


def _plan(cloud, edit):
    return make_plan(edit, read_with(cloud)(cloud.providers, edit.facets))


def record(cloud, directory, plan, execute_with=execute.execute_plan, **options):
    """Carry a plan out with a journal; its path."""
    recorder = journal.Journals(directory).create(SERVER, plan, **options)
    report = execute_with(cloud, plan, recorder=recorder, concurrency=1)
    recorder.end_sitting(report)
    recorder.close()
    return recorder.path


def cut_off(path, content):
    """Leave of a journal what a process that died at this byte would have left."""
    path.write_bytes(content)
    path.with_suffix(".mark").unlink(missing_ok=True)


def without_sums(content):
    """A journal without its checksums."""
    return re.sub(rb',"sum":"[0-9a-f]{16}"}$', b"}", content, flags=re.MULTILINE)


def forge(path, change):
    """Change the lines of a journal, and have its checksums fit."""
    lines, last = [], ""
    for line in change(without_sums(path.read_bytes())).splitlines():
        body = line.removesuffix(b"}")
        last = hashlib.sha256(last.encode() + body).hexdigest()[:16]
        lines.append(b'%s,"sum":"%s"}\n' % (body, last.encode()))
    cut_off(path, b"".join(lines))


def make(kind, directory):
    """Make a run of a kind."""
    return {
        "batch": _make_batch,
        "atomic": _make_atomic,
        "reshape": _make_reshape,
        "undo": _make_undo,
        "migration": _make_migration,
    }[kind](directory)


def _make_batch(directory):
    """Somebody is faster at one provider, and another is refused at first and resumed."""
    cloud = Cloud("a", "b", "c", inventories=processors(1.0))
    strangers = iter([{**processors(2.0)}])

    def interfere(uuid):
        if uuid == "b":
            for inventories in strangers:
                cloud.touch(uuid, inventories=inventories)
        if uuid == "c":
            raise Forbidden(403, "not yours", method="PUT")

    cloud.before_write = interfere
    path = record(cloud, directory, _plan(cloud, RatioEdit({"VCPU": 4.0})))
    before = cloud.copy()
    for name, ratio in (("a", 1.0), ("b", 2.0), ("c", 1.0)):
        before.touch(name, inventories=processors(ratio))
    cloud.before_write = lambda _uuid: None
    resume(cloud, path.stem, directory)
    return Made("batch", path, cloud, before.contents)


def _make_atomic(directory):
    cloud = Cloud("a", "b", "c", inventories=processors(1.0))
    before = cloud.contents
    plan = _plan(cloud, RatioEdit({"VCPU": 4.0}))
    path = record(cloud, directory, plan, execute_atomically, settings={"atomic": True})
    return Made("atomic", path, cloud, before)


def _make_reshape(directory):
    """Eight VGPU of one provider go to another, with those that a consumer has of them."""
    cloud = Cloud("a", "b", inventories=processors(1.0))
    cloud.facets["a"]["inventories"]["VGPU"] = Inventory(8).to_json()
    held = {"a": {"resources": {"VGPU": 3, "VCPU": 1}}}
    owner = {"project_id": "project", "user_id": "user", "consumer_generation": 1}
    cloud.claims["c1"] = {"allocations": held, **owner}
    before = cloud.contents
    job = service.Job.for_reshape(cloud, Moves([Move("a", "b", "VGPU", 8)]))
    settings = {"kind": RESHAPE, "atomic": True}
    recorder = journal.Journals(directory).create(SERVER, job.plan, settings=settings)
    report = execute_reshape(cloud, job.reshape, job.plan, recorder)
    recorder.end_sitting(report)
    recorder.close()
    return Made("reshape", recorder.path, cloud, before)


def _make_undo(directory):
    """What is undone is a run that gave traits; to undo that gives them again."""
    cloud = Cloud("a", "b", "c", traits=["B"])
    first = record(cloud, directory, _plan(cloud, TraitEdit("add", frozenset({"A"}))))
    before = cloud.contents
    plan = plan_undo(journal.Journals(directory).read(first.stem), read_with(cloud))
    path = record(cloud, directory, plan, undoes=first.stem)
    return Made("undo", path, cloud, before)


def _make_migration(directory):
    """Consumers get their allocations, two of them in place of others."""
    cloud = Cloud()
    owner = {"project_id": "project", "user_id": "user"}
    changes = []
    for number in range(4):
        uuid = f"c{number}"
        old = {"p1": {"VCPU": 1, "DISK_GB": 9}} if number > 1 else {}
        generation = 1 if old else None
        if old:
            allocations = {name: {"resources": amounts} for name, amounts in old.items()}
            cloud.claims[uuid] = {"allocations": allocations, **owner, "consumer_generation": 1}
        new = {"p2": {"VCPU": 2, "MEMORY_MB": 64}}
        consumer = Consumer(uuid, generation, "project", "user", "INSTANCE")
        changes.append(Change(consumer, ProviderState(allocations=old), ProviderState(allocations=new)))
    before = cloud.copy()
    for change in changes[:2]:
        before.claims[change.uuid] = {"allocations": {}, "consumer_generation": 1}
    edit = Recorded("heal allocations", ("allocations",))
    plan = Plan(edit, tuple(changes))
    path = record(cloud, directory, plan)
    return Made("migration", path, cloud, before.contents)


def resume(cloud, run_id, directory):
    """Go on with a run, as commands do; its report."""
    with service.Runs(directory).resume(cloud, run_id, read_with(cloud)) as job:
        recorder = service.Runs(directory).start(cloud, job)
        return service.carry_out(cloud, job, recorder, service.Pace(concurrency=1))


def undo(cloud, run_id, directory, *, force=False):
    """Undo a run, as commands do, but without a journal of the undo; the exit status."""
    job = service.Runs(directory).undo(cloud, run_id, read_with(cloud), force=force)
    if job.reshape is not None:
        return execute_reshape(cloud, job.reshape, job.plan).exit_status
    return execute.execute_plan(cloud, job.plan, concurrency=1).exit_status
