# SPDX-License-Identifier: Apache-2.0
"""Imports go one way: the arrows of the layout, checked by reading every module.

An arrow that is needed and not here is a decision: make it here, with the layout in mind.
"""

import ast
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = "osc_placement"

#: what client and server both have to spell alike
SHARED = ("codes", "microversion", "model")
BASE = (*SHARED, "errors", "flavor", "syntax")
LEAVES = (*BASE, "terminal")

#: what a part of the package may import of the package, besides itself; of two that match, the longer counts
ARROWS = {
    "": (),
    "codes": (),
    "microversion": (),
    "model": (),
    # how the errors of command lines fit a terminal
    "package": ("terminal.screen",),
    "errors": ("codes",),
    "flavor": ("model",),
    "syntax": ("errors", "model"),
    "whole_file": ("errors",),
    "terminal": ("api.concurrency", "errors"),
    "api": BASE,
    "api.transport": BASE,
    "api.operations": ("api.transport", *BASE),
    # threads and nothing else
    "api.concurrency": (),
    "api.consumer": BASE,
    "api.retry": BASE,
    # the public name of the client
    "client": ("api.client",),
    "batch": ("api", "whole_file", *LEAVES),
    "state": ("api", "batch", "report.summary", *LEAVES),
    "provider_config": ("api", "batch", "candidates.node", "state", *LEAVES),
    "report": ("api", "candidates", *LEAVES),
    # plans and runs as text, for both command lines
    **dict.fromkeys(
        ("report.changes", "report.runs", "report.summary"),
        ("api", "batch", "report.changes", "report.runs", "report.summary", *LEAVES),
    ),
    "migrate": ("api", "batch", "package", "report.changes", "report.runs", "report.summary", *LEAVES),
    # the command line, on the bases of the commands of the plugin
    **dict.fromkeys(
        ("migrate.commands", "migrate.main", "migrate.runs", "migrate.tool"),
        (
            "api",
            "batch",
            # the names of filters are the choices of an option
            "candidates.nova_filters",
            "commands.base",
            "commands.batch_execution",
            "commands.batch_run",
            "commands.watching",
            "migrate",
            "package",
            "report.changes",
            "report.runs",
            "report.summary",
            *LEAVES,
        ),
    ),
    "migrate.problem": (),
    "migrate.nova": ("api.concurrency", "migrate.problem", "package", *LEAVES),
    # what the scheduler is configured to ask for
    "migrate.nova.scheduler_options": ("candidates.nova_filters", *LEAVES),
    "migrate.nova.settings": ("api.client", "candidates.nova_filters", "migrate.nova", *LEAVES),
    # why a flavor fits nowhere, or an instance is not where it may be
    **dict.fromkeys(
        ("migrate.migrations.constraints", "migrate.migrations.flavors"),
        (
            "migrate.migrations",
            "api",
            "batch",
            "candidates",
            "migrate.nova",
            "migrate.problem",
            "report.explain",
            *LEAVES,
        ),
    ),
    "migrate.migrations": ("api", "batch", "candidates", "migrate.nova", "migrate.problem", *LEAVES),
    "commands": (
        "api",
        "batch",
        "candidates",
        "migrate.nova.scheduler_options",
        "package",
        "provider_config",
        "report",
        "state",
        "whole_file",
        *LEAVES,
    ),
    "plugin": ("api.client", "microversion", "terminal.values"),
    # every command line
    "completion": (
        "batch",
        "commands",
        "migrate",
        "model",
        "package",
        "plugin",
        "server.main",
        "whole_file",
    ),
    "candidates": SHARED,
    "candidates.flavor": ("candidates", "flavor", *SHARED),
    "candidates.image": ("candidates", "flavor", *SHARED),
    "candidates.nova_filters": ("candidates", "flavor", *SHARED),
    "server": ("server", "candidates", "package", "whole_file", *SHARED),
    # how errors fit a terminal
    "server.main": ("server", "package", "terminal.screen"),
    "server.api.schemas": ("microversion", "model"),
    "server.policies": (),
    "server.errors": ("codes",),
    "server.observer": (),
    "server.db": ("candidates", "server.errors", "server.observer", *SHARED),
    "server.snapshot": ("candidates", "server.db", "server.errors", "server.observer", *SHARED),
    # serving, which nothing but the command line calls, and what the application tells monitoring
    "server.process.serve": ("server", "package", "terminal.screen"),
    "server.process": (
        "server.conf",
        "server.db",
        "server.deploy",
        "server.errors",
        "server.policy",
        "package",
        "whole_file",
    ),
    # how its lines fit a terminal, and whether there is one
    "server.process.demo": ("server.process.clouds_yaml", "server.process.opening", "terminal.screen"),
    "server.process.cloud_metrics": ("candidates", "server.errors"),
    "server.process.flavors": ("candidates", "flavor"),
    "server.process.health": (
        "server.db",
        "server.errors",
        "server.process.limits",
        "server.snapshot.current",
    ),
    "server.process.metrics": ("server.observer",),
    "server.api.matching": SHARED,
    "server.api.http": (
        "server.api.matching",
        "server.api.schemas",
        "server.process.cloud_metrics",
        "server.snapshot",
        "candidates.node",
        "server.db.claim_queue",
        "server.db.engine",
        "server.errors",
        "server.process.health",
        "server.process.metrics",
        "server.policy",
        *SHARED,
    ),
    "server.api.handlers": (
        "candidates",
        "server.db",
        "server.errors",
        "server.api.http",
        # what monitoring finds in the environment and in answers
        "server.process.metrics",
        "server.policies",
        "server.api.schemas",
        *SHARED,
    ),
}

