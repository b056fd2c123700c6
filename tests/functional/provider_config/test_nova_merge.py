# SPDX-License-Identifier: Apache-2.0
"""Which providers entries mean and what they set, compared with nova's resource tracker."""

import pathlib
import random

from osc_placement.candidates.node import SHARING_TRAIT
from osc_placement.model import Inventory, Provider
from osc_placement.provider_config.compare import State, compare, resolve
from osc_placement.provider_config.document import COMPUTE_NODE, Entry, Level, format_file
from osc_placement.provider_config.files import read_locations, require_good
from osc_placement.provider_config.generate import generate
from osc_placement.provider_config.ownership import Held
from tests.functional.provider_config.test_nova_loader import ask_nova, choose_entry, write

SCRIPT = pathlib.Path(__file__).with_name("nova_merge.py")
CASES = 300


def make_providers(chance):
    """Roots with children; most roots are compute nodes."""
    found = []
    for number in range(chance.randint(1, 3)):
        root = f"6b2f5a3e-1111-4222-8333-00000000000{number}"
        node = ["COMPUTE_NODE"] if chance.random() < 0.8 else []
        found.append({"uuid": root, "name": f"host{number}", "parent": None, "traits": node})
        for child in range(chance.randrange(3)):
            uuid = f"{root[:-2]}{child + 1}{number}"
            found.append({"uuid": uuid, "name": f"host{number}-{child}", "parent": root, "traits": []})
    return found


def choose_entries(chance, providers):
    """Entries of providers that exist and of others; no key is there twice."""
    keys = {COMPUTE_NODE: "uuid", "no-such": "name", "Host0": "name"}
    for provider in providers:
        keys[provider["uuid"]] = "uuid"
        keys[provider["name"]] = "name"
    keys[providers[0]["uuid"].upper()] = "uuid"
    chosen = chance.sample(sorted(keys), min(len(keys), chance.randint(1, 4)))
    return [choose_entry(chance, key, keys[key]) for key in chosen]


def hold(provider, traits, inventories):
    """A provider as the comparison takes it."""
    found = {name: Inventory.from_json(fields) for name, fields in inventories.items()}
    return Held(provider.name, provider.uuid, "", not provider.parent_provider_uuid, frozenset(traits), found)


def test_what_nova_merges_does_not_drift(tmp_path):
    """After an update of nova nothing of the files is missing, and nothing else was added but OWNER_NOVA.

    Where nova's update fails, because two entries mean one provider, there is an error.
    """
    chance = random.Random(5)
    cases, locations = [], []
    for number in range(CASES):
        providers = make_providers(chance)
        text = format_file(choose_entries(chance, providers))
        directory = write(tmp_path / str(number), {"text": text})
        locations.append(read_locations([directory], str))
        require_good(locations[-1])
        cases.append({"directory": directory, "providers": providers})
    failed = 0
    for case, location, theirs in zip(cases, locations, ask_nova(cases, SCRIPT), strict=True):
        providers = [Provider(each["uuid"], each["name"], 0, each["parent"]) for each in case["providers"]]
        nodes = {each["uuid"] for each in case["providers"] if each["traits"]}
        found = resolve(location, providers, nodes)
        is_error = any(problem.level is Level.ERROR for problem in found.problems)
        assert is_error == ("failed" in theirs), theirs
        if is_error:
            failed += 1
            continue
        for provider, before in zip(providers, case["providers"], strict=True):
            traits, inventories = theirs["merged"][provider.uuid]
            entries: list[Entry] = found.entries.get(provider.uuid, [])
            drift = list(compare(hold(provider, traits, inventories), entries))
            assert drift == [], theirs
            assert set(traits) - {"OWNER_NOVA"} == {
                *before["traits"],
                *(t for e in entries for t in e.traits),
            }
            assert ("OWNER_NOVA" in traits) == bool(entries)
            undone = compare(hold(provider, before["traits"], {}), entries)
            assert {each.state for each in undone} <= {State.MISSING}
    assert 10 < failed < CASES / 2


def give_inventories(chance, providers):
    """A tree in which some roots share what they have, and most providers have custom inventories."""
    for each in providers:
        if each["parent"] is None and chance.random() < 0.3:
            each["traits"] = [SHARING_TRAIT]
        classes = chance.sample(("CUSTOM_CLASS_0", "CUSTOM_CLASS_1", "CUSTOM_CLASS_2"), chance.randrange(3))
        each["inventories"] = {name: Inventory(chance.randint(1, 9)).to_json() for name in classes}
        each["traits"] = [*each["traits"], "CUSTOM_TRAIT"]
    return providers


def left_by_driver(providers):
    """The providers when nova merges: its driver has replaced the inventories of roots that share nothing."""
    return [
        {**each, "inventories": {}} if not each["parent"] and SHARING_TRAIT not in each["traits"] else each
        for each in providers
    ]


def test_nova_merges_generated_files(tmp_path):
    """Also where children and roots that share have custom inventories; files with these make it fail."""
    chance = random.Random(6)
    cases, fail = [], []
    for number in range(CASES):
        providers = give_inventories(chance, make_providers(chance))
        names = {each["uuid"]: each["name"] for each in providers}
        held = [
            Held(
                each["name"],
                each["uuid"],
                names[each["parent"] or each["uuid"]],
                each["parent"] is None,
                frozenset(each["traits"]),
                {name: Inventory.from_json(fields) for name, fields in each["inventories"].items()},
            )
            for each in providers
        ]
        found = generate(held, chance.choice(("name", "uuid")))
        fail.append(bool(found.lasting))
        entries = [entry for host in found.hosts.values() for entry in host]
        everything = [Entry(each.name, each.traits & {"CUSTOM_TRAIT"}, each.inventories) for each in held]
        for what, chosen in (("good", entries), ("all", everything)):
            directory = write(tmp_path / f"{what}-{number}", {"text": format_file(chosen)})
            cases.append({"directory": directory, "providers": left_by_driver(providers)})
    done = ask_nova(cases, SCRIPT)
    assert [each for each in done[::2] if "failed" in each] == []
    assert ["failed" in each for each in done[1::2]] == fail
    assert CASES / 10 < sum(fail) < CASES
    for case, theirs in zip(cases[::2], done[::2], strict=True):
        for provider in case["providers"]:
            assert "OWNER_NOVA" in theirs["merged"][provider["uuid"]][0]
