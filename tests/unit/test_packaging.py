# SPDX-License-Identifier: Apache-2.0
"""What setup.cfg declares is what the package imports, ships and offers."""

import ast
import configparser
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import EntryPoint, packages_distributions

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = ROOT / "osc_placement"
CONFIG = configparser.ConfigParser()
CONFIG.read(ROOT / "setup.cfg")

#: what the package needs and does not import
NOT_IMPORTED = {
    "pymysql": "SQLAlchemy loads it for a mysql+pymysql:// database",
    "psycopg": "SQLAlchemy loads it for a postgresql+psycopg:// database",
    "psycopg2-binary": "SQLAlchemy loads it for a postgresql:// database",
    "python-memcached": "keystonemiddleware loads it for memcached_servers",
    "python-openstackclient": "the openstack command, whose plugin this is",
}
#: what the package imports for those who have it, and never by itself: see osc_placement/server/testing.py
OPTIONAL = {"fixtures", "pytest"}
#: what another environment's Python runs
RUN_ELSEWHERE = {
    ROOT / "tests/functional/migrate" / name: "by nova's"
    for name in (
        "nova_api.py",
        "nova_ironic.py",
        "nova_notify.py",
        "nova_request_filters.py",
        "nova_extra_specs.py",
        "nova_scheduler.py",
    )
} | {
    ROOT / "benchmarks/neutron_api.py": "by neutron's",
    ROOT / "tests/functional/migrate/glance_api.py": "by glance's",
    ROOT / "tests/functional/migrate/neutron_api.py": "by neutron's",
    ROOT / "tests/functional/provider_config/nova_loader.py": "by nova's",
    ROOT / "tests/functional/provider_config/nova_merge.py": "by nova's",
    ROOT / "tests/reliability/cloud/hypervisor.py": "by nova's",
}
#: extras that the package itself does not use
OUTSIDE_THE_PACKAGE = {"test", "fuzz", "reference", "docs", "bench"}


def normalize(name):
    """Spell the name of a distribution as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def names_of(requirements):
    """Return the distributions of a list of requirements."""
    return {normalize(re.match(r"[\w.-]+", line)[0]) for line in requirements.split("\n") if line.strip()}


CLIENT = names_of(CONFIG["options"]["install_requires"])
EXTRAS = {extra: names_of(lines) for extra, lines in CONFIG["options.extras_require"].items()}
SHIPPED_EXTRAS = {extra: names for extra, names in EXTRAS.items() if extra not in OUTSIDE_THE_PACKAGE}


def imported_modules(path):
    """Return the modules outside the project that a file imports, wherever it does."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules.add(node.module.split(".")[0])
    return modules - sys.stdlib_module_names - {"osc_placement", "tests", "benchmarks"}


def imported_distributions(paths):
    """Return the distributions that files import, each with one of the files that do."""
    owners = packages_distributions()
    found = {}
    for path in paths:
        for module in imported_modules(path):
            assert module in owners, f"{path.relative_to(ROOT)} imports {module}, which is not installed"
            found.update({normalize(owner): path.relative_to(ROOT) for owner in owners[module]})
    return found


def files_of(part):
    """Return the files of the client's side, or of a part that has an extra of its own."""
    parts = {"server", "migrate"}
    files = sorted(PACKAGE.rglob("*.py"))
    if part in parts:
        return [path for path in files if path.relative_to(PACKAGE).parts[0] == part]
    return [path for path in files if path.relative_to(PACKAGE).parts[0] not in parts]


@pytest.mark.parametrize("part", ["client", "server", "migrate"])
def test_every_import_is_declared(part):
    """What a part of the package imports is in install_requires or in the extras of that part."""
    extras = {"migrate": ("migrate", "notifications")}.get(part, (part,))
    declared = CLIENT.union(*(EXTRAS.get(extra, set()) for extra in extras))
    undeclared = {
        name: str(path)
        for name, path in imported_distributions(files_of(part)).items()
        if name not in declared | OPTIONAL
    }
    assert undeclared == {}


@pytest.mark.parametrize(
    ("directory", "extras"), [("tests", {"test", "fuzz", "reference"}), ("benchmarks", {"bench"})]
)
def test_every_import_of_the_tools_is_declared(directory, extras):
    """What the tests and the benchmarks import is in their extras, or in one of the package."""
    if "reference" in extras and not importlib.util.find_spec("placement"):
        pytest.skip("openstack-placement is not installed (extra 'reference')")
    declared = CLIENT.union(*(EXTRAS[extra] for extra in extras), *SHIPPED_EXTRAS.values())
    files = [path for path in (ROOT / directory).rglob("*.py") if path not in RUN_ELSEWHERE]
    assert set(imported_distributions(files)) - declared == set()


