"""Headless Chromium, driven over WebDriver, with the explorer in it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.support.ui import WebDriverWait

SCREENSHOTS: Final = Path(__file__).parents[2] / "build" / "explorer"
PATIENCE_SECONDS: Final = 60
DESKTOP: Final = (1280, 800)
PHONE: Final = (390, 844)

_ARGUMENTS: Final = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--hide-scrollbars",
)
# What a page cannot tell afterwards: faults before somebody looks, and what its policy refused.
_WATCH: Final = """
globalThis.faults = [];
addEventListener("securitypolicyviolation", ({violatedDirective, blockedURI}) =>
  faults.push(`${violatedDirective} ${blockedURI}`));
addEventListener("error", ({message}) => faults.push(message));
addEventListener("unhandledrejection", ({reason}) => faults.push(`${reason}`));
"""


class MissingBrowserError(Exception):
    """Chromium or its driver is not installed."""


@dataclass(frozen=True, slots=True)
class Page:
    driver: webdriver.Chrome
    address: str

    def open(self, place: str = "", **state: str) -> None:
        self.driver.get("about:blank")
        query = "?" + urlencode(state, quote_via=quote) if state else ""
        self.driver.get(f"{self.address}/ui#/{place}{query}")
        if place:
            self.until("return !!globalThis.explorer?.plan")

    def run(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(script, *arguments)

    def until(self, script: str, *arguments: object) -> Any:
        wait = WebDriverWait(self.driver, PATIENCE_SECONDS, poll_frequency=0.05)
        return wait.until(lambda driver: driver.execute_script(script, *arguments))

    def text(self, selector: str) -> str:
        return self.driver.find_element(By.CSS_SELECTOR, selector).text

    def type(self, selector: str, text: str) -> None:
        field = self.driver.find_element(By.CSS_SELECTOR, selector)
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(text)

    def click(self, selector: str, *, by: str = By.CSS_SELECTOR) -> None:
        """Click an element, or what the page puts in its place meanwhile."""
        wait = WebDriverWait(
            self.driver, PATIENCE_SECONDS, ignored_exceptions=[StaleElementReferenceException]
        )

        def click(driver: WebDriver) -> bool:
            driver.find_element(by, selector).click()
            return True

        wait.until(click)

    def press(self, *keys: str) -> None:
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def tab_to(self, element: str) -> None:
        """Move the focus to an element by the Tab key alone."""
        for _ in range(200):
            if self.run("return document.activeElement.id") == element:
                return
            self.press(Keys.TAB)
        raise AssertionError(f"Tab does not lead to {element}")

    def size(self, width: int, height: int, *, is_phone: bool = False) -> None:
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 2 if is_phone else 1, "mobile": is_phone},
        )
        self.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": is_phone})

    def prefer(self, scheme: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def screenshot(self, name: str) -> None:
        """Write what is shown below ``build/``."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        # Two frames later all that was changed has been painted.
        self.driver.execute_async_script(
            "const [done] = arguments; requestAnimationFrame(() => requestAnimationFrame(done))"
        )
        assert self.driver.save_screenshot(str(SCREENSHOTS / f"{name}.png"))

    def faults(self) -> list[str]:
        """Errors of scripts, what the page's policy refused, and errors on the console."""
        log = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        lines = [line["message"] for line in log if line["level"] == "SEVERE"]
        return [*self.run("return globalThis.faults ?? []"), *lines]


@contextmanager
def chromium(profile: Path) -> Iterator[webdriver.Chrome]:
    """Yield a browser for the time of a block.

    Raises MissingBrowserError if it is not installed.
    """
    program, server = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or server is None:
        raise MissingBrowserError("Chromium is missing: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in (*_ARGUMENTS, f"--user-data-dir={profile}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, Service(server))
    try:
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _WATCH})
        yield driver
    finally:
        driver.quit()
