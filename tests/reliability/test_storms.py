# SPDX-License-Identifier: Apache-2.0
"""Storms of requests on the same rows, through several workers: nothing is sold twice or left behind."""

import random
import time
import uuid
from collections import Counter
from functools import partial

import pytest

from tests.reliability import scale, truth
from tests.reliability.clients import Claim, make_provider, post, run_together

CLIENTS = 24
GRANTED, REFUSED = 204, 409


def statuses(answers):
    """How often each status was answered."""
    return Counter(answer.status for answer in answers)


def check_claims(service, client, claims, answers):
    """Every claim that was granted is there as it was asked for; of those refused there is no trace."""
    held = truth.held(service.database)
    projects = set(truth.known(service.database, "projects", "external_id"))
    users = set(truth.known(service.database, "users", "external_id"))
    for claim, answer in zip(claims, answers, strict=True):
        assert answer.status in (GRANTED, REFUSED), answer
        if answer.status == GRANTED:
            wanted = {(provider, "VCPU"): amount for provider, amount in claim.amounts.items()}
            assert held[claim.consumer] == wanted
        else:
            assert claim.consumer not in held
            assert claim.project not in projects | users
    for claim, answer in list(zip(claims, answers, strict=True))[:4]:
        shown = client.insist("GET", f"/allocations/{claim.consumer}")["allocations"]
        assert set(shown) == (set(claim.amounts) if answer.status == GRANTED else set())


def test_provider_is_sold_out_and_never_oversold(service, client, check):
    """Of 24 who claim 1 to 3 of 12 as many are served as there is room for; each refusal had its reason."""
    for _ in scale.rounds(5):
        subject = make_provider(client, 12)
        claims = [Claim.of({subject: random.randint(1, 3)}) for _ in range(CLIENTS)]
        answers = run_together(service.url, [claim.put for claim in claims])
        check_claims(service, client, claims, answers)
        used = truth.used(service.database)[subject]
        refused = [
            claim.amounts[subject]
            for claim, answer in zip(claims, answers, strict=True)
            if answer.status == REFUSED
        ]
        assert used <= 12
        assert used + min(refused) > 12
    check()


def test_contended_provider_grants_its_whole_capacity(service, client, check, capsys):
    """Clients claim one unit after the other until they are refused: none is left, or sold twice."""
    total = 2400 if scale.is_full() else 240
    subject = make_provider(client, total)

    def claim_all(client):
        granted = 0
        while True:
            answer = Claim.of({subject: 1}, project="hot").put(client)
            if answer.status != GRANTED:
                return granted, answer.status
            granted += 1

    began = time.monotonic()
    results = run_together(service.url, [claim_all] * CLIENTS)
    rate = total / (time.monotonic() - began)
    assert {status for _, status in results} == {REFUSED}
    assert sum(granted for granted, _ in results) == total == truth.used(service.database)[subject]
    check()
    if scale.is_full():
        with capsys.disabled():
            print(f"\n{service.database.partition(':')[0]}: {rate:.0f} claims/s on one provider")


@pytest.mark.parametrize("way", ["PUT", "POST"])
def test_overlapping_claims_on_several_providers_all_end(service, client, check, way):
    """Claims name three of six providers each, in any order; they end, and nothing is oversold."""
    for _ in scale.rounds(3):
        subjects = [make_provider(client, 8) for _ in range(6)]
        claims = [Claim.of(dict.fromkeys(random.sample(subjects, 3), 1)) for _ in range(CLIENTS)]
        size = 1 if way == "PUT" else 2
        groups = [claims[number : number + size] for number in range(0, CLIENTS, size)]
        send = (lambda client, group: group[0].put(client)) if way == "PUT" else post
        sent = run_together(service.url, [partial(send, group=group) for group in groups])
        check_claims(service, client, claims, [answer for answer in sent for _ in range(size)])
        used = truth.used(service.database)
        for group, answer in zip(groups, sent, strict=True):
            wanted = sum((Counter(claim.amounts) for claim in group), Counter())
            assert answer.status == GRANTED or any(used[of] + wanted[of] > 8 for of in wanted)
    check()


def test_one_of_several_claims_on_one_generation_is_granted(service, client, check):
    """The consumer's generation is what they are based on; all others are told that it changed."""
    for _ in scale.rounds(3):
        subject, consumer = make_provider(client, 100), str(uuid.uuid4())
        for generation in (None, 1, 2):
            claims = [
                Claim.of({subject: number}, consumer=consumer, project="one", generation=generation)
                for number in range(1, 13)
            ]
            answers = run_together(service.url, [claim.put for claim in claims])
            assert statuses(answers) == {GRANTED: 1, REFUSED: 11}
            codes = {answer.body["errors"][0]["code"] for answer in answers if answer.status == REFUSED}
            assert codes == {"placement.concurrent_update"}
            winner = claims[[answer.status for answer in answers].index(GRANTED)]
            assert truth.held(service.database)[consumer] == {(subject, "VCPU"): winner.amounts[subject]}
    check()


