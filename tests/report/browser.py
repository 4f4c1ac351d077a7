"""A browser for reports: Debian's Chromium, headless, driven by selenium, without a network."""

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

REQUIRED = "DAY0_BROWSER"  # "required": a machine without Chromium fails instead of skipping


def missing() -> str:
    """What a browser test needs and this machine has not; "" when all is there."""
    names = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if find_spec("selenium") is None:
        names.append("selenium (pip)")
    return ", ".join(names)


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    """A selenium driver; a page that asks for any address but its own file gets none."""
    if reason := missing():
        if os.environ.get(REQUIRED) == "required":
            pytest.fail(f"{REQUIRED}=required, and there is no {reason}")
        pytest.skip(f"no {reason}: apt-get install chromium chromium-driver")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for argument in (
        *("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "hide-scrollbars"),
        *("disable-background-networking", "no-first-run", "window-size=1280,900"),
        "host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE localhost",
    ):
        options.add_argument(f"--{argument}")
    service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    driver.quit()
