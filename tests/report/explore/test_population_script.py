# SPDX-License-Identifier: Apache-2.0
"""The population view in a browser: dots, brushes, filters, table and keyboard, and what is odd."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .population_harness import READ, View, hostile, population, realistic, write_page

pytestmark = pytest.mark.browser

COUNT = 60


def sweep() -> dict[str, Any]:
    """Sixty models of four settings: a grid of scores, some missing, some that failed."""
    x = [round(0.05 + 0.9 * (row % 10) / 9, 4) for row in range(COUNT)]
    y = [round(10 + 90 * (row // 10) / 5, 4) for row in range(COUNT)]
    y[3], y[17], x[44] = None, None, None  # type: ignore[call-overload]
    status = ["trained"] * COUNT
    status[59], status[58], status[3] = "collapsed", "diverged", "diverged"
    return population(
        {
            "x": x,
            "kind": [("small", "large", "huge")[row % 3] for row in range(COUNT)],
            "rate": [10.0 ** -(row % 5) for row in range(COUNT)],
            "y": y,
        },
        setting=[row % 4 for row in range(COUNT)],
        settings=["β-VAE, β = 1", "β-VAE, β = 4", "FactorVAE, γ = 1", "FactorVAE, γ = 9"],
        status=status,
        model=[row != 8 for row in range(COUNT)],
        errors={"y": [0.25] * COUNT},
        about={"y": {"better": "higher", "remark": "on mean codes"}},
        start={"x": "x", "y": "y", "colour": "setting", "size": "none"},
    )


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Callable[..., View]]:
    """Shows a population; afterwards the page has neither complained nor fetched anything."""

    def show(made: dict[str, Any], width: int = 1100) -> View:
        size = {"width": width, "height": 1500, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get(write_page(tmp_path / "page.html", made).as_uri())
        view = View(browser, made)
        view.frame()
        return view

    browser.get_log("browser")
    yield show
    assert browser.execute_script("return problems") == []
    resources = "return performance.getEntriesByType('resource').map(one => one.name)"
    fetched = browser.execute_script(resources)
    assert [name for name in fetched if not name.startswith("data:")] == []
    assert browser.get_log("browser") == []


# Choosing


def test_a_click_chooses_a_and_with_shift_b(show: Any) -> None:
    view = show(sweep())
    view.click(*view.place("m25"))
    view.click(*view.place("m42"), shift=True)
    assert view.calls() == [["m25", "a"], ["m42", "b"]]
    x, y = view.place("m25")
    view.click(x + 30, y + 20)  # beside every dot
    assert len(view.calls()) == 2


def test_chosen_models_are_marked_in_every_view(show: Any) -> None:
    view = show(sweep())
    plain = pixels(view, ".population-scatter-input")
    view.run("view.select('m25', 'm42')")
    view.frame()
    assert pixels(view, ".population-scatter-input") > plain == 0
    assert pixels(view, ".population-parallel-above") > 0
    marked = "return ['a', 'b'].map(one => document.querySelector(`tr.is-${one}`).dataset.key)"
    assert view.run(marked) == ["m25", "m42"]
    pressed = "return [...document.querySelectorAll('[data-slot][aria-pressed=true]')].length"
    assert view.run(pressed) == 2
    view.run("view.select(null, null)")
    view.frame()
    assert pixels(view, ".population-scatter-input") == 0
    assert view.run(pressed) == 0


def pixels(view: View, selector: str) -> int:
    """How many pixels of a canvas are not transparent."""
    return view.run(READ, selector)[0]


def test_a_row_and_its_buttons_choose(show: Any) -> None:
    view = show(sweep())
    view.press_on("tr[data-key=m5] th")
    view.press_on("tr[data-key=m7] [data-slot=b]")
    view.press_on("tr[data-key=m8] [data-slot=a]")
    view.run(
        "document.querySelector('tr[data-key=m9] th')"
        ".dispatchEvent(new MouseEvent('click', { bubbles: true, shiftKey: true }))"
    )
    assert view.calls() == [["m5", "a"], ["m7", "b"], ["m8", "a"], ["m9", "b"]]


def test_pointing_at_a_dot_tells_of_it_and_links_its_setting(show: Any) -> None:
    view = show(sweep())
    view.mouse("mouseMoved", *view.place("m25"))
    view.frame()
    words = view.text(".population-tooltip")[0]
    for expected in ("model 25", "β-VAE, β = 4", "seed 25", "trained", "46.00 ± 0.25", "on mean"):
        assert expected in words
    assert view.run("return document.querySelector('.population-plot').className").endswith(
        "population-pointing"
    )
    linked = pixels(view, ".population-scatter-input")
    view.mouse("mouseMoved", 2, 2)
    view.frame()
    assert pixels(view, ".population-scatter-input") == 0 < linked
    assert not view.run("return document.querySelector('.population-tooltip').offsetParent")


def test_the_keyboard_walks_from_left_to_right_and_chooses(show: Any) -> None:
    view = show(sweep())
    view.run("document.querySelector('.population-scatter-input').focus()")
    places = view.places()
    walked = []
    for _ in range(12):
        view.press("ArrowRight")
        walked.append(view.run("return document.getElementById('view').dataset.hovered"))
    assert len(set(walked)) == 12
    order = sorted(view.rows["key"], key=lambda key: places[key])
    assert walked == order[walked_from(order, walked) : walked_from(order, walked) + 12]
    live = view.run("return document.querySelector('.population-live').textContent")
    number = view.rows["key"].index(walked[-1])
    assert live.startswith(f"model {number};")
    assert live.endswith(f"Dot {order.index(walked[-1]) + 1} of {COUNT}.")
    view.press("Enter")
    view.press("End")
    view.press("Enter", shift=True)
    assert view.calls() == [[walked[-1], "a"], [order[-1], "b"]]
    view.press("Escape")
    assert view.run("return document.getElementById('view').dataset.hovered") == ""


def walked_from(order: list[str], walked: list[str]) -> int:
    return order.index(walked[0])


# Filters


def test_a_dot_that_filters_leave_out_is_out_of_reach(show: Any) -> None:
    view = show(sweep())
    view.press_on(".population-switch[data-setting='1']")
    view.click(*view.place("m25"))
    assert view.calls() == []
    assert "m25" not in view.table()


def test_a_brush_does_not_move_the_plot_it_is_drawn_on(show: Any) -> None:
    view = show(sweep(), 390)
    before = view.places()
    (x1, y1), (x2, y2) = before["m22"], before["m46"]
    view.drag((x1 - 10, y1 + 10), (x2 + 10, y2 - 10))
    assert len(view.text(".population-filters button")) == 2
    assert view.places() == before


def test_a_rectangle_filters_exactly_the_dots_in_it(show: Any) -> None:
    view = show(sweep())
    places = view.places()
    (left, bottom), (right, top) = places["m22"], places["m46"]
    start, end = (left - 20, bottom + 20), (right + 20, top - 20)  # dots are spread by up to 8
    inside = {
        key for key, (x, y) in places.items() if start[0] < x < end[0] and end[1] < y < start[1]
    }
    assert len(inside) == 14  # three rows of five, but for the one whose x is missing
    view.drag(start, end)
    assert view.shown() == inside
    assert view.counted() == 14
    assert set(view.table()) == inside
    chips = view.text(".population-filters button")
    assert [chip.split()[0] for chip in chips] == ["Y", "X"]
    assert view.state()["filters"][1]["missing"] == "no"
    view.run("document.querySelector('.population-filters [data-key=y]').click()")
    view.frame()
    x = view.value("x")
    low, high = (view.state()["filters"][0][end] for end in ("low", "high"))
    assert view.shown() == view.where(lambda row: x[row] is not None and low <= x[row] <= high)
    assert len(view.shown()) == 29
    view.press_on(".population-clear")
    assert len(view.shown()) == COUNT
    assert view.text(".population-filters button") == []


def test_a_rectangle_is_as_exact_as_its_pixels(show: Any) -> None:
    draw = np.random.default_rng(1)
    made = population(
        {"a": draw.random(300).tolist(), "b": (10 ** draw.normal(0, 1, 300)).tolist()}
    )
    view = show(made)
    places = view.places()
    both = np.quantile(list(places.values()), (0.3, 0.8), axis=0)
    (x1, y1), (x2, y2) = np.round(both).tolist()

    def within(room: float) -> set[str]:
        return {
            key
            for key, (x, y) in places.items()
            if x1 - room < x < x2 + room and y1 - room < y < y2 + room
        }

    view.drag((x1, y2), (x2, y1))
    assert within(-1) <= view.shown() <= within(1)
    assert 40 < len(within(-1))
    assert len(within(1)) < 120
    ends = {one["key"]: (one["low"], one["high"]) for one in view.state()["filters"]}
    kept = view.where(
        lambda row: all(low <= view.value(key)[row] <= high for key, (low, high) in ends.items())
    )
    assert view.shown() == kept


def test_a_rectangle_over_the_strip_keeps_what_is_missing(show: Any) -> None:
    view = show(sweep())
    (x3, y3), (x17, y17) = view.place("m3"), view.place("m17")
    view.drag((x3 - 12, min(y3, y17) - 3), (x17 + 12, max(y3, y17) + 3))
    assert view.shown() == {"m3", "m17"}
    assert view.text(".population-filters button")[0].startswith("Y missing")


def test_a_drag_along_a_parallel_axis_filters_and_a_double_click_lets_go(show: Any) -> None:
    view = show(sweep())
    box = "return document.querySelector('[data-key=x] .grip').getBoundingClientRect().toJSON()"
    grip = view.run(box)
    x = grip["x"] + grip["width"] / 2
    view.drag((x, grip["y"] + 40), (x, grip["y"] + 110))
    (only,) = view.state()["filters"]
    assert only["key"] == "x"
    assert 0.3 < only["low"] < only["high"] < 0.9
    values = view.value("x")
    kept = view.where(lambda row: values[row] and only["low"] <= values[row] <= only["high"])
    assert 0 < len(kept) < COUNT
    assert view.shown() == kept
    view.run(
        "document.querySelector('[data-key=x] .grip')"
        ".dispatchEvent(new MouseEvent('dblclick', { bubbles: true }))"
    )
    view.frame()
    assert view.state()["filters"] == []
    assert view.counted() == COUNT


def test_a_category_axis_is_brushed_by_levels(show: Any) -> None:
    view = show(sweep())
    grip = view.run(
        "return document.querySelector('[data-key=kind] .grip').getBoundingClientRect().toJSON()"
    )
    x = grip["x"] + grip["width"] / 2
    view.drag((x, grip["y"] + 4), (x, grip["y"] + 60))
    assert view.state()["filters"] == [{"key": "kind", "levels": ["small"], "missing": "no"}]
    kinds = view.value("kind")
    assert view.shown() == view.where(lambda row: kinds[row] == "small")


def test_filters_can_be_typed(show: Any) -> None:
    view = show(sweep())
    view.run("document.querySelector('.population-form').open = true")
    view.frame()
    view.put(".line[data-key=y] [data-end=from]", "40")
    y = view.value("y")
    assert view.shown() == view.where(lambda row: y[row] is not None and y[row] >= 40)
    assert view.text(".population-filters button") == ["Y from 40\n×"]
    view.put(".line[data-key=y] [data-end=missing]", "too")
    assert view.shown() == view.where(lambda row: y[row] is None or y[row] >= 40)
    view.put(".line[data-key=y] [data-end=missing]", "only")
    assert view.shown() == {"m3", "m17"}
    view.put(".line[data-key=kind] [data-end=from]", "2")
    kinds = view.value("kind")
    assert view.shown() == view.where(lambda row: y[row] is None and kinds[row] == "small")


def test_the_legend_switches_settings_groups_and_statuses(show: Any) -> None:
    view = show(sweep())
    view.press_on(".population-switch[data-setting='1']")
    assert view.shown() == view.where(lambda row: row % 4 != 1)
    assert view.text(".population-filters button") == ["without β-VAE, β = 4\n×"]
    assert view.text(".population-switch[data-setting='1'] .count") == ["0/15"]
    view.press_on(".population-switch[data-setting='1']")
    assert len(view.shown()) == COUNT
    view.press_on(".only[data-setting='2']")
    assert view.shown() == view.where(lambda row: row % 4 == 2)
    view.press_on(".only[data-setting='2']")
    assert len(view.shown()) == COUNT
    view.press_on(".population-group")
    assert view.shown() == view.where(lambda row: row % 4 > 1)
    view.press_on(".population-clear")
    view.press_on("[data-status=diverged]")
    status = view.rows["status"]
    assert view.shown() == view.where(lambda row: status[row] != "diverged")


def test_levels_of_a_coloured_category_are_switches(show: Any) -> None:
    view = show(sweep())
    view.put("select[data-axis=colour]", "kind")
    view.press_on("[data-level=huge]")
    kinds = view.value("kind")
    assert view.shown() == view.where(lambda row: kinds[row] != "huge")
    assert view.text(".population-filters button") == ["KIND large, small\n×"]
    view.press_on("[data-level=huge]")
    assert view.state()["filters"] == []


# Table


def test_the_table_sorts_and_what_is_missing_stays_last(show: Any) -> None:
    view = show(sweep())
    y = view.value("y")
    known = [row for row in range(COUNT) if y[row] is not None]
    for sign, word in ((-1, "descending"), (1, "ascending")):
        view.press_on("thead [data-key=y]")
        order = [*sorted(known, key=lambda row: (sign * y[row], row)), 3, 17]
        assert view.table() == [f"m{row}" for row in order[:50]]
        sorts = "return [...document.querySelectorAll('[aria-sort]')].map(one => [one.innerText"
        assert view.run(sorts + ", one.getAttribute('aria-sort')])") == [["Y\u00a0↑", word]]
    view.press_on(".population-pager .later")
    assert view.table()[-2:] == ["m3", "m17"]
    assert view.text(".population-page") == [f"51 to {COUNT} of {COUNT}"]
    view.press_on("thead [data-key=':status']")
    assert view.table()[:3] == ["m59", "m3", "m58"]


def test_the_best_is_never_a_collapsed_model_nor_one_of_equals(show: Any) -> None:
    made = population(
        {"a": [1.0, 9.0, 5.0, None], "b": [2.0, 2.0, 2.0, 1.0], "c": [3.0, 1.0, 2.0, 2.0]},
        status=["trained", "collapsed", "trained", "trained"],
        about={"a": {"better": "higher"}, "b": {"better": "higher"}, "c": {"better": "lower"}},
    )
    view = show(made)
    best = "return [...document.querySelectorAll('.best')].map(one =>"
    found = view.run(best + " [one.closest('tr').dataset.key, one.innerText])")
    assert found == [["m2", "5"]]


def test_only_fifty_rows_are_made(show: Any) -> None:
    view = show(realistic(400))
    assert len(view.table()) == 50
    view.press_on(".population-pager .later")
    assert view.table()[0] == "m50"
    view.press_on("thead [data-key=':name']")
    assert view.text(".population-page") == ["1 to 50 of 400"]


# State


def test_a_state_put_back_is_the_state_that_was_taken(show: Any) -> None:
    view = show(sweep())
    view.put("select[data-axis=x]", "rate")
    view.put("select[data-axis=colour]", "kind")
    view.put("select[data-axis=size]", "y")
    view.press_on("[data-log=x]")
    view.press_on("[data-level=huge]")
    view.press_on(".population-switch[data-setting='3']")
    view.press_on("[data-status=collapsed]")
    view.press_on("thead [data-key=y]")
    view.run("document.querySelector('.population-form').open = true")
    view.frame()
    view.put(".line[data-key=y] [data-end=to]", "80")
    view.run("document.querySelector('.population-columns input[data-key=x]').click()")
    view.frame()
    state, shown, table = view.state(), view.shown(), view.table()
    assert state["axes"] == {"x": "rate", "y": "y", "colour": "kind", "size": "y"}
    assert (state["flipped"], state["settings"], state["statuses"]) == (
        ["rate"],
        [3],
        ["collapsed"],
    )
    assert [one["key"] for one in state["filters"]] == ["kind", "y"]
    assert 0 < len(shown) < COUNT
    assert len(json.dumps(state)) < 600

    fresh = show(sweep())
    assert fresh.state() != state
    fresh.run("view.restore(JSON.parse(arguments[0]))", json.dumps(state))
    assert (fresh.state(), fresh.shown(), fresh.table()) == (state, shown, table)
    assert fresh.run("return document.querySelector('select[data-axis=x]').value") == "rate"


def test_a_state_that_is_none_is_left_out(show: Any) -> None:
    view = show(sweep())
    before = view.state()
    odd = [
        None,
        {},
        {"axes": {"x": "gone", "y": 3}, "filters": [{"key": "gone"}, None, {"key": "kind"}, 7]},
        {"filters": "x", "settings": [99, "a"], "statuses": {}, "columns": 4, "sort": {"key": "z"}},
        {"filters": [{"key": "x", "low": "1", "high": None, "missing": "maybe"}], "flipped": [1]},
    ]
    for state in odd:
        view.run("view.restore(arguments[0])", state)
        kept = view.state()
        kept["filters"] = [one for one in kept["filters"] if one != X_KNOWN]
        assert kept == before


X_KNOWN = {"key": "x", "low": None, "high": None, "missing": "no"}


def test_a_change_is_told_to_the_page(show: Any) -> None:
    view = show(sweep())
    view.run("window.told = 0; addEventListener('populationchange', () => { told += 1; })")
    view.put("select[data-axis=x]", "rate")
    view.press_on("[data-status=collapsed]")
    assert view.run("return told") == 2


# Axes


def test_a_wide_column_is_logarithmic_until_told_otherwise(show: Any) -> None:
    view = show(sweep())
    view.put("select[data-axis=x]", "rate")
    steps = [view.place(f"m{row}")[0] for row in (4, 3, 2, 1, 0)]  # 0.0001 to 1
    assert np.diff(steps) == pytest.approx(np.diff(steps).mean(), abs=20)  # but for their spread
    view.press_on("[data-log=x]")
    linear = np.diff([view.place(f"m{row}")[0] for row in (4, 3, 2, 1, 0)])
    assert linear[-1] > 0.8 * linear.sum()
    assert view.run("return document.querySelector('[data-log=y]').hidden")  # 10 to 100: never


def test_missing_values_lie_in_a_strip_outside_the_axes(show: Any) -> None:
    view = show(sweep())
    places = view.places()
    lowest = max(y for key, (_, y) in places.items() if key not in ("m3", "m17"))
    assert all(places[key][1] > lowest + 5 for key in ("m3", "m17"))
    leftmost = min(x for key, (x, _) in places.items() if key != "m44")
    assert places["m44"][0] < leftmost - 5


def test_dots_of_a_category_are_spread_always_equally(show: Any) -> None:
    view = show(sweep())
    view.put("select[data-axis=x]", "kind")
    first = view.places()
    kinds = view.value("kind")
    bands = {
        kind: [first[f"m{row}"][0] for row in range(COUNT) if kinds[row] == kind]
        for kind in ("huge", "large", "small")
    }
    assert max(bands["huge"]) < min(bands["large"])
    assert max(bands["large"]) < min(bands["small"])
    assert len(set(bands["large"])) == len(bands["large"])
    view.run("view.redraw()")
    assert view.places() == first


# What is odd


def test_no_models_are_a_sentence(show: Any) -> None:
    view = show(population({"a": []}))
    assert view.text("#view") == ["This run has no models yet."]
    view.run("view.select('a', 'b'); view.restore(view.state()); view.redraw()")


@pytest.mark.parametrize("width", [1100, 390])
@pytest.mark.parametrize(
    "made",
    [
        population({"a": [1.5]}),
        population({"a": [None, None], "b": [None, None]}),
        population({"a": [2.0] * 5, "b": [0.0] * 5, "c": ["same"] * 5}),
        population({}, names=["one", "two"]),
        population({f"c{n}": list(np.linspace(-n, n, 30)) for n in range(40)}),
        hostile(),
        realistic(80),
    ],
    ids=["one", "missing", "equal", "no columns", "forty columns", "hostile", "usual"],
)
def test_every_population_fits_and_every_column_can_be_chosen(
    show: Any, made: dict[str, Any], width: int
) -> None:
    view = show(made, width)
    view.run("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    view.frame()
    wide = "return Math.max(0, document.documentElement.scrollWidth - arguments[0])"
    assert view.run(wide, width) == 0
    every = (
        "for (const select of document.querySelectorAll('select[data-axis]')) {"
        " const before = select.value;"
        " const few = [...select.options].filter((_, at) => select.dataset.axis === 'x' || at < 4);"
        " for (const { value } of few) {"
        "  select.value = value; select.dispatchEvent(new Event('change')); view.redraw(); }"
        " select.value = before; select.dispatchEvent(new Event('change')); }"
    )
    view.run(every)
    view.frame()
    x, y = view.place(view.rows["key"][0])
    view.drag((x - 40, y - 40), (x + 40, y + 40))
    assert view.rows["key"][0] in view.shown()
    view.mouse("mouseMoved", x, y)
    view.frame()
    assert view.run("return document.querySelectorAll('#view img, #view b').length") == 0
    assert view.run(wide, width) == 0
    names = ".population-tooltip strong bdi"
    assert view.run(f"return document.querySelector('{names}').textContent") in view.rows["name"]


def test_a_score_is_told_with_its_error(show: Any) -> None:
    told = {
        (0.2134, 0.0123): "0.213 ± 0.012",
        (0.2134, None): "0.213",
        (-0.00001, 0.05): "0.000 ± 0.050",
        (-3.25, 0): "−3.25 ± 0",
        (0.2134, 1e-17): "0.213 ± 1e−17",
        (48210.7, 1320.0): "48,211 ± 1320",
        (2.5e8, None): "2.5e8",
        (None, 0.1): "–",
    }
    script = "return arguments[0].map(([value, error]) => unbraid.ui.withError(value, error))"
    assert show(sweep()).run(script, list(told)) == list(told.values())


def test_colours_follow_the_theme(show: Any) -> None:
    view = show(sweep())
    light = view.run(READ, ".population-scatter-axes")
    view.run("document.documentElement.dataset.theme = 'dark'; view.redraw()")
    dark = view.run(READ, ".population-scatter-axes")
    view.run("document.documentElement.dataset.theme = 'light'; view.redraw()")
    assert view.run(READ, ".population-scatter-axes") == light
    assert dark[1] / dark[0] < 0.5 * light[1] / light[0]  # redness of paper and axes together


def test_a_finger_scrolls_the_page_and_brushes_on_axes(show: Any) -> None:
    view = show(sweep(), 390)
    touch = "return getComputedStyle(document.querySelector(arguments[0])).touchAction"
    assert view.run(touch, ".population-scatter-input") == "pan-y"
    assert view.run(touch, ".population-axis .grip") == "none"
    send = view.browser.execute_cdp_cmd
    send("Emulation.setTouchEmulationEnabled", {"enabled": True})
    view.frame()  # fingers get larger buttons
    x, y = view.place("m25")
    point = [{"x": x, "y": y}]
    send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": point})
    send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    view.frame()
    send("Emulation.setTouchEmulationEnabled", {"enabled": False})
    assert view.calls() == [["m25", "a"]]


def test_two_thousand_models_are_fluid(show: Any) -> None:
    view = show(realistic(2000))
    # A fixed amount of work beside each measurement says how fast this machine is just now.
    timed = view.run(
        "const time = (job) => { const from = performance.now(); job();"
        " return performance.now() - from; };"
        "const work = () => { const all = new Float64Array(1e6);"
        " for (let turn = 0; turn < 10; turn += 1)"
        "  for (let at = 0; at < 1e6; at += 1) all[at] += Math.sqrt(at + turn);"
        " window.kept = all[7]; };"
        "const sort = document.querySelector('thead [data-key=mig]');"
        "const least = (job) => Math.min(...[1, 2, 3, 4, 5, 6].map(() => time(job)));"
        "return { work: least(work), redraw: least(() => view.redraw()) };"
    )
    assert timed["redraw"] < 5 * timed["work"]
