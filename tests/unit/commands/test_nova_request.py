# SPDX-License-Identifier: Apache-2.0
"""Where the options of the request filters come from if no nova.conf is named."""

import logging
import os
import sys
from types import SimpleNamespace

import pytest
from oslo_config import cfg

from osc_placement.candidates.nova_filters import Options
from osc_placement.commands import nova_request
from osc_placement.errors import PlacementError

COMMAND = SimpleNamespace(warn=logging.getLogger(__name__).warning)


@pytest.fixture
def usual(tmp_path, monkeypatch):
    """Where nova.conf usually is; it is not there yet."""
    path = tmp_path / "nova.conf"
    monkeypatch.setattr(nova_request, "NOVA_CONF", str(path))
    return path


def test_without_a_nova_conf_the_options_are_not_known(usual, caplog):
    """There is no warning: most operators' machines have none."""
    assert nova_request._read_filter_options(COMMAND, None) == (None, "no nova.conf")
    assert caplog.text == ""


def test_the_usual_nova_conf_is_read(usual):
    """And the answer names it."""
    usual.write_text("[DEFAULT]\ndefault_schedule_zone = az1\n[scheduler]\nimage_metadata_prefilter = yes\n")
    options, source = nova_request._read_filter_options(COMMAND, None)
    assert options == Options(image_metadata_prefilter=True, default_schedule_zone="az1")
    assert source == str(usual)


def test_a_usual_nova_conf_that_cannot_be_read_is_a_warning(usual, caplog):
    """Its options are not known, which is not the same as false."""
    usual.write_text("[scheduler]\nimage_metadata_prefilter = maybe\n")
    options, source = nova_request._read_filter_options(COMMAND, None)
    assert (options, source) == (None, f"{usual} not read")
    assert "it is not known which filters of nova's scheduler it enables" in caplog.text
    with pytest.raises(PlacementError, match="Unexpected boolean value"):
        nova_request._read_filter_options(COMMAND, str(usual))


def test_without_oslo_config_a_named_nova_conf_is_refused(usual, monkeypatch):
    """The message names the library, which the plugin alone does not need."""
    usual.write_text("")
    monkeypatch.setitem(sys.modules, "osc_placement.migrate.nova.scheduler_options", None)
    with pytest.raises(PlacementError, match=r"it needs oslo\.config"):
        nova_request._read_filter_options(COMMAND, str(usual))


def test_further_files_of_the_usual_nova_conf_are_read(usual, tmp_path, monkeypatch):
    """As nova does; those of this machine say nothing of a file that is named."""
    usual.write_text("")
    directory = tmp_path / "nova.conf.d"
    directory.mkdir()
    (directory / "10.conf").write_text("[scheduler]\nimage_metadata_prefilter = yes\n")
    monkeypatch.setattr(cfg, "find_config_dirs", lambda *_arguments, **_named: [str(directory)])
    options, _ = nova_request._read_filter_options(COMMAND, None)
    assert options == Options(image_metadata_prefilter=True)
    options, _ = nova_request._read_filter_options(COMMAND, str(usual))
    assert options == Options()


def test_a_directory_that_cannot_be_searched_is_a_warning(usual, monkeypatch, caplog):
    """It may have a nova.conf, so the options are not known."""

    def refuse(*_arguments, **_named):
        raise PermissionError(13, "Permission denied", str(usual))

    monkeypatch.setattr(os, "stat", refuse)
    assert nova_request._read_filter_options(COMMAND, None) == (None, f"{usual} not read")
    assert "it is not known which filters of nova's scheduler it enables" in caplog.text
