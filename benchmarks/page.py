"""The page of `mambamatcher serve` in a real browser: clicks and restoring a session, with few and with many targets.

    python -m benchmarks.page --save benchmarks/results

Targets are copies of the example's photo under other names. A click is timed from the press of the mouse to the match
on the screen; restoring from the reload to the last thumbnail. Model `lite`; needs chromium, as the browser tests do.
"""

import argparse
import json
import statistics
import sys
import time
from dataclasses import asdict
from pathlib import Path

from mambamatcher.benchmark.measurement import circumstances
from tests.attack.harness import running
from tests.web.browser import NOSE, found, kept, launched_browser, mark, source_of
from tests.web.test_browser_session import ADD_TARGETS, load_example

CLICKS = 10
TARGETS = (1, 200, 500)


def main() -> None:
    """Measure, print, and save if wanted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--save", type=Path, help="folder for page.json")
    arguments = parser.parse_args()
    command = [sys.executable, "-m", "mambamatcher", "serve", "--port", "0", "--model", "lite"]
    result = {"circumstances": asdict(circumstances())}
    with running(command) as server, launched_browser() as browser:
        for count in TARGETS:
            result[f"{count} targets"] = measured(browser, f"http://{server.host}:{server.port}", count)
        result["server's peak memory, MB"] = server.peak_megabytes()
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.save is not None:
        (arguments.save / "page.json").write_text(text + "\n")


def measured(browser, address: str, count: int) -> dict[str, float]:
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(address)
        started = time.perf_counter()
        load_example(page)
        mark(page, NOSE)
        first = time.perf_counter() - started
        if count > 1:
            page.evaluate(ADD_TARGETS, count - 1)
        kept(page)
        started = time.perf_counter()
        page.reload()
        page.wait_for_function("(count) => document.querySelectorAll('.strip li').length === count", arg=count)
        restored = time.perf_counter() - started
        clicks = [clicked(page, (0.2 + 0.05 * number, 0.4)) for number in range(CLICKS)]
    return {
        "example loaded and first point matched, s": first,
        "restored after a reload, s": restored,
        "click, median s": statistics.median(clicks[1:]),  # the first one sends the images again
        "click, longest s": max(clicks[1:]),
    }


def clicked(page, place: tuple[float, float]) -> float:
    box = source_of(page).bounding_box()
    before = found(page).count()
    started = time.perf_counter()
    page.mouse.click(box["x"] + place[0] * box["width"], box["y"] + place[1] * box["height"])
    page.wait_for_function("(count) => document.querySelectorAll('#target .marker').length > count", arg=before)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
