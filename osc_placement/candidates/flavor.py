# SPDX-License-Identifier: Apache-2.0
"""The resources and traits that nova requests for an instance of a flavor and an image. Pure.

The groups of the request are those of the extra specs ``resources<GROUP>:`` and ``trait<GROUP>:``. The group
without a suffix also has the traits that follow from settings of flavor and image, such as the version of a
TPM. What ports, accelerators, PCI aliases and volumes of an instance add is not in it; an instance that boots
from a volume requests no root disk.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from osc_placement.candidates.image import UNKNOWN_IMAGE, Image
from osc_placement.candidates.query import Traits
from osc_placement.candidates.request import ISOLATE, UNNAMED, CandidateRequest, Group, NotCountable
from osc_placement.flavor import Flavor, NoClaim, is_true, read_amount, resources_by_group

_TRAIT_KEY: Final = re.compile(r"^trait([a-zA-Z0-9_-]{1,64})?:(.*)$")
#: those of which nova's API sums up the CPUs
_CPUS_KEY: Final = re.compile(r"resources(?:[1-9][0-9]*)?:(VCPU|PCPU)")
_POLICIES: Final = ("none", "isolate")
#: the trait of each model of memory encryption, and whether the model needs stateless firmware
_ENCRYPTION_MODELS: Final = {
    "amd-sev": ("HW_CPU_X86_AMD_SEV", False),
    "amd-sev-es": ("HW_CPU_X86_AMD_SEV_ES", False),
    "amd-sev-snp": ("HW_CPU_X86_AMD_SEV_SNP", True),
    "intel-tdx": ("HW_CPU_X86_INTEL_TDX", True),
}


def make_groups(
    flavor: Flavor, classes: Collection[str], image: Image = UNKNOWN_IMAGE, *, volume_root: bool = False
) -> CandidateRequest:
    """Return the request of nova's scheduler; raise NotCountable if it would be refused, or cannot be read.

    :param classes: those that the server knows: nova ignores others, and what is no amount, in extra specs
    """
    if contradiction := find_contradiction(flavor):
        raise NotCountable(f"would be refused by nova, as {contradiction}")
    try:
        amounts = resources_by_group(flavor, classes, volume_root=volume_root, image=image.properties)
        traits = _traits_by_group(flavor, image)
    except NoClaim as error:
        raise NotCountable(f"would be refused by nova, as {error}") from error
    if not amounts:
        raise NotCountable("asks for nothing")
    suffixes = sorted(amounts.keys() | traits.keys())
    if loose := [suffix for suffix in suffixes if suffix not in amounts]:
        raise NotCountable(f"has traits without resources (trait{loose[0]}:), which placement refuses")
    for own in traits.values():
        if both := sorted(frozenset[str]().union(*own.required) & own.unwanted):
            raise NotCountable(f"requires and forbids {', '.join(both)}, which placement refuses")
    policy = flavor.extra_specs.get("group_policy")
    if policy not in _POLICIES and sum(suffix != UNNAMED for suffix in suffixes) > 1:
        raise NotCountable("has several numbered request groups and no group_policy, which placement refuses")
    groups = [Group(suffix, amounts[suffix], traits.get(suffix, Traits())) for suffix in suffixes]
    return CandidateRequest(groups, isolated=policy == ISOLATE)


def find_contradiction(flavor: Flavor) -> str:
    """Return why nova's API refuses to boot a flavor for its CPUs, whatever the image; empty if it does not.

    These are the rules that nova's scheduler does not check again, so `resources_of` does not know them.
    """
    specs = flavor.extra_specs
    policy = specs.get("hw:cpu_policy")
    asked = {"VCPU": 0, "PCPU": 0}
    for key, value in specs.items():
        if match := _CPUS_KEY.match(key):
            asked[match[1]] += read_amount(value) or 0
    named = [f"resources:{name}" for name, amount in asked.items() if amount]
    if policy and named:
        return f"hw:cpu_policy and {' and '.join(named)} contradict each other"
    if len(named) > 1:
        return f"{' and '.join(named)} contradict each other"
    is_isolated = specs.get("hw:emulator_threads_policy") == "isolate"
    if asked["PCPU"] and asked["PCPU"] != (wanted := flavor.vcpus + is_isolated):
        return f"resources:PCPU has to be {wanted}"
    has_mask, is_realtime = bool(specs.get("hw:cpu_dedicated_mask")), is_true(specs.get("hw:cpu_realtime"))
    if policy == "mixed" and not (has_mask or is_realtime):
        return "hw:cpu_policy=mixed needs hw:cpu_dedicated_mask, or hw:cpu_realtime with its mask"
    if policy == "mixed" and has_mask and is_realtime:
        return "hw:cpu_dedicated_mask and hw:cpu_realtime contradict each other"
    if policy in ("dedicated", "shared") and has_mask:
        return f"hw:cpu_dedicated_mask and hw:cpu_policy={policy} contradict each other"
    if policy == "shared" and (is_isolated or is_realtime):
        key = "hw:emulator_threads_policy=isolate" if is_isolated else "hw:cpu_realtime"
        return f"{key} and hw:cpu_policy=shared contradict each other"
    return ""


def unique_setting(flavor: Flavor, image: Image, name: str, *, prefix: str = "hw") -> str | None:
    """Return a setting that a flavor and its image may have; raise NoClaim if they contradict each other."""
    key, image_key = f"{prefix}:{name}", f"{prefix}_{name}"
    of_flavor, of_image = flavor.extra_specs.get(key), image.properties.get(image_key)
    if of_flavor and of_image and of_flavor != of_image:
        raise NoClaim(f"the {image_key} of its image, {of_image}, contradicts its {key}, {of_flavor}")
    return of_flavor or of_image


def true_setting(flavor: Flavor, image: Image, name: str) -> bool:
    """Return whether a flavor or its image says yes; raise NoClaim if one says yes and the other no."""
    of_flavor, of_image = flavor.extra_specs.get(f"hw:{name}"), image.properties.get(f"hw_{name}")
    if of_flavor is not None and of_image is not None and is_true(of_flavor) != is_true(of_image):
        raise NoClaim(f"the hw_{name} of its image, {of_image}, contradicts its hw:{name}, {of_flavor}")
    return is_true(of_flavor) or is_true(of_image)


def chosen_setting(
    flavor: Flavor, image: Image, name: str, choices: Collection[str], *, prefix: str = "hw"
) -> str | None:
    """Return a setting as `unique_setting` does; raise NoClaim if it is none of the choices."""
    value = unique_setting(flavor, image, name, prefix=prefix)
    if value is not None and value not in choices:
        raise NoClaim(f"its {prefix}:{name} {value!r} is none of {', '.join(choices)}")
    return value


def tpm_version(flavor: Flavor, image: Image) -> str | None:
    """Return the version of the emulated TPM that an instance has; None without one."""
    return chosen_setting(flavor, image, "tpm_version", ("1.2", "2.0"))


def _traits_by_group(flavor: Flavor, image: Image) -> dict[str, Traits]:
    """Return the traits that the groups require and forbid, by suffix."""
    required: dict[str, set[str]] = {UNNAMED: set(_required_by_settings(flavor, image))}
    forbidden: dict[str, set[str]] = {}
    for key, value in flavor.extra_specs.items():
        if match := _TRAIT_KEY.match(key):
            chosen = {"required": required, "forbidden": forbidden}.get(value)
            if chosen is not None:
                chosen.setdefault(match[1] or UNNAMED, set()).add(match[2])
    required[UNNAMED] |= image.required
    policy = _thread_policy(flavor, image)
    if policy in ("isolate", "require"):
        chosen = forbidden if policy == "isolate" else required
        chosen.setdefault(UNNAMED, set()).add("HW_CPU_HYPERTHREADING")
    return {
        suffix: Traits(_each(required.get(suffix, ())), _each(forbidden.get(suffix, ())))
        for suffix in sorted(required.keys() | forbidden.keys())
        if required.get(suffix) or forbidden.get(suffix)
    }


def _each(names: Collection[str]) -> tuple[frozenset[str], ...]:
    return tuple(frozenset((name,)) for name in sorted(names))


def _thread_policy(flavor: Flavor, image: Image) -> str | None:
    of_flavor = flavor.extra_specs.get("hw:cpu_thread_policy")
    of_image = image.properties.get("hw_cpu_thread_policy")
    for policy in (of_flavor, of_image):
        if policy and policy not in ("prefer", "isolate", "require"):
            raise NoClaim(f"its CPU thread policy {policy!r} is none of prefer, isolate, require")
    if of_flavor in (None, "prefer"):
        return of_flavor or of_image
    if of_image and of_image != of_flavor:
        raise NoClaim(
            f"the CPU thread policy of its image, {of_image}, contradicts its flavor's, {of_flavor}"
        )
    return of_flavor


def _required_by_settings(flavor: Flavor, image: Image) -> list[str]:
    """Return the traits that follow from settings of flavor and image."""
    traits = []
    if true_setting(flavor, image, "mem_encryption"):
        traits.append(_encryption_trait(flavor, image))
    version = tpm_version(flavor, image)
    if version is not None:
        model = chosen_setting(flavor, image, "tpm_model", ("tpm-tis", "tpm-crb")) or "tpm-tis"
        if model == "tpm-crb" and version != "2.0":
            raise NoClaim("its TPM of model tpm-crb is not of version 2.0")
        traits.append("COMPUTE_SECURITY_TPM_CRB" if model == "tpm-crb" else "COMPUTE_SECURITY_TPM_TIS")
        traits.append("COMPUTE_SECURITY_TPM_2_0" if version == "2.0" else "COMPUTE_SECURITY_TPM_1_2")
    affinity = chosen_setting(
        flavor, image, "pci_numa_affinity_policy", ("required", "legacy", "preferred", "socket")
    )
    if affinity == "socket":
        traits.append("COMPUTE_SOCKET_PCI_NUMA_AFFINITY")
    if (
        chosen_setting(flavor, image, "secure_boot", ("required", "disabled", "optional"), prefix="os")
        == "required"
    ):
        traits.append("COMPUTE_SECURITY_UEFI_SECURE_BOOT")
    addresses = chosen_setting(flavor, image, "maxphysaddr_mode", ("passthrough", "emulate"))
    if addresses is not None:
        kind = "PASSTHROUGH" if addresses == "passthrough" else "EMULATED"
        traits.append(f"COMPUTE_ADDRESS_SPACE_{kind}")
    if _is_stateless(image):
        traits.append("COMPUTE_SECURITY_STATELESS_FIRMWARE")
    return traits


def _is_stateless(image: Image) -> bool:
    """Return whether an image has stateless firmware; nova ignores the setting without UEFI."""
    own = image.properties
    return own.get("hw_firmware_type") == "uefi" and is_true(own.get("hw_firmware_stateless"))


def _encryption_trait(flavor: Flavor, image: Image) -> str:
    """Return the trait of the model of memory encryption; raise NoClaim if its image does not suit."""
    own = image.properties
    model = chosen_setting(flavor, image, "mem_encryption_model", _ENCRYPTION_MODELS) or "amd-sev"
    trait, needs_stateless = _ENCRYPTION_MODELS[model]
    if not image.is_known:
        return trait
    if own.get("hw_firmware_type") != "uefi":
        raise NoClaim("its memory encryption needs an image with hw_firmware_type=uefi")
    if "q35" not in own.get("hw_machine_type", "q35"):
        raise NoClaim("its memory encryption needs an image with hw_machine_type=q35")
    if needs_stateless and not _is_stateless(image):
        raise NoClaim(f"its memory encryption {model} needs an image with hw_firmware_stateless=true")
    if model == "intel-tdx" and own.get("hw_video_model") != "none":
        raise NoClaim("its memory encryption intel-tdx needs an image with hw_video_model=none")
    return trait
