# SPDX-License-Identifier: Apache-2.0
"""`compat`: the distribution with openstack-placement's names, called as deployment tools call it.

doc/source/admin/compat.rst names these tools. The files that make the calls:

- openstack/kolla: docker/placement/placement-api/extend_start.sh
- openstack/kolla-ansible: ansible/roles/placement/defaults/main.yml, tasks/upgrade.yml and
  templates/placement-api-wsgi.conf.j2, ansible/roles/service-uwsgi-config/templates/uwsgi.ini.j2
- openstack/openstack-ansible-os_placement: tasks/placement_db_sync.yml, vars/main.yml
- openstack/ansible-role-uwsgi: templates/uwsgi.ini.j2
- openstack/openstack-helm: placement/templates/bin, placement/values.yaml
- rackerlabs/genestack: base-helm-configs/placement/placement-helm-overrides.yaml
- openstack/devstack: lib/placement
- openstack/puppet-placement: manifests/db/sync.pp, manifests/params.pp
- openstack/charm-placement: src/lib/charm/openstack/placement.py
- openstack-k8s-operators/placement-operator: templates/placementapi/config
- rdo-packages/placement-distgit: openstack-placement.spec
"""

import contextlib
import importlib.metadata
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import venv

import pytest
import requests

from benchmarks import uwsgi
from tests import databases
from tests.functional import containers, forking, reference_server, servers
from tests.functional.packaging import installing
from tests.functional.packaging.conftest import ROOT

ADMIN = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.20"}
#: the account of kolla's and helm's images
UID = 42424
COMPAT = ROOT / "compat"
SYNC = "sync_on_startup = true"


