# SPDX-License-Identifier: Apache-2.0
"""The tree of errors that the server answers, against the picture of it."""

import re

import pytest

from osc_placement import codes
from osc_placement.server import errors
from osc_placement.server.api import http
from osc_placement.server.errors import Answer, answering

#: the lines of the picture: indentation, names, remark
LINE = re.compile(r"^(?P<branch>[ │├└─]*)(?P<names>[A-Z]\w+(?:, [A-Z]\w+)*)(?: {2,}(?P<remark>.*))?$")


def read_picture():
    """The classes of the docstring: name to (name of its base, remark)."""
    picture, path = {}, []
    for line in errors.__doc__.splitlines():
        match = LINE.match(line.removeprefix("    "))
        if match is None or not line.startswith("    "):
            continue
        depth = len(match["branch"]) // 4
        names = match["names"].split(", ")
        base = path[depth - 1] if depth else None
        picture |= dict.fromkeys(names, (base, match["remark"] or ""))
        path[depth:] = names[-1:]
    return picture


PICTURE = read_picture()


def find_classes(base=errors.PlacementError):
    """A class and all its subclasses in the module."""
    mine = [base] if base.__module__ == errors.__name__ else []
    return mine + [below for child in base.__subclasses__() for below in find_classes(child)]


CLASSES = find_classes()


def test_the_docstring_lists_every_class():
    """The tree in the docstring has each class once, and no other name."""
    assert sorted(PICTURE) == sorted(class_.__name__ for class_ in CLASSES)


@pytest.mark.parametrize("class_", CLASSES[1:], ids=lambda class_: class_.__name__)
def test_the_docstring_shows_each_class_below_its_base(class_):
    """A class is a child of its base."""
    assert PICTURE[class_.__name__][0] == class_.__base__.__name__


def find_remark(name, pattern):
    """What the picture says of a class, or of the nearest base that it says it of."""
    while name:
        base, remark = PICTURE[name]
        if match := re.search(pattern, remark):
            return match[1]
        name = base
    return None


@pytest.mark.parametrize("class_", CLASSES[1:], ids=lambda class_: class_.__name__)
def test_the_docstring_shows_the_answer_of_each_class(class_):
    """Status, code and "vary" are as described; `HTTPError` sets its status when it is raised."""
    name = class_.__name__
    if class_ is errors.HTTPError:
        assert PICTURE[name][1] == "as it says"
        return
    assert str(class_.status) == find_remark(name, r"^(\d{3})")
    assert class_.code == (find_remark(name, r"code (placement\.[\w.]+)") or codes.UNDEFINED)
    assert class_.varies == (find_remark(name, '(without "vary")') is None)


@pytest.mark.parametrize("class_", CLASSES[1:], ids=lambda class_: class_.__name__)
def test_a_class_has_a_status_that_can_be_answered(class_):
    """WebOb knows the status, and it is that of an error."""
    assert class_.status >= 400
    assert class_.status in http.webob.exc.status_map


def test_retry_is_not_a_placement_error():
    """An error for the database layer only must not be one that clients can receive."""
    assert not issubclass(errors.Retry, errors.PlacementError)


def test_answering_uses_the_first_matching_answer():
    """An error is answered by the first answer that names its class or a base of it."""
    answers = (
        Answer(errors.ProviderNotFound, 400, "{error} in {place}"),
        Answer(errors.NotFound, 410, "gone", codes.PROVIDER_NOT_FOUND),
    )
    with pytest.raises(errors.HTTPError) as caught, answering(*answers, place="here"):
        raise errors.ProviderNotFound("x")
    assert (caught.value.status, caught.value.code) == (400, codes.UNDEFINED)
    assert caught.value.message == "No resource provider with uuid x found in here"
    with pytest.raises(errors.HTTPError) as caught, answering(*answers, place="here"):
        raise errors.TraitNotFound("x")
    assert (caught.value.status, caught.value.code) == (410, codes.PROVIDER_NOT_FOUND)


def test_answering_passes_other_errors_on():
    """An error without a matching answer, or with an answer already, is not changed."""
    with pytest.raises(errors.Conflict), answering(Answer(errors.NotFound, 410, "gone")):
        raise errors.Conflict("x")
    decided = errors.HTTPError(418, "teapot")
    with pytest.raises(errors.HTTPError) as caught, answering(Answer(errors.PlacementError, 410, "gone")):
        raise decided
    assert caught.value is decided
