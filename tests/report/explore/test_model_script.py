# SPDX-License-Identifier: Apache-2.0
"""The view of one model in a browser: hands, strips, tables, inputs and curves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from .model_page import assert_quiet, model, until, write_page

pytestmark = pytest.mark.browser

LIVE = "document.querySelector('.live-image')"


@pytest.fixture
def shown(browser: Any, open_page: Any, tmp_path: Path) -> Callable[..., Any]:
    """Opens a page with made-up models and waits for the first image."""

    def show(*models: Any, width: int = 1280, **options: Any) -> Any:
        open_page(write_page(tmp_path, models or [model()], **options), width)
        browser.execute_async_script("stage.frame().then(arguments[0])")
        return browser

    return show


def move(browser: Any, latent: int, value: float, event: str = "input") -> list[Any]:
    """Moves a slider and returns, after a frame, codes and how far the image is from decode."""
    return browser.execute_async_script(
        "const [latent, value, event, done] = arguments;"
        "const slider = document.querySelector(`.latent-slider[data-latent='${latent}']`);"
        "slider.value = value; slider.dispatchEvent(new Event(event, { bubbles: true }));"
        "stage.frame().then(() => { const codes = new Map(stage.codes());"
        " const code = stage.plain[0].arrays.typical.data.map((_, at) => codes.get(at));"
        f" const wrong = stage.off({LIVE}, stage.expected(0, code));"
        " done([Number(slider.value), [...code], wrong]); })",
        latent,
        value,
        event,
    )


def off(browser: Any) -> int:
    """How far the live image is from the decoded code that the sliders tell."""
    return browser.execute_script(
        "const codes = new Map(stage.codes()); const code = [...codes.keys()].sort((a, b) => a - b)"
        f".map((one) => codes.get(one)); return stage.off({LIVE}, stage.expected(0, code))"
    )


def codes(browser: Any) -> dict[int, float]:
    return dict(browser.execute_script("return stage.codes()"))


@pytest.mark.parametrize("shape", [(16, 16, 1), (12, 10, 3)])
def test_a_dragged_slider_repaints_exactly_what_is_decoded(shown: Any, shape: Any) -> None:
    browser = shown(model(shape=shape), shape=shape)
    before = browser.execute_script(f"return stage.painted({LIVE})")
    assert off(browser) == 0
    for latent, value in [(5, 0.7), (3, -1.1), (5, -0.2)]:
        at, code, wrong = move(browser, latent, value)
        assert wrong == 0
        assert code[latent] == pytest.approx(at) == pytest.approx(value, abs=0.05)
    assert browser.execute_script(f"return stage.painted({LIVE})") != before
    assert browser.execute_script(f"return [{LIVE}.width, {LIVE}.height]") == [shape[1], shape[0]]
    assert_quiet(browser)


def test_many_moves_in_one_frame_are_decoded_once(shown: Any) -> None:
    browser = shown(model(factors=()), samples=0)
    until(browser, "return !document.querySelector('.strip-row[aria-busy=true]')")
    count = browser.execute_async_script(
        "const done = arguments[0]; const before = stage.decodes;"
        "const slider = document.querySelector('.latent-slider[data-latent=\"5\"]');"
        "for (let at = 0; at < 30; at += 1) { slider.value = at / 30;"
        " slider.dispatchEvent(new Event('input')); }"
        "const atOnce = stage.decodes - before;"
        "stage.frame().then(() => done([atOnce, stage.decodes - before]))"
    )
    assert count == [0, 1]


def test_sliders_come_in_order_of_size_and_unused_latents_are_folded(shown: Any) -> None:
    browser = shown(model(latents=9, active=3))
    order = "return [...document.querySelectorAll(arguments[0])].map((one) => one.dataset.latent)"
    panel = ".latent-panel > .latent-rows > .latent-row"
    assert browser.execute_script(order, panel) == ["8", "7", "6"]
    folded = browser.find_element("css selector", ".unused-latents")
    assert folded.text == "6 unused latents"
    slider = browser.find_element("css selector", ".latent-slider[data-latent='0']")
    assert not slider.is_displayed()
    browser.execute_script("arguments[0].firstChild.click()", folded)
    assert slider.is_displayed()
    assert "3.60 nats" in browser.find_element("css selector", panel).text


def test_reset_returns_to_the_typical_code(shown: Any) -> None:
    browser = shown()
    typical = codes(browser)
    for latent in (5, 4, 3):
        move(browser, latent, 1.0)
    browser.execute_script("document.querySelector('.latent-reset[data-latent=\"5\"]').click()")
    assert codes(browser)[5] == typical[5]
    assert codes(browser)[4] != typical[4]
    slider = browser.find_element("css selector", ".latent-slider[data-latent='4']")
    browser.execute_script("arguments[0].dispatchEvent(new Event('dblclick'))", slider)
    assert codes(browser)[4] == typical[4]
    browser.find_element("css selector", ".typical-code").click()
    assert codes(browser) == typical
    browser.execute_async_script("stage.frame().then(arguments[0])")
    assert off(browser) == 0


def test_the_keyboard_moves_a_slider_by_a_hundredth(shown: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    browser = shown()
    slider = browser.find_element("css selector", ".latent-slider[data-latent='5']")
    at = float(slider.get_property("value"))
    span = float(slider.get_attribute("max")) - float(slider.get_attribute("min"))
    slider.send_keys(Keys.ARROW_RIGHT)
    browser.execute_async_script("stage.frame().then(arguments[0])")
    assert codes(browser)[5] == pytest.approx(at + span / 100, abs=span / 1e4)
    assert off(browser) == 0


def strips_off(browser: Any) -> int:
    """How far any frame of any strip is from the image that it should show."""
    return browser.execute_script(
        "const codes = new Map(stage.codes()); let most = 0;"
        "for (const one of document.querySelectorAll('.strip-frame')) {"
        " const latent = Number(one.dataset.latent); const slider = document.querySelector("
        "  `.latent-slider[data-latent='${latent}']`);"
        " const code = [...codes.keys()].sort((a, b) => a - b).map((at) => codes.get(at));"
        " const [low, high] = [Number(slider.min), Number(slider.max)];"
        " code[latent] = low + (high - low) * one.dataset.frame / 8;"
        " most = Math.max(most, stage.off(one.firstChild, stage.expected(0, code))); }"
        "return most"
    )


def test_strips_show_decoded_images_and_follow_a_released_slider(shown: Any) -> None:
    browser = shown()
    idle = "return !document.querySelector('.strip-row:not([aria-busy=false])')"
    until(browser, idle)
    assert len(browser.find_elements("css selector", ".strip-frame")) == 4 * 9
    assert strips_off(browser) <= 1  # codes are told in as many digits as text has
    move(browser, 5, 1.5)
    assert strips_off(browser) > 1  # the hand has not let go
    move(browser, 5, 1.5, "change")
    until(browser, idle)
    assert strips_off(browser) <= 1
    frame = browser.find_element("css selector", ".strip-frame[data-latent='4'][data-frame='8']")
    browser.execute_script("arguments[0].click()", frame)
    slider = browser.find_element("css selector", ".latent-slider[data-latent='4']")
    assert float(slider.get_property("value")) == pytest.approx(float(slider.get_attribute("max")))
    assert frame.get_attribute("data-current") is not None


def test_strips_wait_while_a_slider_moves(shown: Any) -> None:
    browser = shown()
    until(browser, "return !document.querySelector('.strip-row:not([aria-busy=false])')")
    waiting = browser.execute_async_script(
        "const done = arguments[0];"
        "const slider = document.querySelector('.latent-slider[data-latent=\"5\"]');"
        "const tell = (event) => slider.dispatchEvent(new Event(event));"
        "slider.value = 1; tell('input'); tell('change');"
        "requestAnimationFrame(() => { tell('input');"
        " setTimeout(() => done(document.querySelectorAll('.strip-row[aria-busy=true]').length),"
        "  400); })"
    )
    assert waiting == 3  # its own strip does not depend on it
    move(browser, 5, 1.0, "change")
    until(browser, "return !document.querySelector('.strip-row:not([aria-busy=false])')")
    assert strips_off(browser) <= 1


def test_strips_of_many_latents_wait_folded(shown: Any) -> None:
    browser = shown(model(latents=64, active=64), width=390)
    assert_quiet(browser)
    more = browser.find_element("css selector", ".strips-more")
    assert more.text == "52 more latents"
    assert not browser.execute_script("return arguments[0].querySelector('[aria-busy]')", more)
    browser.execute_script("arguments[0].open = true", more)
    until(browser, "return arguments[0].querySelectorAll('[aria-busy=false]').length === 52", more)


def test_a_latent_is_named(shown: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    browser = shown()
    name = '<b>wide</b> & "more"'
    row = browser.find_element("css selector", ".latent-row[data-latent='5']")

    def typed(*keys: str) -> None:
        row.find_element("css selector", ".latent-rename").click()
        row.find_element("css selector", ".latent-name-input").send_keys(*keys)

    typed("never kept", Keys.ESCAPE)
    assert browser.execute_script("return stage.renamed") == []
    assert row.find_element("css selector", ".latent-title").text == "latent 5"
    typed(name, Keys.ENTER)
    until(browser, "return arguments[0].querySelector('.latent-title').offsetParent", row)
    assert browser.execute_script("return stage.renamed") == [["0", 5, name]]
    assert name in row.find_element("css selector", ".latent-title").text
    for place in (".strip-row[data-latent='5'] strong", "th[data-latent='5']"):
        assert browser.find_element("css selector", place).text == name
    label = row.find_element("css selector", ".latent-slider").get_attribute("aria-label")
    assert label == f"latent 5, {name}"
    browser.execute_script("stage.refuse = 'the name is too odd.'")
    typed("odd", Keys.ENTER)
    until(browser, "return arguments[0].querySelector('.latent-error').textContent", row)
    assert (
        row.find_element("css selector", ".latent-error").text
        == "The name was not kept: the name is too odd."
    )
    assert name in browser.find_element("css selector", ".strip-row[data-latent='5']").text
    assert_quiet(browser)


def test_the_table_of_information(shown: Any) -> None:
    made = model()
    browser = shown(made)
    table = browser.find_element("css selector", ".information-table")
    heads = [one.text for one in table.find_elements("css selector", "thead th")]
    assert heads == ["x", "shape", "still\nconstant"]
    first = table.find_elements("css selector", "tbody tr")[0]
    values = made["arrays"]["information"]["data"][-3:-1]
    assert first.text.split("latent 5 ")[1] == f"{values[0]:.2f} {values[1]:.2f} –"
    assert table.find_element("css selector", ".unused-rows").get_property("hidden")
    browser.find_element("css selector", ".unused-toggle").click()
    rows = table.find_elements("css selector", "tr")
    assert [row.is_displayed() for row in rows] == [True] * 7


def test_reconstructions_and_their_differences(shown: Any) -> None:
    browser = shown()
    until(browser, "return document.querySelector('.pairs-mean').textContent")
    found = browser.execute_script(
        "const [{ network, arrays }] = stage.plain; const { data, shape } = arrays.codes;"
        "return [...document.querySelectorAll('.pair')].map((one) => {"
        " const sample = Number(one.dataset.sample); const pixels = given.pixels[sample];"
        " const code = data.slice(sample * shape[1], (sample + 1) * shape[1]);"
        " const decoded = network.decode(code);"
        " const sum = pixels.reduce((all, one, at) => all + Math.abs(one - decoded[at]), 0);"
        " return [stage.off(one.children[1], stage.expected(0, code)),"
        "  Number(one.children[2].dataset.value) - sum / pixels.length]; })"
    )
    assert len(found) == 12
    assert max(wrong for wrong, _ in found) == 0
    assert max(abs(difference) for _, difference in found) < 1e-5
    browser.execute_script("document.querySelector('.pair[data-sample=\"3\"]').click()")
    browser.execute_async_script("stage.frame().then(arguments[0])")
    expected = browser.execute_script("return [...stage.plain[0].arrays.codes.data.slice(18, 24)]")
    assert [codes(browser)[latent] for latent in range(6)] == pytest.approx(expected)
    shown_words = browser.find_element("css selector", ".input-words").text
    three = browser.find_element("css selector", ".pair[data-sample='3'] .pair-difference").text
    assert shown_words == f"sample 3 and this image differ by {three} on average."


def encoded(browser: Any, pixels: Any) -> list[float]:
    script = "return [...stage.plain[0].network.encode(Float32Array.from(arguments[0])).mean]"
    return browser.execute_script(script, np.asarray(pixels).ravel().tolist())


@pytest.mark.parametrize("channels", [1, 3])
def test_an_image_of_ones_own(shown: Any, tmp_path: Path, channels: int) -> None:
    shape = (16, 16, channels)
    browser = shown(model(shape=shape), shape=shape)
    # Wider than high: the middle counts, and every pixel of the page's image is one colour in it.
    colours = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    wide = np.zeros((64, 96, 3), dtype=np.uint8)
    wide[:, 16:80] = colours.repeat(4, axis=0).repeat(4, axis=1)
    Image.fromarray(wide).save(tmp_path / "own <b>.png")
    browser.find_element("css selector", ".own-image-file").send_keys(str(tmp_path / "own <b>.png"))
    words = until(browser, "return document.querySelector('.own-image-words').textContent")
    browser.execute_async_script("stage.frame().then(arguments[0])")
    grey = colours @ np.array([0.299, 0.587, 0.114])
    expected = (grey[:, :, None] if channels == 1 else colours) / 255
    seen = browser.execute_script("return stage.painted(document.querySelector('.input-image'))")
    assert np.abs(np.asarray(seen) - expected.ravel() * 255).max() <= 1.5
    wanted = encoded(browser, expected)
    assert [codes(browser)[latent] for latent in range(6)] == pytest.approx(wanted, abs=0.02)
    assert off(browser) == 0
    assert words.startswith("Its code is ")
    assert "standard deviations" in words
    assert "own <b>.png" in browser.find_element("css selector", ".input-words").text
    browser.execute_script("document.querySelector('.own-image-invert').click()")
    inverted = encoded(browser, 1 - expected)
    assert [codes(browser)[latent] for latent in range(6)] == pytest.approx(inverted, abs=0.02)
    assert_quiet(browser)


def test_what_is_no_image_is_refused_in_words(shown: Any, tmp_path: Path) -> None:
    browser = shown()
    before = codes(browser)
    (tmp_path / "notes.txt").write_text("words")
    (tmp_path / "broken.png").write_bytes(b"\x89PNG and nothing")
    for name, words in (("notes.txt", "is not an image"), ("broken.png", "is no image that")):
        place = browser.find_element("css selector", ".own-image-file")
        place.send_keys(str(tmp_path / name))
        until(
            browser,
            "return document.querySelector('.own-image-error').textContent.includes(arguments[0])",
            f"“{name}” {words}",
        )
    assert codes(browser) == before
    assert browser.find_element("css selector", ".own-image-error").is_displayed()
    browser.execute_script("document.querySelector('.pair[data-sample=\"3\"]').click()")
    assert not browser.find_element("css selector", ".own-image-error").is_displayed()
    assert_quiet(browser)


HAND = (
    "const [kind, place, level, done] = arguments;"
    "stage.hand(kind, document.querySelector(place), level).then(done)"
)


@pytest.mark.parametrize("place", [".live-image", "body"])
def test_an_image_can_be_dropped_and_pasted(shown: Any, place: str) -> None:
    browser = shown()
    for kind, level in (("drop", 255), ("paste", 0)):
        assert browser.execute_async_script(HAND, kind, place, level)
        until(
            browser,
            "return document.querySelector('.input-words').textContent.includes(arguments[0])",
            f"{kind}.png",
        )
        wanted = encoded(browser, np.full(256, level / 255))
        assert [codes(browser)[latent] for latent in range(6)] == pytest.approx(wanted, abs=1e-4)


def test_no_dropped_file_leads_away_from_the_page(shown: Any) -> None:
    browser = shown()
    over = "return document.querySelector('.own-image').classList.contains('over')"
    assert browser.execute_async_script(HAND, "dragover", "body", 0)
    assert browser.execute_script(over)
    browser.execute_script("document.body.dispatchEvent(new DragEvent('dragleave'))")
    before = codes(browser)
    browser.execute_script("document.getElementById('view').hidden = true")
    for kind in ("dragover", "drop"):
        assert browser.execute_async_script(HAND, kind, "body", 255)
    browser.execute_script("document.getElementById('view').hidden = false")
    assert not browser.execute_script(over)
    assert codes(browser) == before  # what is not seen takes nothing
    browser.execute_script("stage.view.clear()")
    assert browser.execute_async_script(HAND, "drop", "body", 255)
    words = (
        "const field = document.body.appendChild(document.createElement('input'));"
        "const data = new DataTransfer(); data.setData('text/plain', 'a name');"
        "const drop = (place) => { const event = new DragEvent('drop',"
        " { dataTransfer: data, bubbles: true, cancelable: true });"
        " place.dispatchEvent(event); return event.defaultPrevented; };"
        "return [drop(field), drop(document.body)]"
    )
    assert browser.execute_script(words) == [False, True]
    assert_quiet(browser)


SLOW_IMAGES = (
    "stage.read = window.createImageBitmap.bind(window); stage.waiting = [];"
    "window.createImageBitmap = (file) =>"
    " new Promise((go) => stage.waiting.push(() => go(stage.read(file))));"
)
SAY = "return document.querySelector('.input-words').textContent"


def test_the_last_of_two_images_counts_however_long_the_first_takes(shown: Any) -> None:
    browser = shown()
    browser.execute_script(SLOW_IMAGES)
    hand = (
        "const [name, done] = arguments; const place = document.querySelector('.live-image');"
        "stage.hand('drop', place, 0, name).then(done)"
    )
    for name in ("first.png", "second.png"):
        browser.execute_async_script(hand, name)
    assert browser.execute_script("stage.waiting[1](); return stage.waiting.length") == 2
    until(browser, f"{SAY}.startsWith('second.png')")
    browser.execute_script("stage.waiting[0]()")
    browser.execute_async_script("setTimeout(arguments[0], 100)")
    assert browser.execute_script(SAY).startswith("second.png")


@pytest.mark.parametrize("readable", [True, False])
def test_an_image_that_comes_late_does_not_replace_a_sample(shown: Any, readable: bool) -> None:
    browser = shown()
    browser.execute_script(SLOW_IMAGES)
    browser.execute_async_script(HAND, "drop", "body", 0)
    browser.execute_script("document.querySelector('.pair[data-sample=\"3\"]').click()")
    if not readable:
        browser.execute_script("stage.read = () => Promise.reject('no')")
    browser.execute_script("stage.waiting[0]()")
    browser.execute_async_script("setTimeout(arguments[0], 100)")
    assert browser.execute_script(SAY).startswith("sample 3")
    assert not browser.find_element("css selector", ".own-image-error").is_displayed()


@pytest.mark.parametrize("other", [".pair[data-sample='3']", ".random-code"])
def test_factors_that_come_late_do_not_replace_what_was_chosen(shown: Any, other: str) -> None:
    browser = shown()
    browser.execute_script(
        "stage.slow = new Promise((done) => { stage.go = done; });"
        "const slider = document.querySelector('.factor-slider');"
        "for (const value of [1, 6]) {"
        " slider.value = value; slider.dispatchEvent(new Event('input')); }"
    )
    assert browser.execute_script("return stage.asked") == [1, 1, 0]
    browser.execute_script("document.querySelector(arguments[0]).click()", other)
    browser.execute_async_script("stage.frame().then(arguments[0])")
    said, before = browser.execute_script(SAY), codes(browser)
    browser.execute_script("stage.go()")
    browser.execute_async_script("setTimeout(arguments[0], 50)")
    assert browser.execute_script(SAY) == said
    assert codes(browser) == before
    assert browser.execute_script("return stage.asked") == [1, 1, 0]  # nor is the next asked for
    browser.execute_script(
        "document.querySelector('.factor-slider').dispatchEvent(new Event('input'))"
    )
    until(browser, f"{SAY}.includes('the image with these factors')")


def test_a_factor_of_many_values_is_shown_by_number(shown: Any) -> None:
    factors = [
        {"name": "orientation", "size": 300, "values": []},
        {"name": "kind", "size": 3, "values": []},
    ]
    browser = shown(factors=factors)
    sliders = browser.find_elements("css selector", ".factor-slider")
    assert [one.get_attribute("max") for one in sliders] == ["299", "2"]
    browser.execute_script("document.querySelector('.pair[data-sample=\"3\"]').click()")
    values = browser.find_elements("css selector", ".factor-value")
    assert [one.text for one in values] == ["296", "2"]
    assert [one.get_property("value") for one in sliders] == ["296", "2"]
    browser.execute_script(
        "arguments[0].value = 280; arguments[0].dispatchEvent(new Event('input'))", sliders[0]
    )
    until(browser, "return stage.asked && stage.asked.join() === '280,2'")


def test_factors_choose_the_input(shown: Any) -> None:
    browser = shown()
    rows = browser.find_elements("css selector", ".factor-row")
    assert [row.text.split("\n")[0] for row in rows] == ["x", "shape"]  # one value is no choice
    browser.execute_script(
        "const slider = document.querySelector('.factor-slider'); slider.value = 6;"
        "slider.dispatchEvent(new Event('input'));"
        "const choice = document.querySelector('.factor-choice'); choice.value = 2;"
        "choice.dispatchEvent(new Event('change'))"
    )
    until(browser, "return stage.asked && stage.asked.join() === '6,2,0'")
    browser.execute_async_script("stage.frame().then(arguments[0])")
    wanted = encoded(browser, browser.execute_script("return given.pixels[0]"))
    assert [codes(browser)[latent] for latent in range(6)] == pytest.approx(wanted, abs=1e-4)
    assert off(browser) == 0
    browser.execute_script(
        "stage.refuse = 'the server is gone.';"
        "document.querySelector('.factor-slider').dispatchEvent(new Event('input'))"
    )
    error = until(browser, "return document.querySelector('.factor-sliders .problem').textContent")
    assert error == "There is no image with these factors: the server is gone."


def test_random_images_and_draws(shown: Any) -> None:
    browser = shown()
    browser.execute_script("Math.random = () => 0.37")
    browser.find_element("css selector", ".random-image").click()
    browser.execute_async_script("stage.frame().then(arguments[0])")
    expected = browser.execute_script("return [...stage.plain[0].arrays.codes.data.slice(42, 48)]")
    assert [codes(browser)[latent] for latent in range(6)] == pytest.approx(expected)
    assert "sample 7" in browser.find_element("css selector", ".input-words").text
    browser.find_element("css selector", ".random-code").click()
    normal = (-2 * np.log(0.63)) ** 0.5 * np.cos(2 * np.pi * 0.37)
    assert [codes(browser)[latent] for latent in range(6)] == pytest.approx([normal] * 6)
    assert browser.find_element("css selector", ".input-words").text.startswith("No input")


def test_a_network_that_cannot_run_shows_its_strips(shown: Any) -> None:
    made = model(runs=False)
    browser = shown(made)
    until(browser, "return document.querySelectorAll('.strip-row[aria-busy=false]').length === 4")
    assert "cannot run in the page" in browser.find_element("css selector", ".stored-only").text
    strips = np.asarray(made["arrays"]["strips"]["data"]).reshape(6, 11, -1)
    for frame in (0, 7):
        painted = browser.execute_script(
            "return stage.painted(document.querySelector(`.strip-frame[data-latent='4']"
            "[data-frame='${arguments[0]}'] canvas`))",
            frame,
        )
        assert painted == strips[4, frame].tolist()
    slider = browser.find_element("css selector", ".latent-slider[data-latent='4']")
    low, high = (float(slider.get_attribute(end)) for end in ("min", "max"))
    browser.execute_async_script(
        "const [slider, value, done] = arguments; slider.value = value;"
        "slider.dispatchEvent(new Event('input')); stage.frame().then(done)",
        slider,
        low + 0.72 * (high - low),
    )
    assert codes(browser)[4] == pytest.approx(low + 0.7 * (high - low), abs=1e-4)
    assert browser.execute_script(f"return stage.painted({LIVE})") == strips[4, 7].tolist()
    typical = made["arrays"]["typical"]["data"]
    frame = browser.find_element("css selector", ".strip-frame[data-latent='5'][data-frame='10']")
    browser.execute_script("arguments[0].click()", frame)
    browser.execute_async_script("stage.frame().then(arguments[0])")
    assert codes(browser)[4] == pytest.approx(typical[4])  # strips move one latent at a time
    assert browser.execute_script(f"return stage.painted({LIVE})") == strips[5, 10].tolist()
    assert not browser.find_elements("css selector", ".own-image, .random-code, .pairs")
    assert_quiet(browser)


def test_curves_are_drawn_and_tell_their_values(shown: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    browser = shown()
    charts = browser.find_elements("css selector", ".curve")
    assert [one.get_attribute("data-quantity") for one in charts] == ["loss", "kl"]
    paths = [one.find_element("css selector", ".curve-line").get_attribute("d") for one in charts]
    assert [path.count("M") for path in paths] == [1, 2]  # what is missing breaks a line
    assert [path.count("M") + path.count("L") for path in paths] == [40, 37]
    toggles = [len(one.find_elements("css selector", ".curve-log")) for one in charts]
    assert toggles == [1, 0]
    charts[0].find_element("css selector", ".curve-log").click()
    assert charts[0].find_element("css selector", ".curve-line").get_attribute("d") != paths[0]
    charts[0].find_element("css selector", "svg").send_keys(Keys.HOME)
    assert charts[0].find_element("css selector", ".curve-value").text == "920 at step 0"
    browser.execute_script(
        "const box = arguments[0].getBoundingClientRect();"
        "const at = { clientX: box.right, clientY: box.top };"
        "arguments[0].dispatchEvent(new PointerEvent('pointermove', at))",
        charts[1].find_element("css selector", "svg"),
    )
    assert charts[1].find_element("css selector", ".curve-value").text == "5.93 at step 3,900"


@pytest.mark.parametrize(
    ("latents", "active", "shape"), [(1, 1, (28, 28, 1)), (5, 0, (16, 16, 3)), (3, 2, (64, 64, 3))]
)
def test_unusual_models_fit_a_phone(shown: Any, latents: int, active: int, shape: Any) -> None:
    made = model(latents=latents, active=active, shape=shape, factors=(), measure="spread")
    browser = shown(made, shape=shape, factors=(), mode="single", width=390)
    assert_quiet(browser)
    assert off(browser) == 0
    rows = browser.find_elements("css selector", ".latent-panel > .latent-rows > .latent-row")
    assert len(rows) == active
    assert bool(browser.find_elements("css selector", ".no-active")) == (active == 0)
    assert not browser.find_elements("css selector", ".information-table, .factor-row")


def test_another_model_takes_the_place_of_the_first(shown: Any) -> None:
    browser = shown()
    browser.execute_script("stage.view.show(stage.models[0], '0', 'again')")
    assert len(browser.find_elements("css selector", ".live-image")) == 1
    browser.execute_script("stage.view.clear(); stage.view.redraw()")
    assert browser.execute_script("return document.getElementById('view').childNodes.length") == 0
    assert_quiet(browser)
