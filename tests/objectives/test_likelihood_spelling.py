# SPDX-License-Identifier: Apache-2.0
"""Likelihoods as they are written: what is read, the one canonical spelling, and every refusal in
full.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unbraid.core.errors import InputError
from unbraid.objectives.likelihood_spelling import LIKELIHOODS, Spelling, read_likelihood


@pytest.mark.parametrize(
    ("text", "spelling", "weight"),
    [
        ("bernoulli", Spelling("bernoulli"), 0),
        ("laplace:scale=0.1", Spelling("laplace", scale=0.1), 0),
        ("gaussian:scale=learned", Spelling("gaussian", scale="learned"), 0),
        ("gaussian+box31", Spelling("gaussian", "box", 31), 3969),
        ("gaussian+gauss15", Spelling("gaussian", "gauss", 15), 961),
        ("bernoulli+box31:kappa=100", Spelling("bernoulli", "box", 31, kappa=100.0), 100),
        ("laplace+box7:scale=0.1,kappa=2", Spelling("laplace", "box", 7, scale=0.1, kappa=2.0), 2),
        ("gaussian:output=raw", Spelling("gaussian", raw_output=True), 0),
        ("gaussian+box1024:scale=1e+2", Spelling("gaussian", "box", 1024, scale=100.0), 2049**2),
    ],
)
def test_what_is_read(text, spelling, weight):
    assert read_likelihood(text) == spelling
    assert spelling.weight == weight


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("mse", "gaussian"),
        ("bce+box7", "bernoulli+box7"),
        (" MSE+Box31 : Kappa=3969 ", "gaussian+box31"),
        ("laplace:scale=1", "laplace"),
        ("gaussian:scale=1", "gaussian:scale=1"),
        ("laplace + box07 : kappa=2, scale=0.10", "laplace+box7:scale=0.1,kappa=2"),
        (
            "laplace+box7:kappa=2.5,scale=learned,output=raw",
            "laplace+box7:output=raw,scale=learned,kappa=2.5",
        ),
        ("gaussian:scale=0.3333333333333333", "gaussian:scale=0.3333333333333333"),
        ("bernoulli+gauss3:kappa=1e9", "bernoulli+gauss3:kappa=1000000000"),
    ],
)
def test_the_canonical_spelling(text, name):
    assert read_likelihood(text).name == name
    assert read_likelihood(name).name == name


@given(
    base=st.sampled_from(LIKELIHOODS),
    window=st.sampled_from(["", "box", "gauss"]),
    radius=st.integers(1, 1024),
    scale=st.one_of(st.none(), st.just("learned"), st.floats(1e-4, 1e4)),
    kappa=st.one_of(st.none(), st.floats(1e-9, 1e9)),
    raw_output=st.booleans(),
)
def test_every_name_is_read_back(base, window, radius, scale, kappa, raw_output):
    if base == "bernoulli":
        scale, raw_output = None, False
    spelling = Spelling(
        base, window, radius if window else 0, scale, kappa if window else None, raw_output
    )
    again = read_likelihood(spelling.name)
    assert (again.name, again.weight, again.raw_output) == (
        spelling.name,
        spelling.weight,
        spelling.raw_output,
    )
    assert again.scale == (None if (base, scale) == ("laplace", 1.0) else scale)


BLUR = "likelihood blur must be boxR or gaussR with a radius R in 1..1024"
PAPER = "The overlap loss of Michlo et al. is gaussian+box31."
SCALE = "likelihood scale must be learned, decoded or a number between 0.0001 and 10000"
PIXELS = "Pixels between 0 and 1 are usually given 0.1 to 1."
KAPPA = "likelihood kappa must be a number above 0 and at most 1e+09"
LEAVE = "Leave it out for the pixels in the window."


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "likelihood '' is unknown. Known: bernoulli, gaussian, laplace."),
        (
            "laplac:scale=0",
            (
                "likelihood 'laplac' is unknown; did you mean 'laplace'? Known: bernoulli,"
                " gaussian, laplace."
            ),
        ),
        ("+box31", "likelihood '' is unknown. Known: bernoulli, gaussian, laplace."),
        (
            3,
            (
                "likelihood must be a word; got 3. Examples: bernoulli, laplace:scale=0.1,"
                " gaussian+box31."
            ),
        ),
        ("gaussian+", f"{BLUR}; got ''. {PAPER}"),
        ("gaussian+box", f"{BLUR}; got 'box'. {PAPER}"),
        ("gaussian+box0", f"{BLUR}; got 'box0'. {PAPER}"),
        ("gaussian+box1025", f"{BLUR}; got 'box1025'. {PAPER}"),
        ("gaussian+box-3", f"{BLUR}; got 'box-3'. {PAPER}"),
        ("gaussian+disc3", f"{BLUR}; got 'disc3'. {PAPER}"),
        ("gaussian+box3+box5", f"{BLUR}; got 'box3+box5'. {PAPER}"),
        ("gaussian:scale=0", f"{SCALE}; got '0'. {PIXELS}"),
        ("gaussian:scale=-1", f"{SCALE}; got '-1'. {PIXELS}"),
        ("laplace:scale=nan", f"{SCALE}; got 'nan'. {PIXELS}"),
        ("laplace:scale=inf", f"{SCALE}; got 'inf'. {PIXELS}"),
        ("laplace:scale=1e-5", f"{SCALE}; got '1e-5'. {PIXELS}"),
        ("laplace:scale=wide", f"{SCALE}; got 'wide'. {PIXELS}"),
        ("laplace:scale=", f"{SCALE}; got ''. {PIXELS}"),
        ("gaussian+box3:kappa=0", f"{KAPPA}; got '0'. {LEAVE}"),
        ("gaussian+box3:kappa=2e9", f"{KAPPA}; got '2e9'. {LEAVE}"),
        ("gaussian+box3:kappa=learned", f"{KAPPA}; got 'learned'. {LEAVE}"),
        (
            "gaussian:kappa=2",
            (
                "likelihood kappa weighs a blurred copy, and this likelihood has no blur; got"
                " 'gaussian:kappa=2'. Add one, such as +box31."
            ),
        ),
        (
            "gaussian:output=tanh",
            (
                "likelihood output must be raw; got 'tanh'. Leave it out for a sigmoid where"
                " samples lie between 0 and 1."
            ),
        ),
        (
            "bernoulli:scale=0.1",
            (
                "likelihood scale is an option of gaussian and laplace only; got bernoulli with"
                " scale=0.1. Leave it out."
            ),
        ),
        (
            "bce:output=raw",
            (
                "likelihood output is an option of gaussian and laplace only; got bernoulli with"
                " output=raw. Leave it out."
            ),
        ),
        (
            "gaussian:scales=1",
            (
                "likelihood option 'scales' is unknown; did you mean 'scale'? Known: kappa, output,"
                " scale."
            ),
        ),
        (
            "gaussian:",
            "likelihood option must be written name=value; got ''. Known: kappa, output, scale.",
        ),
        (
            "gaussian:learned",
            (
                "likelihood option must be written name=value; got 'learned'. Known: kappa, output,"
                " scale."
            ),
        ),
        (
            "gaussian:scale=1,scale=2",
            "likelihood scale must be given once; got 'scale=1,scale=2'. Leave one out.",
        ),
        (
            "gaussian:scale=0.5+box31",
            (
                "likelihood blur must stand before the options; got 'gaussian:scale=0.5+box31'."
                " Write it as in gaussian+box31:scale=0.5."
            ),
        ),
        (
            "laplace+box0:scale=0,kappa=-1,width=3",
            (
                f"{BLUR}; got 'box0'. {PAPER}\n"
                "likelihood option 'width' is unknown. Known: kappa, output, scale.\n"
                f"{SCALE}; got '0'. {PIXELS}\n{KAPPA}; got '-1'. {LEAVE}"
            ),
        ),
    ],
)
def test_refusals(text, told):
    with pytest.raises(InputError) as found:
        read_likelihood(text)
    assert str(found.value) == told