#: what is imported only by those named here, although an arrow would allow others to
RESERVED = {
    "client": (),
    "api.transport": ("api.operations", "api.client"),
    "api.operations": ("api.client", "api.piecewise"),
    "api.piecewise": ("api.client",),
    "server.testing": ("server.fixture", "server.pytest_plugin"),
    "server.fixture": ("server.testing",),
    "server.pytest_plugin": ("server.testing",),
    "server.main": ("completion.programs",),
    "server.db.dialects.sqlite": ("server.db.dialects",),
    "server.db.dialects.mysql": ("server.db.dialects",),
    "server.db.dialects.postgresql": ("server.db.dialects",),
    "server.worker": (),
    "server.wsgi": (),
    "server.process.serve": ("server.main", "server.shadow.judge", "server.shadow.run"),
    "server.process.demo": ("server.main",),
    "server.shadow.run": ("server.main",),
    "server.shadow.judge": (),
    "candidates.search": (
        "candidates.flavor_fit",
        "candidates.headroom",
        "server.api.handlers.allocation_candidate",
        "server.api.handlers.candidate_body",
    ),
}

#: libraries that only these parts import: each effect has one address
LIBRARIES = {
    "sqlalchemy": (
        "server.db",
        "server.snapshot",
        "server.process.opening",
        "migrate",
    ),
    "argcomplete": ("completion",),
    "alembic": ("server.db.upgrade", "server.db.migrations"),
    "gunicorn": (
        "server.process.serve",
        "server.process.worker",
        "server.process.connection",
        "server.process.tls",
        "server.shadow.run",
    ),
    "prometheus_client": ("server.process.metrics", "server.shadow.metrics"),
    "webob": ("server",),
    "jsonschema": ("server.api.http",),
    "oslo_config": ("server", "migrate"),
    "oslo_db": ("server.db", "server.process.opening"),
    "oslo_log": ("server",),
    "oslo_messaging": ("migrate.nova.notifications",),
    "oslo_middleware": ("server.conf", "server.deploy"),
    "oslo_policy": ("server",),
    "keystonemiddleware": ("server.api.auth",),
    "requests": ("api.transport", "migrate.nova.rest", "server.testing"),
    "rich": ("terminal",),
    "urllib3": ("server.shadow.upstream", "server.shadow.forward"),
}

#: these import nothing but the standard library and what ARROWS allows them
PURE = (
    *SHARED,
    "flavor",
    "syntax",
    "api.consumer",
    "batch.plan",
    "batch.recorder",
    "batch.inventory",
    "batch.gate",
    "batch.guards",
    "batch.membership",
    "batch.journal.record",
    "batch.repeat",
    "batch.device",
    "batch.reshape",
    "batch.holdings",
    "batch.selection",
    "batch.stages",
    "batch.undo",
    "candidates",
    "server.api.schemas",
)

#: the number of modules in the longest chain of imports that begins in each part
LONGEST_CHAINS = {"commands": 10, "migrate": 10, "server": 11}

#: what the start of every `openstack` command must not pay for
NOT_LOADED_BY_PLUGIN = ("sqlalchemy", "webob", "oslo_config", "rich", "yaml", "requests", f"{PACKAGE}.server")


def name_module(path):
    """The name of the module in a file, below the package."""
    parts = path.relative_to(ROOT / PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_module(path): path for path in sorted((ROOT / PACKAGE).rglob("*.py"))}


