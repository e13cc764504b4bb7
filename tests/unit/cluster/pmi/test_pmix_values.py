"""A PMIx server reads the values that libpmix passes."""

import pytest

from cosched.core.cluster.startup.questions import Command

values = pytest.importorskip("cosched.cluster.pmi.pmix_values")


@pytest.mark.parametrize(
    ("environ", "found"),
    [({}, False), ({"OMPI_PARENT_PORT": ""}, False), ({"OMPI_PARENT_PORT": "7.0"}, True)],
)
def test_only_programs_with_a_port_connect_to_their_parents(environ, found):
    programs = (Command(("./other",), 1), Command(("./child",), 1, environ=environ))
    assert values.connects(programs) is found
