# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# shellcheck disable=SC2154  # $root and $tool are set by who sources this
#
# The virtual environments of a clone, for the tools beside this file, which source it after they have set
# $root (the clone) and $tool (their own name, for messages). Knows pip and venv, and nothing of the project
# but the files that say what to install.

say() {
    printf '%s\n' "$*"
}

fail() {
    printf '%s: %s\n' "$tool" "$*" >&2
    exit 1
}

# Make this process independent of the Python and pip settings of the shell that it was called from.
leave_outer_environment() {
    if [ -z "${HOME:-}" ]; then
        HOME=$root/.cache/home
        mkdir -p "$HOME"
        export HOME
    fi
    # without bytecode, each of the commands that tests start is half a second slower
    unset PYTHONDONTWRITEBYTECODE
    unset PYTHONHOME PYTHONPATH PYTHONSTARTUP VIRTUAL_ENV PIP_TARGET PIP_PREFIX
    export PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
}

# Succeed if $1 is a Python that the project runs on.
is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# Set $python to $PYTHON, or to the first Python that is new enough.
choose_python() {
    if [ -n "${PYTHON:-}" ]; then
        python=$PYTHON
        is_new_enough "$python" || fail "PYTHON=$PYTHON is not a Python 3.11 or newer"
        return
    fi
    for python in python3 python3.13 python3.12 python3.11; do
        if is_new_enough "$python"; then
            return
        fi
    done
    fail "needs Python 3.11 or newer; name one with PYTHON=/path/to/python3"
}

# Say what the environment that is to be made depends on: another answer means making it anew.
describe_environment() {
    say "$root $1"
    "$python" -c 'import sys; print(sys.executable, sys.version)'
    cksum "$root/setup.cfg" "$root/pyproject.toml" "$root/$2"
}

# make_environment DIRECTORY EXTRAS CONSTRAINTS LOG: install the project with its extras, editable, unless
# DIRECTORY already has it so.
make_environment() {
    venv=$1 venv_extras=$2 venv_constraints=$3 venv_log=$4
    leave_outer_environment
    choose_python
    venv_content=$(describe_environment "$venv_extras" "$venv_constraints")
    if [ "$venv_content" = "$(cat "$venv/complete" 2>/dev/null)" ]; then
        return
    fi
    mkdir -p "$(dirname "$venv_log")"
    "$python" -m venv --clear "$venv" >"$venv_log" 2>&1 ||
        fail "$python cannot make a virtual environment (on Debian: install python3-venv); see $venv_log"
    set -- --constraint "$root/$venv_constraints" --editable "${root}[$venv_extras]"
    if names_an_index; then
        install_with_pip "$@" >>"$venv_log" 2>&1
    else
        install_with_uv "$@" >>"$venv_log" 2>&1 || install_with_pip "$@" >>"$venv_log" 2>&1
    fi || fail "could not install the project from $root; see $venv_log"
    say "$venv_content" >"$venv/complete"
}

# Succeed if pip's settings name an index in place of PyPI, or none; uv does not know them.
names_an_index() {
    "$venv/bin/python" -m pip config list 2>/dev/null | grep -Eq '\.(index-url|no-index)='
}

# Install into $venv in a fraction of pip's time.
install_with_uv() {
    install_with_pip --constraint "$root/$venv_constraints" uv &&
        "$venv/bin/python" -m uv pip install --python "$venv/bin/python" "$@"
}

# Most of what is installed is never imported, and what is imported is compiled then.
install_with_pip() {
    "$venv/bin/python" -m pip install --no-compile "$@"
}