class Deployment:
    """A virtual environment with both wheels, and a home directory in which oslo.config finds placement.conf.

    Tests may not write to ``/etc/placement``, and oslo.config looks in ``~/.placement`` as well: so calls
    without options find the configuration of a test, as they do in a deployment.
    """

    def __init__(self, environment, home):
        self.bin = environment / "bin"
        (self.packages,) = (environment / "lib").glob("python*/site-packages")
        self.home = home
        self.directory = home / ".placement"
        self.directory.mkdir(parents=True)

    def configure(self, url, *lines, name="placement.conf"):
        """Write a configuration for a database, without authentication."""
        text = [
            "[placement_database]",
            f"connection = {url}",
            "[api]",
            "auth_strategy = noauth2",
            *lines,
        ]
        path = self.directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(text) + "\n")
        return path

    def make_environment(self, **variables):
        """Return the variables of a shell in the home directory."""
        path = f"{self.bin}:{os.environ['PATH']}"
        return servers.make_environment(HOME=str(self.home), PATH=path, **variables)

    def run(self, program, *arguments, **variables):
        """Run a program of the virtual environment."""
        return subprocess.run(
            [self.bin / program, *arguments],
            cwd=self.home,
            env=self.make_environment(**variables),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    @contextlib.contextmanager
    def serving(self, make_command, wrapper=(), **variables):
        """Run a container that serves at a port; its URL."""
        port = containers.find_free_port()
        command = [*wrapper, *map(str, make_command(port))]
        with containers.running(command, self.home, self.make_environment(**variables), port):
            yield f"http://127.0.0.1:{port}"

    @property
    def log(self):
        """Return what the last container wrote."""
        return (self.home / "container.log").read_text()


@pytest.fixture(scope="module")
def directory():
    """A directory that every account may read, which those of pytest are not."""
    path = pathlib.Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def environment(built, directory):
    """A virtual environment with both wheels and what they require."""
    venv.create(directory / "venv", symlinks=True)
    command = [sys.executable, "-m", "pip", "--python", directory / "venv/bin/python", "install", "--no-deps"]
    subprocess.run([*command, "--quiet", built[0], built[2]], check=True)
    (packages,) = (directory / "venv/lib").glob("python*/site-packages")
    (metadata,) = packages.glob("osc_placement-*.dist-info")
    required = directory / "required"
    required.mkdir()
    links = installing.Installed(required)
    extras = ("server", "mysql", "postgresql")
    for distribution in installing.find_all(importlib.metadata.PathDistribution(metadata).metadata, extras):
        links.link(distribution)
    (packages / "required.pth").write_text(f"{required}\n")
    return directory / "venv"


@pytest.fixture
def deployment(environment, directory):
    """A deployment without a configuration."""
    home = pathlib.Path(tempfile.mkdtemp(dir=directory))
    home.chmod(0o755)
    return Deployment(environment, home)


def create(url, name):
    """Create a provider."""
    answer = requests.post(f"{url}/resource_providers", json={"name": name}, headers=ADMIN, timeout=30)
    assert answer.status_code == 200, answer.text


def list_names(url):
    """The names of all providers."""
    answer = requests.get(f"{url}/resource_providers", headers=ADMIN, timeout=30)
    assert answer.status_code == 200, answer.text
    return sorted(provider["name"] for provider in answer.json()["resource_providers"])


@contextlib.contextmanager
def serving_by_uwsgi(deployment, options, wrapper=()):
    """uWSGI with the options of a deployment tool, as an ini file; its URL, once all processes can serve.

    A process that is told to end while it imports the application ends only when uWSGI loses patience.
    """
    program = containers.find_uwsgi()
    path = deployment.home / "placement-api-uwsgi.ini"

    def make(port):
        uwsgi.write(path, options, port=port, bin=deployment.bin)
        return [program, "--home", deployment.bin.parent, "--ini", path]

    (processes,) = [int(line.split()[-1]) for line in options if line.startswith("processes =")]
    with deployment.serving(make, wrapper) as url:
        until = time.monotonic() + servers.PATIENCE
        while deployment.log.count("WSGI app 0") < processes:
            assert time.monotonic() < until, deployment.log
            time.sleep(0.1)
        yield url


MODULE = "module = placement.wsgi.api:application"
SCRIPT = "wsgi-file = {bin}/placement-api"
#: a path of its own, as in devstack, where Apache adds it
MOUNTED = (
    "http-socket = 127.0.0.1:{port}",
    "mount = /placement=placement.wsgi:init_application()",
    "manage-script-name = true",
    "master = true",
    "processes = 2",
    "lazy-apps = true",
    "die-on-term = true",
)


def take_over_and_give_back(deployment, database_url, directory, options):
    """Start as an image does on a database of openstack-placement, which reads it again at the end."""
    databases.require_reference()
    (directory / "before").mkdir()
    (directory / "after").mkdir()
    with reference_server.running(directory / "before", database_url, sync=True) as url:
        create(url, "written-by-the-reference")
    deployment.configure(database_url)
    for command in ("db sync", "db online_data_migrations"):
        done = deployment.run("placement-manage", *command.split())
        assert (done.returncode, done.stderr) == (0, "")
    done = deployment.run("placement-status", "upgrade", "check")
    assert (done.returncode, done.stderr) == (0, "")
    with serving_by_uwsgi(deployment, options) as url:
        assert list_names(url) == ["written-by-the-reference"]
        create(url, "written-by-us")
        assert list_names(url) == ["written-by-the-reference", "written-by-us"]
    assert "Traceback" not in deployment.log
    with reference_server.running(directory / "after", database_url) as url:
        assert list_names(url) == ["written-by-the-reference", "written-by-us"]
        create(url, "written-later")


def test_start_sequence_of_kolla_takes_over_a_database_and_gives_it_back(deployment, database_url, tmp_path):
    """They serve what openstack-placement wrote, and it reads what they wrote."""
    take_over_and_give_back(deployment, database_url, tmp_path, (*uwsgi.KOLLA, MODULE))


def test_start_sequence_of_helm_takes_over_a_database_and_gives_it_back(deployment, tmp_path):
    """As kolla's, with the script in place of the module."""
    take_over_and_give_back(deployment, f"sqlite:///{tmp_path}/placement.db", tmp_path, (*uwsgi.HELM, SCRIPT))


def test_uwsgi_serves_with_the_options_of_openstack_ansible(deployment, tmp_path):
    """Several processes with one thread each, which import the script after the fork."""
    deployment.configure(f"sqlite:///{tmp_path}/placement.db", "[placement_database]", SYNC)
    with serving_by_uwsgi(deployment, (*uwsgi.ANSIBLE, SCRIPT)) as url:
        for number in range(20):
            create(url, f"host{number}")
        assert len(list_names(url)) == 20
        # the checks of HAProxy and of the orchestrators
        assert requests.get(f"{url}/", timeout=30).status_code == 200
    assert "Traceback" not in deployment.log


def test_uwsgi_serves_below_a_path(deployment, tmp_path):
    """Links have the prefix."""
    deployment.configure(f"sqlite:///{tmp_path}/placement.db", "[placement_database]", SYNC)
    with serving_by_uwsgi(deployment, MOUNTED) as url:
        create(f"{url}/placement", "host")
        answer = requests.get(f"{url}/placement/resource_providers", headers=ADMIN, timeout=30).json()
    (link, *_) = answer["resource_providers"][0]["links"]
    assert link["href"].startswith("/placement/resource_providers/")


@pytest.mark.parametrize("module", ["placement.wsgi.api:application", "placement.wsgi:init_application()"])
def test_gunicorn_serves_both_names_of_the_application(deployment, tmp_path, module):
    """The module with the application, and the function that returns it."""
    deployment.configure(f"sqlite:///{tmp_path}/placement.db")
    assert deployment.run("placement-manage", "db", "sync").returncode == 0
    python = deployment.bin / "python"

    def make(port):
        return [python, "-m", "gunicorn", "--workers", "2", "--bind", f"127.0.0.1:{port}", module]

    with deployment.serving(make) as url:
        create(url, "host")
        assert list_names(url) == ["host"]


def test_placement_api_serves_the_configured_database(deployment, tmp_path):
    """Called as a command, with the options of pbr's scripts."""
    deployment.configure(f"sqlite:///{tmp_path}/placement.db")
    assert deployment.run("placement-manage", "db", "sync").returncode == 0
    program = deployment.bin / "placement-api"
    with deployment.serving(lambda port: [program, "--port", port, "--host", "127.0.0.1"]) as url:
        create(url, "host")
    assert deployment.run("placement-manage", "db", "version").stdout != "None\n"
    assert not (deployment.home / "placement.db").exists()


def test_placement_api_without_configuration_says_so(deployment):
    """It makes no database of its own."""
    done = deployment.run("placement-api", "--port", "0")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "placement-api: There is no placement.conf, such as in /etc/placement\n"


#: a logging file of openstack-helm and genestack
LOGGING = """
[loggers]
keys = root, placement
[handlers]
keys = stdout, null
[formatters]
keys = context
[logger_root]
level = WARNING
handlers = null
[logger_placement]
level = INFO
handlers = stdout
qualname = placement
[handler_null]
class = logging.NullHandler
args = ()
[handler_stdout]
class = StreamHandler
args = (sys.stdout,)
formatter = context
[formatter_context]
class = oslo_log.formatters.ContextFormatter
datefmt = %Y-%m-%d %H:%M:%S
"""
#: groups that kolla-ansible writes and placement does not have
UNKNOWN = (
    "[oslo_concurrency]",
    "lock_path = /var/lib/placement/tmp",
    "[cache]",
    "backend = oslo_cache.memcache_pool",
    "enabled = true",
    "[profiler]",
    "enabled = true",
    "connection_string = redis://127.0.0.1:6379",
)


def make_gunicorn_command(deployment):
    """gunicorn with one worker."""
    python = deployment.bin / "python"
    module = "placement.wsgi.api:application"
    return lambda port: [python, "-m", "gunicorn", "--workers", "1", "--bind", f"127.0.0.1:{port}", module]


def test_logging_file_that_names_only_placement_shows_our_lines(deployment, tmp_path):
    """Requests are logged at level INFO; groups that nobody knows are ignored."""
    file = tmp_path / "logging.conf"
    file.write_text(LOGGING)
    lines = ("[placement_database]", SYNC, "[DEFAULT]", f"log_config_append = {file}", *UNKNOWN)
    deployment.configure(f"sqlite:///{tmp_path}/placement.db", *lines)
    with deployment.serving(make_gunicorn_command(deployment)) as url:
        create(url, "host")
    assert '"POST /resource_providers" status: 200' in deployment.log
    assert "Traceback" not in deployment.log


def test_configuration_directory_is_read(deployment, tmp_path):
    """`placement.conf.d` beside placement.conf wins, for commands and for the application."""
    deployment.configure(f"sqlite:///{tmp_path}/wrong.db")
    deployment.configure(f"sqlite:///{tmp_path}/right.db", name="placement.conf.d/custom.conf")
    assert deployment.run("placement-manage", "db", "sync").returncode == 0
    with deployment.serving(make_gunicorn_command(deployment)) as url:
        create(url, "host")
    assert (tmp_path / "right.db").exists()
    assert not (tmp_path / "wrong.db").exists()


ACCOUNT = ("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups")
#: mod_wsgi asks for an account that has a name
APACHE_ACCOUNT = ("setpriv", "--reuid=www-data", "--regid=www-data", "--clear-groups")
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
MAKE_READ_ONLY = """
awk '$2 !~ "^/(proc|sys)(/|$)" && $4 ~ "^rw" { print $2 }' /proc/mounts | while read -r mount; do
    mount -o remount,ro,bind "$mount" || exit 1
done
exec "$@"
"""
READ_ONLY = ("unshare", "--mount", "sh", "-c", MAKE_READ_ONLY, "sh")


def require(*wrapper):
    """Skip the test, or fail, if a wrapper may not be used here."""
    try:
        done = subprocess.run([*wrapper, "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        databases.skip_or_fail(str(error))
    if done.returncode:
        databases.skip_or_fail(f"{wrapper[0]} may not be used here: {done.stderr.strip()}")


def test_uwsgi_serves_from_a_read_only_file_system(deployment, tmp_path):
    """Nothing has to be written, to any place."""
    require(*READ_ONLY)
    done = subprocess.run([*READ_ONLY, "touch", tmp_path / "file"], capture_output=True, check=False)
    assert done.returncode != 0
    with databases.make_database("mariadb", tmp_path) as database:
        deployment.configure(database)
        assert deployment.run("placement-manage", "db", "sync").returncode == 0
        with serving_by_uwsgi(deployment, (*uwsgi.HELM, SCRIPT), READ_ONLY) as url:
            create(url, "host")
            assert list_names(url) == ["host"]
    assert "Traceback" not in deployment.log


def test_account_of_the_images_serves(deployment, tmp_path):
    """It has no name, no home of its own, and may write to the database only."""
    python = pathlib.Path(f"/usr/bin/python{VERSION}")
    if not python.exists():
        pytest.skip(f"there is no {python}, and other accounts may not be allowed to read this interpreter")
    require(*ACCOUNT)
    paths = f"{deployment.packages}:{deployment.bin.parents[1] / 'required'}"
    with databases.make_database("mariadb", tmp_path) as database:
        deployment.configure(database, "[placement_database]", SYNC)
        make = make_gunicorn_command(deployment)

        def make_for_account(port):
            return [python, *make(port)[1:]]

        with deployment.serving(make_for_account, ACCOUNT, PYTHONPATH=paths) as url:
            create(url, "host")
            assert list_names(url) == ["host"]
    assert "Traceback" not in deployment.log


APACHE = pathlib.Path("/usr/sbin/apache2")
MODULES = pathlib.Path("/usr/lib/apache2/modules")
#: what kolla-ansible, RDO, charms, puppet and the operators configure, with the paths of a test
SITE = """
ServerRoot {run}
ServerName localhost
PidFile {run}/apache2.pid
Mutex file:{run}
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule alias_module {modules}/mod_alias.so
LoadModule wsgi_module {modules}/mod_wsgi.so
WSGISocketPrefix {run}/wsgi
ErrorLog {run}/error.log
Listen 127.0.0.1:{port}
<VirtualHost *:{port}>
    WSGIDaemonProcess placement-api processes=3 threads=1 display-name=%{{GROUP}} python-path={packages}
    WSGIProcessGroup placement-api
    WSGIScriptAlias / {script}
    WSGIApplicationGroup %{{GLOBAL}}
    WSGIPassAuthorization On
    <Directory />
        Require all granted
    </Directory>
</VirtualHost>
"""


@pytest.mark.parametrize("script", ["bin/placement-api", "placement/wsgi/api.py"])
def test_apache_serves_with_mod_wsgi(deployment, script):
    """Debian's module loads the script, or the file of the package, in three processes of one thread."""
    if not APACHE.exists():
        databases.skip_or_fail("apache2 is not installed")
    if not (MODULES / f"mod_wsgi.so-{VERSION}").exists():
        pytest.skip(f"libapache2-mod-wsgi-py3 is for another Python than {VERSION}: build mod_wsgi for it")
    require(*APACHE_ACCOUNT)
    run = deployment.home / "run"
    run.mkdir()
    deployment.configure(f"sqlite:///{run}/placement.db", "[placement_database]", SYNC)
    shutil.chown(run, "www-data", "www-data")
    root = deployment.packages if script.endswith(".py") else deployment.bin.parent

    def make(port):
        places = {"run": run, "modules": MODULES, "packages": deployment.packages, "script": root / script}
        site = deployment.home / "site.conf"
        site.write_text(SITE.format(port=port, **places))
        return [APACHE, "-DFOREGROUND", "-f", site]

    variables = {"OS_PLACEMENT_CONFIG_DIR": str(deployment.directory)}
    with deployment.serving(make, APACHE_ACCOUNT, **variables) as url:
        for number in range(6):
            create(url, f"host{number}")
        assert len(list_names(url)) == 6
    assert "Traceback" not in (run / "error.log").read_text()


def compare(deployment, program, *arguments):
    """Run a command of both distributions; return ours, whose status and output are openstack-placement's."""
    settings = {"cwd": deployment.home, "env": deployment.make_environment()}
    expected = forking.run(program, *arguments, **settings)
    done = forking.run(program, *arguments, python=deployment.bin / "python", **settings)
    assert done.returncode == expected.returncode, (arguments, done.stderr)
    if not expected.returncode:
        assert done.stdout == expected.stdout, arguments
    return done


def test_commands_have_output_and_statuses_of_openstack_placement(deployment, tmp_path):
    """With and without options, before and after the tables are made."""
    databases.require_reference()
    path = deployment.configure(f"sqlite:///{tmp_path}/placement.db")
    for arguments in (
        ("db", "version"),
        ("--config-file", path, "--debug", "db", "sync"),
        ("db", "sync"),
        ("db", "version"),
        ("db", "stamp", "head"),
        ("db", "online_data_migrations"),
        ("db", "online_data_migrations", "--max-count", "0"),
        ("db", "online_data_migrations", "--max-count", "5"),
        ("db", "stamp"),
        ("db", "nonsense"),
        ("nonsense",),
        (),
    ):
        compare(deployment, "placement-manage", *arguments)
    for arguments in (("upgrade", "check"), ("upgrade",), ()):
        compare(deployment, "placement-status", *arguments)
    done = compare(deployment, "placement-manage", "db", "stamp", "nonsense")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("placement-manage: ")


@pytest.mark.parametrize(
    ("program", "arguments"),
    [("placement-manage", ("db", "sync")), ("placement-status", ("upgrade", "check"))],
)
def test_command_without_configuration_says_so(deployment, program, arguments):
    """One line that names the option and the files."""
    done = deployment.run(program, *arguments)
    assert done.returncode == {"placement-manage": 1, "placement-status": 255}[program]
    line = f"{program}: No database is named: placement.conf needs 'connection' in [placement_database]; "
    assert done.stderr == f"{line}files read: none\n"


def test_nothing_starts_beside_openstack_placement(deployment, tmp_path):
    """Each command says so in one line, and the application cannot be imported."""
    deployment.configure(f"sqlite:///{tmp_path}/placement.db")
    metadata = tmp_path / "other" / "openstack_placement-16.0.0.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: openstack-placement\nVersion: 16.0.0\n")
    other = {"PYTHONPATH": str(tmp_path / "other")}
    line = "osc-placement-compat cannot be used beside openstack-placement 16.0.0, because"
    for program, *arguments in (
        ("placement-manage", "db", "sync"),
        ("placement-status", "upgrade", "check"),
        ("placement-api", "--port", "0"),
        ("placement-nova-manage", "placement", "audit"),
    ):
        done = deployment.run(program, *arguments, **other)
        assert done.returncode not in (0, 2)
        assert done.stderr.startswith(f"{program}: {line}")
        assert done.stderr.count("\n") == 1
    done = deployment.run("python", "-c", "import placement.wsgi.api", **other)
    assert done.stderr.splitlines()[-1].startswith(f"osc_placement_compat.reference.InstalledToo: {line}")
    assert not (tmp_path / "placement.db").exists()


GENERATE_CONFIG = "from oslo_config.generator import main; main()"
GENERATE_POLICY = "from oslo_policy.generator import generate_sample; generate_sample()"
VALIDATE = "import sys; from oslo_config.validator import main; sys.exit(main())"


def test_generators_know_the_old_names(deployment):
    """The files in etc/placement make both samples, as when RDO and Debian build packages."""
    (deployment.home / "etc").symlink_to(deployment.bin.parent / "etc")
    samples = deployment.bin.parent / "etc" / "placement"
    for name, code, sample, text in (
        ("config", GENERATE_CONFIG, "placement.conf.sample", "[placement_database]"),
        ("policy", GENERATE_POLICY, "policy.yaml.sample", "placement:reshaper:reshape"),
    ):
        done = deployment.run("python", "-c", code, "--config-file", f"etc/placement/{name}-generator.conf")
        assert done.returncode == 0, done.stderr
        path = samples / sample
        assert text in path.read_text()
        path.unlink()


def test_validator_judges_placement_conf(deployment, tmp_path):
    """kolla-ansible validates with the generator's configuration: a misspelt option is found."""
    generator = COMPAT / "etc" / "placement" / "config-generator.conf"
    path = tmp_path / "placement.conf"
    for line, status in (("randomize_allocation_candidates = true", 0), ("randomise = true", 1)):
        path.write_text(f"[placement_database]\nconnection = sqlite://\n[placement]\n{line}\n")
        done = deployment.run(
            "python", "-W", "ignore", "-c", VALIDATE, "--config-file", generator, "--input-file", path
        )
        assert done.returncode == status, done.stderr