def test_consumer_deleted_during_a_claim_has_all_or_nothing(service, client, check):
    """Whoever comes last is right."""
    for _ in scale.rounds(3):
        subject, consumer = make_provider(client, 100), str(uuid.uuid4())

        def claim(client, subject=subject, consumer=consumer):
            body = client.insist("GET", f"/allocations/{consumer}")
            generation = body.get("consumer_generation")
            claimed = Claim.of({subject: 2}, consumer=consumer, project="one", generation=generation)
            return claimed.put(client)

        def delete(client, consumer=consumer):
            return client.send("DELETE", f"/allocations/{consumer}")

        answers = run_together(service.url, [claim, delete] * (CLIENTS // 2))
        assert set(statuses(answers)) <= {GRANTED, REFUSED, 404}
        held = truth.held(service.database).get(consumer, {})
        assert held in ({}, {(subject, "VCPU"): 2})
        shown = client.insist("GET", f"/allocations/{consumer}")["allocations"]
        assert bool(shown) == bool(held)
    check()


def test_reduced_inventory_limits_later_claims(service, client, check):
    """Claims are judged by what there is when they are granted: the generations tell which came before."""
    for _ in scale.rounds(3):
        subject = make_provider(client, 12)
        shrink = partial(set_total, provider=subject, total=4)
        claims = [Claim.of({subject: 1}) for _ in range(CLIENTS)]
        shrinking, *answers = run_together(service.url, [shrink, *(claim.put for claim in claims)])
        assert shrinking.status == 200
        check_claims(service, client, claims, answers)
        # the inventory moved the generation once at first and once now, and each claim before it once
        before = shrinking.body["resource_provider_generation"] - 2
        assert truth.used(service.database)[subject] == max(before, 4) == statuses(answers)[GRANTED]
        # who holds something of an oversold provider may give some of it back, but not take more
        held = claims[[answer.status for answer in answers].index(GRANTED)]
        more = Claim.of({subject: 2}, consumer=held.consumer, project=held.project, generation=1)
        assert more.put(client).status == REFUSED
        check(oversold=[subject])
        # the tests after this one find a database where nothing is oversold
        set_total(client, provider=subject, total=12)


def set_total(client, provider, total):
    """Change how much VCPU a provider has, as often as others come between."""
    path = f"/resource_providers/{provider}/inventories"
    while True:
        body = client.insist("GET", path)
        body["inventories"]["VCPU"]["total"] = total
        answer = client.send("PUT", path, body)
        if answer.status != REFUSED:
            return answer


def test_a_reshape_during_claims_is_atomic(service, client, check):
    """Inventory and allocations move to a child while others claim both: each is on one of the two."""
    for _ in scale.rounds(3):
        parent = make_provider(client, 24)
        child = make_provider(client, parent=parent)
        early = [Claim.of({parent: 1}) for _ in range(6)]
        assert {claim.put(client).status for claim in early} == {GRANTED}
        moving = [lambda client, parent=parent, child=child: reshape(client, parent, child)] * 2
        claims = [Claim.of({of: 1}) for of in (parent, child) for _ in range(8)]
        answers = run_together(service.url, [*moving, *(claim.put for claim in claims)])
        assert statuses(answers[:2]) == {GRANTED: 2}
        assert set(statuses(answers[2:])) <= {GRANTED, REFUSED}
        held = truth.held(service.database)
        assert {next(iter(held[claim.consumer])) for claim in early} == {(child, "VCPU")}
        used = truth.used(service.database)
        assert parent not in used
        assert used[child] <= 24
        check()


def reshape(client, parent, child):
    """Move all VCPU of the parent, and what is held of it, to the child; as often as others come between."""
    while True:
        inventories = {of: load_inventories(client, of) for of in (parent, child)}
        allocations = client.insist("GET", f"/resource_providers/{parent}/allocations")["allocations"]
        if "VCPU" not in inventories[parent]["inventories"]:
            answer = client.send("POST", "/reshaper", {"inventories": inventories, "allocations": {}})
            if answer.status != REFUSED:
                return answer
            continue
        inventories[child]["inventories"]["VCPU"] = inventories[parent]["inventories"].pop("VCPU")
        moved = {consumer: move(client, consumer, parent, child) for consumer in allocations}
        if None in moved.values():
            continue
        answer = client.send("POST", "/reshaper", {"inventories": inventories, "allocations": moved})
        if answer.status != REFUSED:
            return answer


def test_overlapping_bulk_changes_and_claims_all_succeed(service, client, check):
    """Overlapping ratios for many hosts in one request each: every host has one, no claim fails for it."""
    for _ in scale.rounds(3):
        hosts = [make_provider(client, 8) for _ in range(24)]
        subsets = [hosts[:16], hosts[8:][::-1], hosts[::2], hosts[4:20]]
        ratios = [2.0 + number for number in range(len(subsets))]
        changing = [
            lambda client, of=of, ratio=ratio: set_ratios(client, of, ratio)
            for of, ratio in zip(subsets, ratios, strict=True)
        ]
        claims = [Claim.of({host: 1, hosts[-1 - number]: 1}) for number, host in enumerate(hosts[:10])]
        answers = run_together(service.url, [*changing, *(claim.put for claim in claims)])
        assert statuses(answers[: len(changing)]) == {200: len(changing)}
        assert statuses(answers[len(changing) :]) == {GRANTED: len(claims)}
        told = {item["uuid"]: item for item in client.insist("GET", "/-/providers")["providers"]}
        for host in hosts:
            shown = load_inventories(client, host)
            possible = {ratio for ratio, of in zip(ratios, subsets, strict=True) if host in of}
            assert shown["inventories"]["VCPU"]["allocation_ratio"] in possible
            assert told[host]["inventories"] == shown["inventories"]
            assert told[host]["generation"] == shown["resource_provider_generation"]
        check()


def set_ratios(client, hosts, ratio):
    """Give hosts a ratio by one request, and those that others came between by another, until all have it."""
    while True:
        changes = [{"uuid": host, **load_inventories(client, host)} for host in hosts]
        for change in changes:
            change["inventories"]["VCPU"]["allocation_ratio"] = ratio
        answer = client.send("POST", "/-/providers", {"changes": changes})
        if answer.status != 200:
            return answer
        refused = [result for result in answer.body["results"] if "errors" in result]
        assert {result["errors"][0]["status"] for result in refused} <= {REFUSED}
        hosts = [result["uuid"] for result in refused]
        if not hosts:
            return answer


def test_atomic_changes_beside_claims_leave_one_value_and_never_oversell(service, client, check):
    """Three double the room of all hosts, each with a trait of its own: all hosts end with the same trait."""
    for _ in scale.rounds(3):
        hosts = [make_provider(client, 2) for _ in range(6)]
        traits = ("HW_CPU_X86_AVX", "HW_CPU_X86_AVX2", "HW_CPU_X86_SSE42")
        changing = [
            partial(change_atomically, hosts=hosts[::step], traits=[trait], allocation_ratio=2.0)
            for trait, step in zip(traits, (1, -1, 1), strict=True)
        ]
        claims = [
            Claim.of({host: 1, other: 1})
            for host, other in zip(hosts, hosts[3:] + hosts[:3], strict=True)
            for _ in range(3)
        ]
        answers = run_together(service.url, [*changing, *(claim.put for claim in claims)])
        assert statuses(answers[: len(changing)]) == {200: len(changing)}
        check_claims(service, client, claims, answers[len(changing) :])
        records = [
            item for item in client.insist("GET", "/-/providers")["providers"] if item["uuid"] in hosts
        ]
        assert {record["inventories"]["VCPU"]["allocation_ratio"] for record in records} == {2.0}
        assert len({tuple(record["traits"]) for record in records}) == 1
        check()


def test_atomically_reduced_inventories_limit_later_claims(service, client, check):
    """All hosts shrink at one moment: the generations tell which claims came before."""
    for _ in scale.rounds(3):
        hosts = [make_provider(client, 12) for _ in range(4)]
        claims = [Claim.of({host: 1}) for _ in range(CLIENTS // 3) for host in hosts]
        shrinking, *answers = run_together(
            service.url, [partial(change_atomically, hosts=hosts, total=4), *(claim.put for claim in claims)]
        )
        assert shrinking.status == 200
        check_claims(service, client, claims, answers)
        used = truth.used(service.database)
        for result in shrinking.body["results"]:
            # the inventory moved the generation once at first and once now, and each claim before it once
            before = result["resource_provider_generation"] - 2
            assert used[result["uuid"]] == max(before, 4)
        check(oversold=hosts)
        assert change_atomically(client, hosts, total=12).status == 200


def change_atomically(client, hosts, traits=None, **fields):
    """Change the VCPU and traits of all hosts in one request, as often as others come between."""
    while True:
        changes = [{"uuid": host, **load_inventories(client, host)} for host in hosts]
        for change in changes:
            change["inventories"]["VCPU"] |= fields
            if traits is not None:
                change["traits"] = traits
        answer = client.send("POST", "/-/providers", {"atomic": True, "changes": changes})
        if answer.status != REFUSED:
            return answer
        assert {error["code"] for error in answer.body["errors"]} == {"placement.concurrent_update"}


def load_inventories(client, provider):
    """A provider's inventories, as a reshape takes them."""
    body = client.insist("GET", f"/resource_providers/{provider}/inventories")
    return {
        "inventories": body["inventories"],
        "resource_provider_generation": body["resource_provider_generation"],
    }


def move(client, consumer, parent, child):
    """A consumer's allocations with the child in place of the parent; None if it is not on the parent."""
    body = client.insist("GET", f"/allocations/{consumer}")
    if parent not in body["allocations"]:
        return None
    body["allocations"] = {child: {"resources": body["allocations"][parent]["resources"]}}
    return body


def test_claims_on_a_moving_tree_are_consistent(service, client, check):
    """A child goes from root to root while others claim of the child and of both roots."""
    for _ in scale.rounds(3):
        roots = [make_provider(client, 16) for _ in range(2)]
        child = make_provider(client, 16, parent=roots[0])
        leaf = make_provider(client, 16, parent=child)

        def go_round(client, child=child, roots=roots):
            return [
                client.send(
                    "PUT", f"/resource_providers/{child}", {"name": child, "parent_provider_uuid": to}
                )
                for to in (roots[1], None, roots[0], roots[1])
            ]

        claims = [Claim.of(dict.fromkeys(random.sample([*roots, child, leaf], 3), 1)) for _ in range(CLIENTS)]
        moved, *answers = run_together(service.url, [go_round, *(claim.put for claim in claims)])
        assert statuses(moved) == {200: 4}
        check_claims(service, client, claims, answers)
        full = {of for of, amount in truth.used(service.database).items() if amount == 16}
        assert all(
            answer.status == GRANTED or full & set(claim.amounts)
            for claim, answer in zip(claims, answers, strict=True)
        )
        shown = client.insist("GET", f"/resource_providers/{leaf}")
        assert shown["root_provider_uuid"] == roots[1]
    check()


def test_projects_users_and_types_used_first_by_many_exist_once(service, client, check):
    """All are granted, whoever comes first."""
    for _ in scale.rounds(3):
        subject, project = make_provider(client, CLIENTS), str(uuid.uuid4())
        claims = [Claim.of({subject: 1}, project=project) for _ in range(CLIENTS)]
        type_ = f"TYPE_{uuid.uuid4().hex.upper()}"
        bodies = [(claim.consumer, {**claim.body, "consumer_type": type_}) for claim in claims]
        answers = run_together(
            service.url,
            [
                lambda client, uuid_=uuid_, body=body: client.send("PUT", f"/allocations/{uuid_}", body)
                for uuid_, body in bodies
            ],
        )
        assert statuses(answers) == {GRANTED: CLIENTS}
        for table, column, name in (
            ("projects", "external_id", project),
            ("users", "external_id", project),
            ("consumer_types", "name", type_),
        ):
            assert truth.known(service.database, table, column).count(name) == 1
    check()


def test_aggregates_used_first_by_many_exist_once(service, client, check):
    """Providers join new aggregates, which they name in different orders."""
    for _ in scale.rounds(3):
        aggregates = [str(uuid.uuid4()) for _ in range(3)]
        subjects = [make_provider(client) for _ in range(CLIENTS)]

        def join(client, subject, order):
            body = {"aggregates": order, "resource_provider_generation": 0}
            return client.send("PUT", f"/resource_providers/{subject}/aggregates", body)

        answers = run_together(
            service.url,
            [
                lambda client, subject=subject: join(client, subject, random.sample(aggregates, 3))  # noqa: B023
                for subject in subjects
            ],
        )
        assert statuses(answers) == {200: CLIENTS}
        known = truth.known(service.database, "placement_aggregates", "uuid")
        assert [known.count(aggregate) for aggregate in aggregates] == [1, 1, 1]
    check()


@pytest.mark.parametrize(("kind", "table"), [("resource_classes", "resource_classes"), ("traits", "traits")])
def test_name_created_by_many_is_created_once(service, client, check, kind, table):
    """The same one, and at the same moment as many different ones."""
    for _ in scale.rounds(3):
        name = f"CUSTOM_{uuid.uuid4().hex.upper()}"
        every = [name] * 12 + [f"CUSTOM_{uuid.uuid4().hex.upper()}" for _ in range(12)]
        answers = run_together(
            service.url,
            [lambda client, path=f"/{kind}/{item}": client.send("PUT", path) for item in every],
        )
        assert statuses(answers[:12]) == {201: 1, 204: 11}
        assert statuses(answers[12:]) == {201: 12}
        known = truth.known(service.database, table, "name")
        assert [known.count(item) for item in every] == [1] * 24
    check()