def test_every_declared_dependency_is_used():
    """A dependency that nothing imports has its reason in NOT_IMPORTED, and only such a one has."""
    imported = set(imported_distributions(PACKAGE.rglob("*.py")))
    declared = CLIENT.union(*SHIPPED_EXTRAS.values())
    assert declared - imported == set(NOT_IMPORTED)


def test_every_dependency_has_a_lower_bound():
    """Every dependency of the package and its extras says from which version on it works."""
    sections = (CONFIG["options"]["install_requires"], *CONFIG["options.extras_require"].values())
    lines = [line.strip() for section in sections for line in section.split("\n") if line.strip()]
    assert [line for line in lines if not re.search(r">=|==|^osc-placement\[", line)] == []


def test_every_dependency_is_explained():
    """The contributor's page on dependencies has an entry for each of them, and for nothing else."""
    page = (ROOT / "doc/source/contributor/dependencies.rst").read_text()
    explained = {normalize(name) for name in re.findall(r"^``([\w.-]+)``$", page, re.MULTILINE)}
    assert explained == CLIENT.union(*EXTRAS.values()) - {"osc-placement"}


def test_every_dependency_is_pinned():
    """What the tools install is in constraints.txt, to the last extra."""
    pinned = names_of(re.sub(r"(?m)^#.*$", "", (ROOT / "constraints.txt").read_text()))
    assert CLIENT.union(*EXTRAS.values()) - {"osc-placement"} - pinned == set()


def test_lowest_pins_are_the_declared_bounds():
    """What `tools/test --lowest` installs of a dependency is the version that setup.cfg gives."""
    lines = [CONFIG["options"]["install_requires"]]
    lines += [CONFIG["options.extras_require"][extra] for extra in SHIPPED_EXTRAS]
    bounds = dict(re.findall(r"(?m)^([\w.-]+)>=([\w.]+)", "\n".join(lines)))
    pins = dict(re.findall(r"(?m)^([\w.-]+)==([\w.]+)", (ROOT / "constraints-lowest.txt").read_text()))
    pins = {normalize(name): version for name, version in pins.items()}
    assert {name: pins[normalize(name)] for name in bounds} == bounds


ENTRY_POINTS = [
    EntryPoint(*(part.strip() for part in line.split("=")), group)
    for group, lines in CONFIG["options.entry_points"].items()
    for line in lines.split("\n")
    if line.strip()
]


@pytest.mark.parametrize("entry_point", ENTRY_POINTS, ids=lambda entry_point: entry_point.name)
def test_entry_point_resolves(entry_point):
    """Every entry point leads to an object."""
    assert entry_point.load()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build a wheel from a copy of the tree that has no git metadata; the names in it."""
    copy = tmp_path_factory.mktemp("tree") / "osc-placement"
    copy.mkdir()
    for name in ("setup.cfg", "pyproject.toml", "README.rst", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for name in ("osc_placement", "tests", "benchmarks", "doc"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    build = "import setuptools.build_meta as backend; backend.build_wheel('dist')"
    environment = {**os.environ, "PYTHONWARNINGS": "default"}
    done = subprocess.run(
        [sys.executable, "-c", build], cwd=copy, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (built,) = (copy / "dist").iterdir()
    with zipfile.ZipFile(built) as archive:
        return set(archive.namelist())


def test_wheel_has_every_module_and_data_file(wheel):
    """All that lies in the package is in the wheel: modules, py.typed, the migrations' templates."""
    there = {
        str(path.relative_to(ROOT)) for path in PACKAGE.rglob("*") if path.is_file() and path.suffix != ".pyc"
    }
    assert there - wheel == set()


def test_wheel_has_nothing_else(wheel):
    """Neither tests nor benchmarks nor documentation are installed."""
    assert {name.split("/")[0] for name in wheel if ".dist-info/" not in name} == {"osc_placement"}


def test_compat_requires_the_server_of_its_own_version():
    """osc-placement-compat calls modules of the server, so both are exchanged together."""
    compat = configparser.ConfigParser()
    compat.read(ROOT / "compat" / "setup.cfg")
    version = CONFIG["metadata"]["version"]
    assert compat["metadata"]["version"] == version
    required = [compat["options"]["install_requires"], *compat["options.extras_require"].values()]
    assert [line.strip() for line in required] == [
        f"osc-placement[{extra}]=={version}" for extra in ("migrate,server", "mysql", "postgresql", "psycopg")
    ]
