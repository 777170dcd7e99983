"""The page in a real browser, without a network: its pictures are drawn, its diffs open, and what a stranger wrote into
a run stays text. One browser for all of it."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.poison import poisoned
from trace_bench.artifacts.layout import RunLayout
from trace_bench.report import Report, page, read_source

DRAWN = ".scatterlayer .trace, .boxlayer .trace, .barlayer .trace, .heatmaplayer image"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Skips, loudly, where there is none."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("there is no chromium with chromedriver; install Debian's chromium and chromium-driver")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--host-resolver-rules=MAP * ~NOTFOUND", "--window-size=1200,1000"):  # fmt: skip
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driving = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield driving
    finally:
        driving.quit()


Open = Callable[[RunLayout], None]


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Open:
    """Writes the report of a run, opens it, and waits until it is drawn."""

    def open_(run: RunLayout) -> None:
        path = tmp_path / "report.html"
        path.write_text(page(Report.of([read_source(run)])), encoding="utf-8")
        browser.get(path.as_uri())
        until(browser, "document.documentElement.dataset.ready === 'yes'")
        until(browser, "!document.querySelector('.figure[data-drawn=yes]')")

    return open_


def until(browser: Any, condition: str) -> None:
    deadline = time.monotonic() + 60
    while not browser.execute_script(f"return {condition}"):
        assert time.monotonic() < deadline, condition
        time.sleep(0.05)


def complaints(browser: Any) -> list[str]:
    return [entry["message"] for entry in browser.get_log("browser")]


def test_all_pictures_are_drawn_diffs_open_and_nothing_is_asked_for(
    browser: Any, opened: Open, recorded: RunLayout
) -> None:
    opened(recorded)
    boxes = browser.find_elements(
        "css selector", "header .figure, section > .scroll > .figure, .job:not([hidden]) .figure"
    )
    assert len(boxes) >= 9
    for box in boxes:
        name = box.get_attribute("data-figure")
        assert box.get_attribute("data-drawn") == "done" and box.find_elements("css selector", DRAWN), name
        assert box.size["height"] > 100 and box.size["width"] > 800, name
    asked = "performance.getEntriesByType('resource').map(e => e.name).filter(n => !/^(data|blob):/.test(n))"
    assert browser.execute_script(f"return {asked}") == []

    details = browser.find_elements("css selector", ".job:not([hidden]) details.candidate")
    assert [one.get_attribute("open") for one in details] == [None] * len(details)
    details[-1].find_element("css selector", "summary").click()
    diff = details[-1].find_element("css selector", ".diff")
    added = diff.find_elements("css selector", ".add")
    assert diff.is_displayed() and added and all(line.text.startswith("+") for line in added if line.text)

    # A click on a candidate in the tree opens its diff.
    from selenium.webdriver.common.action_chains import ActionChains

    tree = browser.find_element("css selector", ".job:not([hidden]) .figure")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", tree)
    circle = tree.find_elements("css selector", ".points path")[0]
    ActionChains(browser).move_to_element(circle).pause(0.2).click().perform()
    until(browser, "document.querySelector('.job:not([hidden]) details.candidate').open")

    # Another job is drawn when it is chosen.
    choice = browser.find_element("id", "choose-job")
    shown = browser.execute_script("return document.querySelector('.job:not([hidden])').dataset.job")
    last = choice.find_elements("tag name", "option")[-1]
    last.click()
    until(browser, "document.querySelector('.job:not([hidden]) .figure').dataset.drawn === 'done'")
    assert browser.execute_script("return document.querySelector('.job:not([hidden])').dataset.job") != shown
    assert len(browser.find_elements("css selector", ".job:not([hidden])")) == 1

    # A table is sorted by the column that is clicked, and back.
    browser.execute_script("document.querySelector('#curves details').open = true")
    head = browser.find_element("css selector", "#curves thead button:first-child")
    column = "[...document.querySelectorAll('#curves tbody tr')].map(r => Number(r.cells[3].textContent))"
    button = browser.find_elements("css selector", "#curves thead button")[3]
    for rising in (True, False):
        browser.execute_script("arguments[0].click()", button)
        numbers = browser.execute_script(f"return {column}")
        assert numbers == sorted(numbers, reverse=not rising) and len(set(numbers)) > 2
    assert head.is_displayed() and complaints(browser) == []


def with_long_names(run: RunLayout) -> None:
    """Give the variants names as long as configs have them."""
    for job in run.job_dirs():
        row = json.loads(job.results.read_text())
        if row["variant"] != "default":
            row["variant"] += ",exploration_constant=0.75,num_proposals_per_step=12"
        row["resolved_trainer_kwargs"]["x"] = 1
        job.results.write_text(json.dumps(row))


BOXES = """
const box = (e) => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
return [...document.querySelectorAll(arguments[0])].map(box);
"""


@pytest.mark.parametrize("width", [1280, 1920])
def test_the_layout_of_the_page(browser: Any, opened: Open, copied: RunLayout, width: int) -> None:
    with_long_names(copied)
    height = 800 if width == 1280 else 1080
    browser.set_window_size(width, height)
    chrome = browser.execute_script("return [window.outerWidth - innerWidth, window.outerHeight - innerHeight]")
    browser.set_window_size(width + chrome[0], height + chrome[1])
    opened(copied)
    browser.execute_script("document.querySelectorAll('details').forEach(d => { d.open = true; })")

    def boxes(selector: str) -> list[list[float]]:
        found: list[list[float]] = browser.execute_script(BOXES, selector)
        return [box for box in found if box[2] > box[0]]

    view = browser.execute_script("return [document.documentElement.scrollWidth, innerWidth, innerHeight]")
    assert view[0] <= view[1], "the page does not scroll sideways"
    (sentence,), (picture,) = boxes(".outcome"), boxes("[data-figure=outcome]")
    assert sentence[3] <= picture[1] and picture[3] <= view[2], "sentence and picture are on the first screen"
    wide = "[...document.querySelectorAll('.wide')].filter(e => e.scrollWidth > e.clientWidth).map(e => e.innerText)"
    assert browser.execute_script(f"return {wide}") == [], "no table is cut"
    for legend in boxes(".legend"):
        for bar in boxes(".modebar"):
            apart = legend[2] <= bar[0] or bar[2] <= legend[0] or legend[3] <= bar[1] or bar[3] <= legend[1]
            assert apart, "a legend lies under the buttons of a picture"
    lines = boxes(".change[open] pre.diff span")
    assert len(lines) > 10 and len({box[0] for box in lines}) == 1, "lines of a diff begin below one another"
    tops = browser.execute_script(BOXES, ".change[open] pre.diff:first-of-type span")
    assert all(second[1] >= first[3] - 0.5 for first, second in pairwise(tops) if second[1] >= first[1])
    order = browser.execute_script("return [...document.querySelectorAll('header, section')].map(e => e.id)")
    assert order[:5] == ["", "leaderboard", "differences", "curves", "changes"] and order[-1] == "provenance"


@pytest.mark.parametrize("width", [390, 1280])
def test_no_page_scrolls_sideways_and_no_label_of_a_heat_map_overlaps_another(
    browser: Any, opened: Open, copied: RunLayout, width: int
) -> None:
    """390 pixels are a telephone: pictures and tables scroll in boxes of their own there."""
    with_long_names(copied)
    metrics = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        opened(copied)
        browser.execute_script("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        root = "document.documentElement"
        scrolled, shown = browser.execute_script(f"return [{root}.scrollWidth, {root}.clientWidth]")
        assert scrolled <= shown <= width
        for name in ("matrix", "matrix-ranks"):
            texts = [".xtick text", ".x2tick text", ".ytick text", ".annotation-text"]
            labels = browser.execute_script(BOXES, ", ".join(f"[data-figure={name}] {text}" for text in texts))
            assert len(labels) > 6
            for one, other in combinations(labels, 2):
                apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
                assert apart, (name, one, other)
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_what_a_stranger_wrote_is_shown_and_does_nothing(browser: Any, opened: Open, copied: RunLayout) -> None:
    opened(poisoned(copied))
    browser.execute_script(
        "document.querySelectorAll('details').forEach(d => { d.open = true; });"
        "document.querySelectorAll('.job').forEach(j => { j.hidden = false; });"
    )
    for option in browser.find_elements("css selector", "#choose-job option"):
        browser.execute_script(
            "const s = arguments[0].parentNode; s.value = arguments[0].value; s.dispatchEvent(new Event('change'))",
            option,
        )
    until(browser, "!document.querySelector('.figure[data-drawn=yes]')")
    # Names in pictures are hovered, too: plotly reads markup of its own in them.
    for place in (0, -1):
        browser.execute_script(
            "for (const box of document.querySelectorAll('.figure[data-drawn=done]')) {"
            "  const number = arguments[0] < 0 ? box.data.length - 1 : 0, trace = box.data[number];"
            "  const place = (trace.xaxis || 'x') + (trace.yaxis || 'y');"
            "  const point = trace.type === 'heatmap' ? [0, 0] : 0;"
            "  Plotly.Fx.hover(box, [{curveNumber: number, pointNumber: point}], place);"
            "}",
            place,
        )
    time.sleep(0.3)
    assert browser.execute_script("return typeof window.hacked") == "undefined"
    assert browser.execute_script("return document.querySelectorAll('main img, main iframe, main script').length") == 0
    links = "[...document.querySelectorAll('a')].filter(a => !(a.getAttribute('href') || '#').startsWith('#')).length"
    assert browser.execute_script(f"return {links}") == 0, "neither in the page nor in a picture"
    svg_links = "[...document.querySelectorAll('svg a')].length"
    assert browser.execute_script(f"return {svg_links}") == 0
    body = browser.execute_script("return document.body.innerText")
    assert "<script>window.hacked=1</script>" in body and "javascript:window.hacked=1" in body
    tick = "[...document.querySelectorAll('.ytick text')].map(t => t.textContent)"
    assert any("<script>" in text for text in browser.execute_script(f"return {tick}")), "shown letter by letter"
    assert complaints(browser) == []


def test_a_run_without_results_is_a_page_without_pictures(browser: Any, opened: Open, copied: RunLayout) -> None:
    for job in list(copied.job_dirs()):
        job.results.unlink()
    opened(copied)
    assert browser.find_elements("css selector", ".figure") == []
    assert "Nothing yet." in browser.execute_script("return document.body.innerText") and complaints(browser) == []
