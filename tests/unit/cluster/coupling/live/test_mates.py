"""The mates that a job names: every form that is right, and a line for each that is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.cluster.coupling.mates import Mates, parse_mates, read_comment, shown_mates
from cosched.core.errors import CoschedError

OTHERS = ("eureka", "lens")
S = 1_000_000_000


def test_comment_without_mark_has_no_mates():
    assert read_comment("", "intrepid", OTHERS) is None
    assert read_comment("run 3 of cosched:mate=g@eureka", "intrepid", OTHERS) is None


@pytest.mark.parametrize(
    ("text", "mates"),
    [
        ("mate=g@eureka", Mates("g", ("eureka",))),
        ("mate=g.1@lens,mate=g.1@eureka", Mates("g.1", ("eureka", "lens"))),
        ("mate=g@eureka,within=60s", Mates("g", ("eureka",), within_ns=60 * S)),
        ("token=a-word.8,mate=g@eureka", Mates("g", ("eureka",), token="a-word.8")),
        ("after=eureka,mate=g@eureka", Mates("g", ("eureka",), after="eureka")),
        (
            "mate=g@eureka,after=intrepid,delay=2min",
            Mates("g", ("eureka",), after="intrepid", delay_ns=120 * S),
        ),
    ],
)
def test_right_forms(text, mates):
    assert read_comment(f"cosched:{text}", "intrepid", OTHERS) == mates


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "",
            "'' is none of mate=GROUP@DOMAIN, within=TIME, after=DOMAIN, delay=TIME, token",
        ),
        ("mate=g@eureka,token=short", "a token has 8 to 128 letters, digits"),
        ("mate", "'mate' is none of"),
        ("mate=g@eureka ", "'g@eureka ' is not GROUP@DOMAIN, as in mate=climate@eureka"),
        ("mate=@eureka", "'@eureka' is not GROUP@DOMAIN"),
        ("mate=g@", "'g@' is not GROUP@DOMAIN"),
        ("mate=g@e@f", "'g@e@f' is not GROUP@DOMAIN"),
        ("mate=../g@eureka", "'../g@eureka' is not GROUP@DOMAIN"),
        ("mate=g@eureka,", "'' is none of"),
        ("Mate=g@eureka", "'Mate=g@eureka' is none of"),
        ("within=60s", "name at least one, as in mate=climate@eureka"),
        ("mate=g@eureka,mate=h@lens", "a job is in one group, not in g and h"),
        ("mate=g@eureka,mate=g@eureka", "one job in each domain; eureka twice"),
        ("mate=g@intrepid", "intrepid is this domain"),
        ("mate=g@mira", "domain 'mira' is not coupled; known: eureka, lens"),
        ("mate=g@eureka,within=60", "within: '60' is not a duration"),
        ("mate=g@eureka,within=8h,within=1h", "within is given twice"),
        ("mate=g@eureka,within=1000h", "within=1000h is longer than 7 days"),
        ("mate=g@eureka,within=1s,after=eureka", "within and after exclude each other"),
        ("mate=g@eureka,delay=1s", "delay needs after=DOMAIN"),
        ("mate=g@eureka,after=lens", "'lens', which starts first, is no domain"),
        ("mate=" + "g" * 64 + "@eureka", "is not GROUP@DOMAIN"),
        ("x" * 1025, "longer than 1024 characters"),
        ("mate=g\x1b[31m\n@eureka", "'g?[31m?@eureka' is not"),
    ],
)
def test_wrong_forms_are_one_line(text, problem):
    with pytest.raises(CoschedError) as caught:
        read_comment(f"cosched:{text}", "intrepid", OTHERS)
    line = str(caught.value)
    assert problem in line
    assert line.startswith("mates: ")
    assert "\n" not in line
    assert line.isprintable()


@given(st.text(max_size=80) | st.text("mategwithnfdly=@,.:0s ", max_size=60))
def test_any_text_has_mates_or_one_line(text):
    try:
        mates = parse_mates(text, "intrepid", OTHERS)
    except CoschedError as error:
        line = str(error)
    else:
        assert set(mates.domains) <= set(OTHERS)
        return
    assert line.isprintable()


@pytest.mark.parametrize(
    ("address", "most", "shown"),
    [
        ("812@e[1-4]", 40, "812@e[1-4]"),
        ("812@10.0.0.7,10.0.0.8", 20, "812@10.0.0.7"),
        ("812@e[1-2,5-6,8-9]", 18, "812@e[1-2,5-6]"),
        ("812@e[1-2],f[3-4]", 19, "812@e[1-2]"),
        ("812@a-very-long-name-of-a-node", 12, "812@"),
        ("812" * 20, 12, ""),
    ],
)
def test_address_that_is_too_long_ends_after_a_whole_node(address, most, shown):
    assert shown_mates([("b", address)], most) == f"b={shown}"


@given(
    st.lists(
        st.tuples(
            st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True),
            st.lists(st.integers(0, 10**9 - 1).map("n{}".format), max_size=60),
        ),
        min_size=1,
        max_size=16,
    )
)
def test_addresses_fit_and_name_whole_nodes(mates):
    addresses = [(domain, f"7@{','.join(nodes)}") for domain, nodes in mates]
    shown = shown_mates(addresses, 900)
    assert len(shown) <= 900
    for (domain, nodes), text in zip(mates, shown.split(" "), strict=True):
        kept = text.removeprefix(f"{domain}=7@")
        assert kept == ",".join(nodes[: len(kept.split(","))]) or kept == ""


def test_many_nodes_of_a_domain_of_cosched_are_shown():
    address = "7@" + ",".join(f"node{n}.cluster.example.org" for n in range(256))
    assert shown_mates([("b", address)]) == f"b={address}"
