"""The HTML report in a browser: it is ready within a second, does what is clicked, and complains of
nothing."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from day0.report import html
from day0.report.analysis_page import analysis_page
from tests.report.browser import browser as browser
from tests.report.pages import KIMI_K3, hostile_report, page_of, report_of

pytestmark = pytest.mark.slow
READY = "return performance.getEntriesByName('day0-interactive')[0].startTime"


class Screen:
    """A report on the screen."""

    def __init__(self, driver: Any, path: Path) -> None:
        self.driver, self.path = driver, path
        self.load()

    def load(self) -> None:
        self.driver.get(self.path.as_uri())

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def find(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def click(self, selector: str) -> None:
        found = self.find(selector)
        self.run("arguments[0].scrollIntoView({block: 'center'})", found)
        found.click()

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]


@pytest.fixture(scope="module")
def kimi_k3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "kimi k3.html"
    path.write_text(html.render(page_of(KIMI_K3)), encoding="utf-8")
    return path


@pytest.fixture
def screen(browser: Any, kimi_k3: Path) -> Iterator[Screen]:
    """Freshly loaded; whatever a test does, the console stays empty."""
    shown = Screen(browser, kimi_k3)
    yield shown
    assert shown.complaints() == []


def test_it_is_ready_within_a_second_and_loads_nothing_else(screen: Screen) -> None:
    times = []
    for _ in range(3):
        screen.load()
        times.append(screen.run(READY))
    print(f"interactive after {min(times):.0f} ms (three loads: {times})")
    assert min(times) < 1000
    assert screen.run("return performance.getEntriesByType('resource').length") == 0


def test_a_click_sorts_the_inventory(screen: Screen) -> None:
    column = "return [...document.querySelectorAll('#table-inventory tbody td:nth-child(6)')]"
    by_params = f"{column}.map((cell) => Number(cell.dataset.value))"
    params = [entry["params"] for entry in report_of(KIMI_K3)["inventory"]]
    assert screen.run(by_params) == params
    screen.click("#table-inventory th:nth-child(6) button")
    assert screen.run(by_params) == sorted(params, reverse=True)
    screen.click("#table-inventory th:nth-child(6) button")
    assert screen.run(by_params) == sorted(params)
    screen.click("#table-inventory th:nth-child(2) button")
    families = f"{column.replace('6', '2')}.map((cell) => cell.querySelector('code').textContent)"
    names = screen.run(families)
    assert names == sorted(names)


def test_a_layer_of_the_strip_shows_its_dataflow(screen: Screen) -> None:
    assert not screen.find("#flows-2").is_displayed()
    screen.click(".strip button:nth-child(4)")
    assert screen.find("#flows-2").is_displayed()
    assert not screen.find("#flows-0").is_displayed()
    assert "mla" in screen.find("#flows-2 figcaption").text


def test_an_operator_tells_about_itself(screen: Screen) -> None:
    screen.click(".strip button:nth-child(1)")
    node = screen.find("#diagram-kind-0 .node[data-details]")
    screen.run("arguments[0].focus()", node)
    details = screen.find(f"#{node.get_attribute('data-details')}")
    assert details.is_displayed()
    assert "layers.0.mixer.mix" in details.text
    report = report_of(KIMI_K3)
    mix = next(op for op in report["graph"]["ops"] if op["id"] == "layers.0.mixer.mix")
    assert report["inventory"][mix["inventory"]]["verdict"] in details.text
    assert not screen.find("#diagram-kind-0 .hint").is_displayed()
    # A fact's path leads to the row that says where the fact comes from.
    assert not screen.find("#table-facts").is_displayed()
    details.find_element("link text", "attn_residual.block_size").click()
    row = screen.find("[id='fact-attn_residual.block_size']")
    assert row.is_displayed()
    line = row.find_element("xpath", "./ancestor::tr").text
    assert "config.json:text_config.attn_res_block_size" in line


def test_zoom_makes_the_picture_larger(screen: Screen) -> None:
    width = "return document.querySelector('#diagram-model svg').getBoundingClientRect().width"
    before = screen.run(width)
    screen.click("#diagram-model [data-zoom='in']")
    assert screen.run(width) == pytest.approx(1.3 * before, rel=0.02)
    screen.click("#diagram-model [data-zoom='fit']")
    assert screen.run(width) == pytest.approx(before, rel=0.02)


def test_light_and_dark(screen: Screen) -> None:
    back = "return getComputedStyle(document.body).backgroundColor"
    found = set()
    for scheme in ("light", "dark"):
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        screen.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        followed = screen.run(back)
        screen.click("#theme")
        toggled = screen.run(back)
        assert followed != toggled
        found |= {followed, toggled}
        screen.run("localStorage.clear(); delete document.documentElement.dataset.theme")
    assert len(found) == 2
    # A plot follows, since its colours are the page's.
    line = "return getComputedStyle(document.querySelector('.plot svg text')).fill"
    dark = screen.run(line)
    screen.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert screen.run(line) != dark


def test_a_phone_scrolls_one_way_only(screen: Screen, tmp_path: Path) -> None:
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    screen.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    screen.load()
    assert screen.run("return document.documentElement.scrollWidth") <= 390
    path = tmp_path / "phone.png"
    assert screen.driver.save_screenshot(str(path))
    picture = path.read_bytes()
    assert struct.unpack(">II", picture[16:24]) == (780, 1688)
    assert len(picture) > 30_000  # an empty page of this size has a tenth
    screen.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_words_of_a_checkpoint_are_not_obeyed(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "hostile.html"
    path.write_text(html.render(analysis_page(hostile_report())), encoding="utf-8")
    hostile = Screen(browser, path)
    assert hostile.run("return document.title") == "made up - day0"
    assert hostile.run("return document.images.length") == 0
    assert hostile.complaints() == []
