# SPDX-License-Identifier: Apache-2.0
"""Two models side by side in a browser, and how their latents are matched."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.stats import spearmanr

from .model_page import HOSTILE, assert_quiet, model, until, write_page

pytestmark = pytest.mark.browser

SHAPE = (16, 16, 1)


def two_models(**options: Any) -> list[dict[str, Any]]:
    """A and B share three of A's four active latents: one as it is, one turned round, one bent.

    The fourth of A, latent 5, is in no latent of B, and B's latent 3 in none of A.
    """
    draw = np.random.default_rng(4)
    sources, noise = draw.normal(size=(40, 4)), draw.normal(size=(40, 4))
    a = np.concatenate([noise[:, :2] * 0.1, sources], axis=1)
    b = np.stack(
        [
            noise[:, 0] * 0.1,
            noise[:, 1] * 0.1,
            -3 * sources[:, 1] + 1,  # latent 3 of A, turned round
            noise[:, 2],
            sources[:, 0] ** 3,  # latent 2 of A, bent
            sources[:, 2] + 0.8 * noise[:, 3],  # latent 4 of A, roughly
        ],
        axis=1,
    )
    return [model(codes=a, names={"3": "wide"}, **options), model(codes=b, seed=1, **options)]


@pytest.fixture
def shown(browser: Any, open_page: Any, tmp_path: Path) -> Callable[..., Any]:
    """Opens a page with two made-up models, or none, and waits for the first images."""

    def show(models: Any = None, width: int = 1280, **options: Any) -> Any:
        made = two_models() if models is None else models
        open_page(write_page(tmp_path, made, **options), width)
        browser.execute_async_script("stage.frame().then(arguments[0])")
        return browser

    return show


def cheapest(cost: np.ndarray) -> float:
    """The least sum over all assignments."""
    cost = cost if cost.shape[0] <= cost.shape[1] else cost.T
    ways = itertools.permutations(range(cost.shape[1]), cost.shape[0])
    return min(sum(cost[row, to] for row, to in enumerate(way)) for way in ways)


def test_the_assignment_is_the_cheapest_of_all(shown: Any) -> None:
    browser = shown([])
    draw = np.random.default_rng(0)
    sizes = [(1, 1), (1, 4), (4, 1), (3, 3), (5, 5), (3, 6), (6, 4), (6, 6)] * 4
    costs = [draw.normal(size=size).round(2) for size in sizes]
    costs += [np.zeros((4, 4)), draw.integers(0, 2, (5, 5)).astype(float)]
    script = "return arguments[0].map((cost) => unbraid.matching.hungarian(cost))"
    found = browser.execute_script(script, [cost.tolist() for cost in costs])
    for cost, pairs in zip(costs, found, strict=True):
        rows, columns = zip(*pairs, strict=True)
        assert len(pairs) == min(cost.shape) == len(set(rows)) == len(set(columns))
        assert sum(cost[row, to] for row, to in pairs) == pytest.approx(cheapest(cost))
    assert browser.execute_script("return unbraid.matching.hungarian([])") == []


def test_rank_correlations_are_scipys(shown: Any) -> None:
    browser = shown([])
    draw = np.random.default_rng(1)
    one = draw.normal(size=(50, 3))
    two = np.stack([one[:, 1] ** 3, draw.integers(0, 3, 50), -one[:, 0] + draw.normal(size=50)], 1)
    two = np.concatenate([two, np.full((50, 1), 2.0)], axis=1)
    script = (
        "const [one, two] = [...arguments].map((rows) =>"
        " ({ data: rows.flat(), shape: [rows.length, rows[0].length] }));"
        "return unbraid.matching.spearman(one, two, [2, 0, 1], [0, 1, 2, 3])"
    )
    found = np.asarray(browser.execute_script(script, one.tolist(), two.tolist()))
    for row, latent in enumerate([2, 0, 1]):
        expected = [spearmanr(one[:, latent], two[:, other]).statistic for other in range(3)]
        assert found[row] == pytest.approx([*expected, 0.0])  # constant codes go with nothing


def test_codes_of_partners_keep_their_place_among_all(shown: Any) -> None:
    browser = shown([])
    codes = np.random.default_rng(2).normal(size=(60, 1))
    script = (
        "const [from, to, sign, values] = arguments;"
        "const codes = (data) => ({ data, shape: [data.length, 1] });"
        "return values.map(unbraid.matching.partnerOf(codes(from), 0, codes(to), 0, sign))"
    )

    def partner(to: Any, sign: int, values: Any, of: Any = codes) -> list[float]:
        return browser.execute_script(script, of[:, 0].tolist(), to[:, 0].tolist(), sign, values)

    values = [*codes[:5, 0].tolist(), 0.1]
    assert partner(codes * 3 + 1, 1, values) == pytest.approx([3 * one + 1 for one in values])
    assert partner(codes * -3 + 1, -1, values) == pytest.approx([1 - 3 * one for one in values])
    bent = [one**3 for one in values[:5]]
    assert partner(codes**3, 1, values[:5]) == pytest.approx(bent)
    beyond = float(codes.max()) + 1.0
    assert partner(codes * 3, 1, [beyond]) == pytest.approx([3 * beyond])
    assert partner(codes * -3, -1, [beyond]) == pytest.approx([-3 * beyond])
    few = np.round(codes)  # a value shared by many images goes to the middle of their codes
    middle = float(np.median(codes[few == 0]))
    assert partner(codes, 1, [0.0], of=few) == pytest.approx([middle])
    assert partner(-codes, -1, [0.0], of=few) == pytest.approx([-middle])


def note(browser: Any, slot: str, latent: int) -> str:
    place = f"[data-slot='{slot}'] .latent-row[data-latent='{latent}'] .latent-note"
    return browser.find_element("css selector", place).text


def test_partners_are_found_and_told(shown: Any) -> None:
    browser = shown()
    lines = browser.execute_script(
        "return [...document.querySelectorAll('.link')].map((one) =>"
        " [Number(one.dataset.a), Number(one.dataset.b), Number(one.dataset.r),"
        "  one.querySelector('path').getAttribute('d')])"
    )
    pairs = {a: (b, r) for a, b, r, _ in lines}
    assert {a: b for a, (b, _) in pairs.items()} == {2: 4, 3: 2, 4: 5}
    assert pairs[2][1] == pytest.approx(1)
    assert pairs[3][1] == pytest.approx(-1)
    assert 0.5 < pairs[4][1] < 0.9
    assert all("NaN" not in path and path.startswith("M") for *_, path in lines)
    assert note(browser, "a", 3) == "↔ B 2, r −1.00"
    assert note(browser, "b", 4) == "↔ A 2, r 1.00"
    assert note(browser, "a", 5) == "only in A"
    assert note(browser, "b", 3) == "only in B"
    summary = browser.find_element("css selector", ".compare-summary").text
    assert summary.startswith(("2 of 4 latents of A have a partner", "3 of 4 latents"))
    assert summary.endswith("only in A: latent 5; only in B: latent 3.")
    matched = browser.find_elements("css selector", ".correlation-table .matched:not(.weak)")
    found = {(cell.get_attribute("data-a"), cell.get_attribute("data-b")) for cell in matched}
    assert found == {("2", "4"), ("3", "2"), ("4", "5")}
    assert len(browser.find_elements("css selector", ".correlation-table td.heat-cell")) == 16
    headings = [one.text for one in browser.find_elements("css selector", ".compare-column h3 bdi")]
    assert headings == [HOSTILE, "VAE, β = 1, seed 2"]
    assert_quiet(browser)


def test_lines_end_at_the_latents_that_they_join(shown: Any) -> None:
    browser = shown()
    off = browser.execute_script(
        "const box = document.querySelector('.compare-columns').getBoundingClientRect();"
        "return [...document.querySelectorAll('.link')].map((one) => {"
        " const ends = one.querySelector('path').getAttribute('d').match(/[-\\d.]+/g).map(Number);"
        " const middle = (slot, latent) => { const row = document.querySelector("
        "  `[data-slot='${slot}'] .latent-row[data-latent='${latent}']`).getBoundingClientRect();"
        "  const high = row.top + row.height / 2 - box.top;"
        "  return [row.left - box.left, row.right - box.left, high]; };"
        " const [a, b] = [middle('a', one.dataset.a), middle('b', one.dataset.b)];"
        " return [ends[0] - a[1] - 6, ends[1] - a[2], ends[6] - b[0] + 6, ends[7] - b[2]]; })"
    )
    assert len(off) == 3
    assert np.abs(off).max() < 1


def move(browser: Any, slot: str, latent: int, value: float) -> None:
    browser.execute_async_script(
        "const [slot, latent, value, done] = arguments; const slider = document.querySelector("
        " `[data-slot='${slot}'] .latent-slider[data-latent='${latent}']`);"
        "slider.value = value; slider.dispatchEvent(new Event('input')); stage.frame().then(done)",
        slot,
        latent,
        value,
    )


def codes(browser: Any, slot: str) -> dict[int, float]:
    script = (
        "return [...document.querySelectorAll(`[data-slot='${arguments[0]}'] .latent-value`)].map("
        "(one) => [Number(one.closest('.latent-row').dataset.latent), Number(one.dataset.value)])"
    )
    return dict(browser.execute_script(script, slot))


def test_a_matched_latent_takes_its_partner_along(shown: Any) -> None:
    browser = shown()
    a, b = codes(browser, "a"), codes(browser, "b")
    move(browser, "a", 3, 0.5)
    at = codes(browser, "a")[3]
    assert at == pytest.approx(0.5, abs=0.05)
    assert codes(browser, "b") == pytest.approx({**b, 2: 1 - 3 * at}, abs=1e-3)  # turned round
    move(browser, "b", 4, 0.3)
    assert codes(browser, "a")[2] == pytest.approx(codes(browser, "b")[4] ** (1 / 3), abs=0.1)
    before = codes(browser, "b")
    move(browser, "a", 5, 0.4)  # only in A
    assert codes(browser, "b") == before
    browser.find_element("css selector", ".link-latents").click()
    move(browser, "a", 3, -0.5)
    assert codes(browser, "b") == before
    assert codes(browser, "a")[3] != at
    assert a[3] != at


def differences(browser: Any) -> dict[str, float]:
    return dict(
        browser.execute_script(
            "return [...document.querySelectorAll('.stage-words[data-value]')].map((one) =>"
            " [one.dataset.part, Number(one.dataset.value)])"
        )
    )


def expected(browser: Any, pixels: str, code_a: str, code_b: str) -> dict[str, float]:
    """Mean absolute differences by the networks themselves."""
    return browser.execute_script(
        f"const input = {pixels}; const [a, b] = stage.plain.map((one) => one.network);"
        f"const [one, two] = [Float32Array.from(a.decode({code_a})),"
        f" Float32Array.from(b.decode({code_b}))];"
        "const mean = (x, y) => x.reduce((sum, v, at) => sum + Math.abs(v - y[at]), 0) / x.length;"
        "return {'a-b': mean(one, two), 'a-input': mean(one, input), 'b-input': mean(two, input)}"
    )


@pytest.mark.parametrize("shape", [SHAPE, (12, 14, 3)])
def test_both_rebuild_one_input_and_differences_are_told(shown: Any, shape: Any) -> None:
    browser = shown(two_models(shape=shape), shape=shape)
    browser.execute_script("document.querySelector('.pair[data-sample=\"6\"]').click()")
    browser.execute_async_script("stage.frame().then(arguments[0])")
    row = "stage.plain[{}].arrays.codes.data.slice(36, 42)"
    wanted = expected(browser, "given.pixels[6]", row.format(0), row.format(1))
    assert differences(browser) == pytest.approx(wanted, abs=1e-5)
    told = browser.find_element("css selector", ".stage-words[data-part='a-b']").text
    assert told == f"mean {wanted['a-b']:.3f}"
    for slot, which in (("a", 0), ("b", 1)):
        off = browser.execute_script(
            f"return stage.off(document.querySelector(\"canvas[data-part='{slot}']\"),"
            f" stage.expected({which}, {row.format(which)}))"
        )
        assert off == 0
    seen = browser.find_element("css selector", ".stage-words[data-part='input']").text
    assert seen == "sample 6"
    assert_quiet(browser)


def test_differences_are_colours_from_black(shown: Any) -> None:
    made = model()
    browser = shown([made, made])
    painted = (
        "const canvas = document.querySelector(`canvas[data-part='${arguments[0]}']`);"
        "return [...canvas.getContext('2d').getImageData(0, 0, 16, 16).data]"
    )
    same = np.asarray(browser.execute_script(painted, "a-b")).reshape(-1, 4)
    assert (same == [0, 0, 4, 255]).all()
    assert differences(browser)["a-b"] == 0
    other = np.asarray(browser.execute_script(painted, "a-input")).reshape(-1, 4)
    assert len(np.unique(other, axis=0)) > 20
    ends = browser.execute_script(
        "const canvas = document.createElement('canvas'); [canvas.width, canvas.height] = [2, 1];"
        "unbraid.ui.paintDifferences(canvas, [0, 0.5], 0.5);"
        "return [...canvas.getContext('2d').getImageData(0, 0, 2, 1).data]"
    )
    assert ends == [0, 0, 4, 255, 252, 253, 191, 255]
    summary = browser.find_element("css selector", ".compare-summary").text
    assert summary == "4 of 4 latents of A have a partner in B (|r| > 0.8)."


def test_an_own_image_and_factors_go_to_both(shown: Any, tmp_path: Path) -> None:
    browser = shown()
    Image.fromarray(np.full((16, 16), 255, dtype=np.uint8)).save(tmp_path / "white.png")
    place = browser.find_element("css selector", ".own-image-file")
    place.send_keys(str(tmp_path / "white.png"))
    words = until(browser, "return document.querySelector('.own-image-words').textContent")
    assert words.startswith("A: Its code is")
    assert " B: Its code is " in words
    browser.execute_async_script("stage.frame().then(arguments[0])")
    white = "new Float32Array(256).fill(1)"
    code = f"stage.plain[{{}}].network.encode({white}).mean.slice()"
    wanted = expected(browser, white, code.format(0), code.format(1))
    assert differences(browser) == pytest.approx(wanted, abs=1e-4)
    browser.execute_script(
        "const slider = document.querySelector('.factor-slider'); slider.value = 2;"
        "slider.dispatchEvent(new Event('input'))"
    )
    until(
        browser,
        "return document.querySelector(`.stage-words[data-part='input']`).textContent"
        " === 'the image with these factors'",
    )
    assert browser.execute_async_script("stage.hand('drop', document.body, 0).then(arguments[0])")
    told = "return document.querySelector(`.stage-words[data-part='input']`).textContent"
    until(browser, f"{told} === 'drop.png'")


def test_a_dropped_image_goes_to_every_view_that_is_shown(shown: Any) -> None:
    browser = shown()
    browser.execute_script(
        "const other = document.createElement('section'); other.id = 'other';"
        "document.querySelector('main').prepend(other);"
        "unbraid.modelView(other, stage.context).show(stage.models[0], '0', 'alone')"
    )
    hand = "stage.hand('drop', document.body, 0, arguments[0]).then(arguments[1])"
    say = "return [...document.querySelectorAll('.input-words, [data-part=input].stage-words')]"
    for name in ("first.png", "second.png"):
        assert browser.execute_async_script(hand, name)
        until(browser, f"{say}.every((one) => one.textContent.startsWith(arguments[0]))", name)
        browser.execute_script("stage.view.clear()")
    assert len(browser.execute_script(say)) == 1


def test_a_name_given_here_is_the_models(shown: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    browser = shown()
    row = browser.find_element("css selector", "[data-slot='b'] .latent-row[data-latent='3']")
    row.find_element("css selector", ".latent-rename").click()
    row.find_element("css selector", ".latent-name-input").send_keys(HOSTILE[:40], Keys.ENTER)
    until(browser, "return stage.renamed.length")
    assert browser.execute_script("return stage.renamed") == [["1", 3, HOSTILE[:40].rstrip()]]
    summary = browser.find_element("css selector", ".compare-summary")
    assert summary.text.endswith(f"only in B: latent 3 ({HOSTILE[:40].strip()}).")
    assert_quiet(browser)


def test_a_model_that_cannot_run_is_shown_by_its_strips(shown: Any) -> None:
    browser = shown([two_models()[0], two_models(runs=False)[1]])
    note_text = browser.find_element("css selector", ".stored-only").text
    assert note_text.startswith("Model B cannot run in the page")
    move(browser, "a", 3, 0.5)
    slider = browser.find_element("css selector", "[data-slot='b'] .latent-slider[data-latent='2']")
    low, high = (float(slider.get_attribute(end)) for end in ("min", "max"))
    wanted = (1 - 3 * codes(browser, "a")[3] - low) / (high - low) * 10
    frame = (codes(browser, "b")[2] - low) / (high - low) * 10
    assert frame == pytest.approx(round(wanted), abs=1e-4)
    assert_quiet(browser)


@pytest.mark.parametrize(("latents", "active"), [(1, 1), (4, 0), (64, 64)])
def test_unusual_models_fit_a_phone(shown: Any, latents: int, active: int) -> None:
    made = [model(latents=latents, active=active, seed=seed, factors=()) for seed in (0, 1)]
    browser = shown(made, width=390, factors=())
    assert_quiet(browser)
    summary = browser.find_element("css selector", ".compare-summary").text
    assert ("there is nothing to match" in summary) == (active == 0)
    assert not browser.find_element("css selector", ".compare-links").is_displayed()
    assert len(browser.find_elements("css selector", ".correlation-table .matched")) == active
    browser.execute_script("stage.view.clear(); stage.view.redraw()")
    assert browser.execute_script("return document.getElementById('view').childNodes.length") == 0