def read_imports(path):
    """The full names of what a file imports, wherever it does, for type checking too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import | ast.ImportFrom):
            assert not getattr(node, "level", 0), f"{path} has a relative import"
            yield from read_names(node)


def read_names(node):
    """The full names that a statement imports."""
    module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
    return (f"{module}{alias.name}" for alias in node.names)


def is_in(module, part):
    """Whether a module is a part of the package, or in it."""
    return module == part or module.startswith(f"{part}.")


def find_module(name):
    """The module of ours that a full name means, which is that of a module or of something in one."""
    inner = name.removeprefix(PACKAGE).removeprefix(".")
    return inner if inner in MODULES else inner.rpartition(".")[0]


IMPORTS = {module: set(read_imports(path)) for module, path in MODULES.items()}
OWN = {
    module: {find_module(name) for name in names if is_in(name, PACKAGE)} for module, names in IMPORTS.items()
}
FOREIGN = {
    module: {name.partition(".")[0] for name in names if not is_in(name, PACKAGE)}
    for module, names in IMPORTS.items()
}


@pytest.mark.parametrize("module", [module for module in MODULES if module])
def test_arrows_go_one_way(module):
    """A module imports itself, its own part, and the parts that its arrows lead to."""
    part = max((part for part in ARROWS if part and is_in(module, part)), key=len, default=None)
    assert part is not None, f"{module} belongs to no part; give it one in ARROWS"
    allowed = (part, *ARROWS[part])
    wrong = {name for name in OWN[module] if not any(is_in(name, other) for other in allowed)}
    assert wrong == set()


def find_imports_at_start(path):
    """Return the modules of ours that are imported with a file, not for type checking or in a function."""
    names, blocks = set(), [ast.parse(path.read_text()).body]
    while blocks:
        for node in blocks.pop():
            if isinstance(node, ast.If):
                blocks += (
                    [node.orelse] if ast.unparse(node.test) == "TYPE_CHECKING" else [node.body, node.orelse]
                )
            elif isinstance(node, ast.Try):
                blocks += [node.body, node.orelse, *(handler.body for handler in node.handlers)]
            elif isinstance(node, ast.Import | ast.ImportFrom):
                names |= set(read_names(node))
    return {find_module(name) for name in names if is_in(name, PACKAGE)}


def find_longest_chain(module, start, known):
    """Return the longest chain of modules that import each other, from this one down."""
    if module not in known:
        chains = (find_longest_chain(other, start, known) for other in sorted(start[module] - {module}))
        known[module] = (module, *max(chains, key=len, default=()))
    return known[module]


def test_chains_of_imports_are_short():
    """A reader who follows the imports of a module downward is soon at the end.

    A longer chain is a decision; often an import that only annotations need makes it.
    """
    start = {module: find_imports_at_start(path) for module, path in MODULES.items()}
    known = {}
    for part, longest in LONGEST_CHAINS.items():
        chains = [find_longest_chain(module, start, known) for module in MODULES if is_in(module, part)]
        assert len(max(chains, key=len)) == longest, max(chains, key=len)


def test_others_see_the_door_of_the_batch_engine():
    """What is behind it can be changed without a look at the rest of the package."""
    outside = {module: names for module, names in OWN.items() if not is_in(module, "batch")}
    assert not {
        (module, name) for module, names in outside.items() for name in names if name.startswith("batch.")
    }


@pytest.mark.parametrize("part", RESERVED)
def test_reserved_module_is_imported_by_those_named(part):
    """What is an end, or the lower half of something, is imported by nobody else."""
    importers = {module for module, names in OWN.items() if part in names}
    assert importers <= set(RESERVED[part])


@pytest.mark.parametrize("library", LIBRARIES)
def test_library_has_one_address(library):
    """A library is imported in its part of the package only."""
    importers = {module for module, names in FOREIGN.items() if library in names}
    wrong = {name for name in importers if not any(is_in(name, part) for part in LIBRARIES[library])}
    assert wrong == set()
    assert importers, f"nobody imports {library}: LIBRARIES is out of date"


@pytest.mark.parametrize(
    "module", [module for module in MODULES if any(is_in(module, part) for part in PURE)]
)
def test_pure_module_imports_no_library(module):
    """What is pure thinking needs the standard library only."""
    assert FOREIGN[module] - sys.stdlib_module_names == set()


@pytest.mark.parametrize("path", sorted((ROOT / "tests" / "unit").rglob("*.py")), ids=lambda path: path.name)
def test_unit_tests_import_no_other_tests(path):
    """Unit tests share helpers with other tests in the modules directly below tests/."""
    others = ("tests.functional", "tests.reliability")
    assert {name for name in read_imports(path) if any(is_in(name, other) for other in others)} == set()


def test_parts_exist():
    """The parts named here are there; one that is renamed takes its arrows with it."""
    named = {*ARROWS, *RESERVED, *PURE, *(part for parts in LIBRARIES.values() for part in parts)}
    assert {part for part in named if not any(is_in(module, part) for module in MODULES)} == set()


def test_plugin_loads_little():
    """`openstack` imports the plugin at every start: nothing of the server, and no slow library, with it."""
    code = f"import sys, {PACKAGE}.plugin; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert f"{PACKAGE}.plugin" in loaded
    assert {name for name in loaded if any(is_in(name, other) for other in NOT_LOADED_BY_PLUGIN)} == set()
