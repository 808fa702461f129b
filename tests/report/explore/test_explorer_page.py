# SPDX-License-Identifier: Apache-2.0
"""The whole explorer in a browser, as a person uses it: served, in a folder and as one file."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unbraid as ub
from unbraid.codes.latent_names import latent_names, name_latent
from unbraid.codes.model import Model
from unbraid.commands.explore import Explorer
from unbraid.commands.run import Run
from unbraid.core.errors import InputError
from unbraid.report.explore.sources import open_population

from ..conftest import small_train

pytestmark = pytest.mark.browser
FETCHED = "return performance.getEntriesByType('resource').map(one => one.name)"
FACTORS = "#model-view .factor-row :is(input, select)"
CANVAS = """
const canvas = document.querySelector(arguments[0]);
const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
return [canvas.height, canvas.width, Array.from(pixels)];
"""


@pytest.fixture(scope="module")
def served(explored: Run) -> Iterator[Explorer]:
    explorer = ub.explore(explored.path, wait=False, quiet=True)
    yield explorer
    explorer.close()


@pytest.fixture
def show(browser: Any) -> Callable[..., None]:
    """Open an address in a window of so many pixels and wait until the page stands."""
    from selenium.webdriver.support.ui import WebDriverWait

    def show(address: str, width: int = 1280) -> None:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get("about:blank")
        browser.get_log("browser")
        browser.get(address)
        ready = "return document.documentElement.dataset.ready === 'yes'"
        WebDriverWait(browser, 60, poll_frequency=0.03).until(lambda it: it.execute_script(ready))

    return show


def wait_for(browser: Any, script: str, *given: object) -> Any:
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, 30, poll_frequency=0.03).until(
        lambda it: it.execute_script(script, *given)
    )


def canvas(browser: Any, selector: str) -> np.ndarray:
    height, width, pixels = browser.execute_script(CANVAS, selector)
    return np.array(pixels, float).reshape(height, width, 4)


def chosen(browser: Any, slot: str = "a") -> str:
    return browser.execute_script(f"return document.getElementById('chosen-{slot}').dataset.key")


def slider_codes(browser: Any, view: str = "#model-view") -> dict[int, float]:
    """The code that the sliders show, by latent."""
    script = f"""return [...document.querySelectorAll("{view} .latent-row")].map(row =>
        [row.dataset.latent, row.querySelector(".latent-value").dataset.value])"""
    return {int(latent): float(value) for latent, value in browser.execute_script(script)}


def assert_the_code_becomes(browser: Any, expected: np.ndarray) -> None:
    """The page's weights are float16, and Python's layers may be bfloat16."""
    deadline = time.monotonic() + 10
    while True:
        code = slider_codes(browser)
        off = np.abs(np.array([code[one] for one in sorted(code)]) - expected).max()
        if off < 0.05 or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    assert off < 0.05


def set_slider(browser: Any, latent: int, share: float) -> None:
    browser.execute_script(
        """const slider = document.querySelector(
            `#model-view .latent-row[data-latent="${arguments[0]}"] input[type=range]`);
        const [low, high] = [Number(slider.min), Number(slider.max)];
        slider.value = low + arguments[1] * (high - low);
        slider.dispatchEvent(new Event("input", {bubbles: true}));
        slider.dispatchEvent(new Event("change", {bubbles: true}));""",
        latent,
        share,
    )


def assert_sound(browser: Any) -> None:
    told = [one["message"] for one in browser.get_log("browser")]
    assert [line for line in told if "getImageData" not in line] == []  # which the tests call
    assert browser.execute_script("return document.getElementById('trouble').textContent") == ""


@pytest.mark.parametrize("width", [1280, 390])
def test_it_opens_the_best_model_without_a_complaint(
    browser: Any, show: Any, served: Explorer, explored: Run, width: int
):
    show(served.url, width)
    best = explored.best("mig")
    script = "return document.querySelector('#chosen-a h2').textContent"
    assert f"seed {best.member.seed}" in browser.execute_script(script)
    wide = browser.execute_script(
        "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert wide == 0
    assert_sound(browser)


def test_a_slider_shows_what_python_decodes(
    browser: Any, show: Any, served: Explorer, explored: Run
):
    show(served.url)
    key = chosen(browser)
    model = Model(explored.folder, int(key))
    latents = list(slider_codes(browser))
    for latent, share in ((latents[0], 0.9), (latents[1], 0.1), (latents[0], 0.35)):
        set_slider(browser, latent, share)
        time.sleep(0.3)
        code = slider_codes(browser)
        given = np.array([[code[one] for one in sorted(code)]], np.float32)
        shown = canvas(browser, "#model-view canvas.live-image")[..., :1]
        off = np.abs(model.decode(given)[0].astype(float) - shown)
        assert off.mean() < 1
        assert off.max() <= 2
    assert_sound(browser)


def test_a_name_that_is_given_by_hand_is_in_the_table_of_codes(
    browser: Any, show: Any, explored: Run, tmp_path: Path
):
    import shutil
    import urllib.request

    from selenium.webdriver.common.keys import Keys

    folder = Path(shutil.copytree(explored.path, tmp_path / "run"))
    explorer = ub.explore(folder, wait=False, quiet=True)
    show(explorer.url)
    key = chosen(browser)
    row = browser.find_element("css selector", "#model-view .latent-row")
    latent = int(row.get_attribute("data-latent"))
    row.find_element("css selector", "button.latent-rename").click()
    field = row.find_element("css selector", "input.latent-name-input")
    field.send_keys("left to <right>", Keys.ENTER)
    named = "return document.querySelector('#model-view .latent-row').textContent"
    wait_for(browser, named + ".includes('left to <right>')")
    from unbraid.population.run_folder import RunFolder

    assert latent_names(RunFolder.open(folder)) == {int(key): {latent: "left to <right>"}}
    with urllib.request.urlopen(f"{explorer.url}codes/{key}.csv") as answer:
        assert f"latent_{latent}: left to <right>" in answer.read().decode().splitlines()[0]
    assert_sound(browser)
    explorer.close()


def test_two_models_are_compared(browser: Any, show: Any, served: Explorer, explored: Run):
    show(served.url)
    browser.execute_script(
        "document.querySelectorAll('#population-view button[data-slot=b]')[4].click()"
    )
    wait_for(browser, "return !document.getElementById('compare-panel').hidden")
    wait_for(browser, "return document.getElementById('chosen-b').dataset.key !== ''")
    links = browser.find_elements("css selector", "#compare-view svg.compare-links g.link")
    alone = browser.find_elements("css selector", "#compare-view .latent-row.only")
    latents = len(slider_codes(browser, "#compare-view .compare-column[data-slot=a]"))
    assert 0 < latents <= len(links) + len(alone)
    address = browser.current_url
    first, second = chosen(browser), chosen(browser, "b")
    show(address)
    assert (chosen(browser), chosen(browser, "b")) == (first, second)
    assert browser.execute_script("return !document.getElementById('compare-panel').hidden")
    assert_sound(browser)


def test_the_factors_choose_the_input(browser: Any, show: Any, served: Explorer, explored: Run):
    show(served.url)
    key = chosen(browser)
    browser.execute_script(
        """const slider = document.querySelector(arguments[0]);
        slider.value = 1;
        slider.dispatchEvent(new Event("input", {bubbles: true}));
        slider.dispatchEvent(new Event("change", {bubbles: true}));""",
        FACTORS,
    )
    script = "return [...document.querySelectorAll(arguments[0])].map(one => Number(one.value))"
    values = browser.execute_script(script, FACTORS)
    index = explored.dataset.grid.to_index([values])
    expected = Model(explored.folder, int(key)).encode(explored.dataset.images(index))[0]
    assert_the_code_becomes(browser, expected)
    assert_sound(browser)


def test_an_image_of_ones_own_is_encoded(
    browser: Any, show: Any, served: Explorer, explored: Run, tmp_path: Path
):
    from PIL import Image

    show(served.url)
    key = chosen(browser)
    image = explored.dataset.images([37])[0]
    Image.fromarray(image[..., 0]).save(tmp_path / "own.png")
    field = browser.find_element("css selector", "#model-view input[type=file]")
    field.send_keys(str(tmp_path / "own.png"))
    expected = Model(explored.folder, int(key)).encode(image[None])[0]
    assert_the_code_becomes(browser, expected)
    assert_sound(browser)


def test_one_file_opens_from_a_disk(browser: Any, show: Any, explored: Run, tmp_path: Path):
    page = ub.explore(explored.path, out=tmp_path / "one.html", members=[1, 4], quiet=True).page
    assert page is not None
    show(page.as_uri())
    assert browser.execute_script(FETCHED) == []
    assert len(slider_codes(browser)) == 5
    ids = "return [...document.querySelectorAll('script.model')].map(one => one.dataset.key)"
    assert browser.execute_script(ids) == ["1", "4"]
    browser.execute_script(
        "document.querySelectorAll('#population-view button[data-slot=a]')[0].click()"
    )
    wait_for(browser, "return document.getElementById('trouble').textContent.includes('not kept')")
    assert browser.get_log("browser") == []


def test_a_folder_opens_from_a_disk(browser: Any, show: Any, explored: Run, tmp_path: Path):
    page = ub.explore(explored.path, out=tmp_path / "site", quiet=True).page
    assert page == tmp_path / "site" / "index.html"
    show(page.as_uri())
    browser.execute_script(
        "document.querySelectorAll('#population-view button[data-slot=a]')[5].click()"
    )
    wait_for(browser, "return document.getElementById('chosen-a').dataset.key === '5'")
    assert all(one.startswith("file:") for one in browser.execute_script(FETCHED))
    assert len(slider_codes(browser)) == 5
    assert_sound(browser)


@pytest.mark.parametrize("kind", ["points", "search", "all_diverged", "study"])
def test_other_populations_open(
    browser: Any, show: Any, points: Run, search: Path, tmp_path: Path, kind: str
):
    if kind == "all_diverged":
        source: Any = small_train(tmp_path / "run", seeds=2, learning_rate=1e6).path
    else:
        source = {"points": points.path, "search": search, "study": "locatello2019"}[kind]
    explorer = ub.explore(source, wait=False, quiet=True)
    show(explorer.url)
    assert_sound(browser)
    opened = browser.execute_script("return !document.getElementById('model-panel').hidden")
    assert opened == (kind in ("points", "search"))
    explorer.close()


def test_of_a_long_note_the_first_sentence_is_shown(browser: Any, show: Any, tmp_path: Path):
    run = small_train(tmp_path / "run")
    run.score(["mig", "modularity"], quiet=True)
    (long,) = [note for note in open_population(run.path).notes if note.startswith("Too few")]
    page = ub.explore(run.path, out=tmp_path / "page.html", quiet=True).page
    show(page.as_uri(), 390)
    folded = "return [...document.querySelectorAll('#notes details')].map(one => one.innerText)"
    (shown,) = browser.execute_script(folded)
    assert shown == long.partition(". ")[0] + "."


def test_hostile_names_do_nothing(browser: Any, show: Any, tmp_path: Path):
    hostile = "<img src=x onerror=window.hit=1>"
    run = small_train(tmp_path / "<script>window.hit=1<", seeds=2)
    name_latent(run.folder, 0, 0, hostile)
    name_latent(run.folder, 1, 0, "</script><script>window.hit=1</script>")
    explorer = ub.explore(run.path, wait=False, quiet=True)
    show(explorer.url)
    assert browser.execute_script("return window.hit") is None
    title = browser.execute_script("return document.querySelector('h1').textContent")
    assert title == "<script>window.hit=1<"
    assert_sound(browser)
    explorer.close()


def test_a_damaged_model_is_told_on_the_page(browser: Any, show: Any, tmp_path: Path):
    run = small_train(tmp_path / "run", seeds=2)
    explorer = ub.explore(run.path, wait=False, quiet=True)
    for path in (run.path / "codes").iterdir():
        content = bytearray(path.read_bytes())
        content[-3] ^= 1
        path.write_bytes(content)
    show(explorer.url)
    told = browser.execute_script("return document.getElementById('trouble').textContent")
    assert re.search(r"member-0000\d.safetensors is damaged", told)
    explorer.close()


def test_what_is_no_explorer_is_not_written_over(explored: Run, tmp_path: Path):
    (tmp_path / "mine.html").write_text("mine")
    with pytest.raises(InputError, match="out"):
        ub.explore(explored.path, out=tmp_path / "mine.html", quiet=True)
    assert (tmp_path / "mine.html").read_text() == "mine"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a.txt").write_text("mine")
    with pytest.raises(InputError, match="out"):
        ub.explore(explored.path, out=tmp_path / "full", quiet=True)
    assert [one.name for one in (tmp_path / "full").iterdir()] == ["a.txt"]


def test_a_folder_that_is_written_again_keeps_no_other_models(explored: Run, tmp_path: Path):
    out = tmp_path / "site"
    ub.explore(explored.path, out=out, quiet=True)
    ub.explore(explored.path, out=out, members="2,5", quiet=True)  # type: ignore[arg-type]
    assert sorted(one.name for one in (out / "models").iterdir()) == ["00002.js", "00005.js"]


def test_a_file_takes_the_best_that_fit(
    explored: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    from unbraid.report.explore import context

    rows = open_population(explored.path).rows
    rank = {row.key: (row.status != "trained", -row.values["mig"]) for row in rows}
    order = sorted(rank, key=lambda key: rank[key])
    monkeypatch.setattr(context, "BYTES_IN_A_FILE", 600_000)
    page = ub.explore(explored.path, out=tmp_path / "one.html").page
    assert page is not None
    kept = re.findall(r'class="model" data-key="(\d+)"', page.read_text())
    assert 0 < len(kept) < 6
    assert kept == order[: len(kept)]
    told = f"{len(kept)} of 6 models are kept with this page ("
    assert capsys.readouterr().err.startswith(told)


def test_a_failed_load_leaves_the_page_as_it_was_chosen(browser: Any, show: Any, tmp_path: Path):
    run = small_train(tmp_path / "run", seeds=3)
    explorer = ub.explore(run.path, wait=False, quiet=True)
    show(explorer.url)
    (run.path / "codes" / "member-00001.safetensors").unlink()
    choose = """const row = `#population-view tr[data-key="${arguments[0]}"]`;
        document.querySelector(`${row} button[data-slot=${arguments[1]}]`).click()"""
    trouble = "return document.getElementById('trouble').textContent"
    browser.execute_script(choose, "1", "a")
    wait_for(browser, trouble + ".includes('member-00001')")
    assert chosen(browser) == "1"
    assert slider_codes(browser) == {}
    browser.execute_script(choose, "2", "b")
    wait_for(browser, "return document.getElementById('chosen-b').dataset.key === '2'")
    browser.execute_script(choose, "0", "a")
    wait_for(browser, trouble + " === ''")
    assert len(slider_codes(browser)) == 4
    assert browser.execute_script("return !document.getElementById('compare-panel').hidden")
    explorer.close()


def test_a_run_that_has_changed_is_told(browser: Any, show: Any, tmp_path: Path):
    run = small_train(tmp_path / "run", seeds=1)
    explorer = ub.explore(run.path, wait=False, quiet=True)
    ub.resume(run.path, seeds=2, quiet=True, device="cpu")
    show(explorer.url)
    told = browser.execute_script("return document.getElementById('trouble').textContent")
    assert "has changed since this page was opened" in told
    assert "Remove" not in told
    explorer.close()


def test_a_folder_whose_writing_was_interrupted_is_written_again(explored: Run, tmp_path: Path):
    out = tmp_path / "site"
    ub.explore(explored.path, out=out, quiet=True)
    (out / "index.html").unlink()
    ub.explore(explored.path, out=out, members=[1], quiet=True)
    assert [one.name for one in (out / "models").iterdir()] == ["00001.js"]
    (out / "index.html").unlink()
    (out / "models" / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="out"):
        ub.explore(explored.path, out=out, quiet=True)


def test_names_that_are_damaged_leave_the_model(browser: Any, show: Any, tmp_path: Path):
    run = small_train(tmp_path / "run")
    name_latent(run.folder, 0, 0, "x")
    path = run.path / "names.json"
    path.write_bytes(path.read_bytes().replace(b'"x"', b'"y"'))
    explorer = ub.explore(run.path, wait=False, quiet=True)
    show(explorer.url)
    assert len(slider_codes(browser)) == 4
    told = browser.execute_script("return document.getElementById('trouble').textContent")
    assert "names.json is damaged" in told
    explorer.close()
