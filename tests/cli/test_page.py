"""The page of one's runs in a browser: whole in one file, drawn, readable, and safe."""

from __future__ import annotations

import json
import re
from pathlib import Path

import hostile
import numpy as np
import pytest
from training_helpers import torchfru_here

from torchfru.records import RunResult

# not a class of the page: what a stranger's record might try
EVIL = "<img src=x onerror=alert(1)>&\x1b[2J\u2028</script><script>alert(2)</script>"
SIZES = """() => [...document.querySelectorAll('figure svg')].map(e => {
    const box = e.getBoundingClientRect(); return [box.width, box.height] })"""
OVERLAPS = """() => [...document.querySelectorAll('figure svg')].filter(e => {
    const left = e => e.getBoundingClientRect().left;
    return [...e.querySelectorAll('text')].some(t => left(t) < left(e) - 1)
}).length"""


def small(layer: str) -> list[str]:
    options = ["--model", layer, "--set", "model.hidden_size=6", "--threads=1", "--accelerator=cpu"]
    return [*options, "--set", "training.lr=0.02"]


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    """Runs on two files: sequences of three classes, with validation, and a series of two columns;
    and records that were written by hand."""
    folder = tmp_path_factory.mktemp("page")
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=60)
    x = labels[:, None] + rng.normal(size=(60, 8))
    np.savez(folder / "x.npz", sequences=x, labels=np.array(["a", "b", "c<b>"])[labels])
    wave = np.sin(np.arange(200) / 4)
    table = "\n".join(f"{a:.3f},{10 * a:.3f}" for a in wave)
    (folder / "y.csv").write_text(f"up,down\n{table}\n")
    results = folder / "results"
    place = ["--results", str(results)]
    for layer in ("gru", "rnn"):
        held = ["--set", "data.validation=0.2", "--epochs", "4"]
        torchfru_here("train", str(folder / "x.npz"), *small(layer), *place, *held)
    torchfru_here(
        *("train", str(folder / "y.csv"), *small("gru"), *place, "--epochs", "2"),
        *("--set", "data.length=12"),
    )
    return results


def strange(folder: Path) -> None:
    """A record with hostile names, one that diverged, and one whose predictions are damaged."""
    config = {"model": {"layer": EVIL}, "training": {"epochs": EVIL, EVIL: [1, None]}}
    epochs = [
        {"epoch": 1, "train_loss": 1e-320, "test_accuracy": 10**400, "seconds": -1.0},
        {"epoch": 2, "train_loss": None, "test_accuracy": 5e307},
        {"train_loss": 3, "test_mse": -1e308},
    ]
    counts = {"classes": [EVIL, ""], "counts": {EVIL: {EVIL: 10**30, "": 1}}}
    forecast = {"window": 10**9, "channel": EVIL, "truth": [None, 1e308], "forecast": [None, None]}
    outcome = {"part": EVIL, "epoch": 3, **counts, "forecasts": [forecast]}
    more = {"commit": EVIL, "data": {EVIL: EVIL}, "versions": {EVIL: EVIL}, "split": {EVIL: 1.0}}
    (folder / "evil").mkdir(parents=True)
    for name, kept in (("good", outcome), ("bad", {"part": 3, "epoch": 1}), ("none", None)):
        record = RunResult(
            EVIL, EVIL, 0, config, 10**30, epochs=epochs, measurements={"outcome": kept}, **more
        )
        (folder / "evil" / f"{name}-seed0.json").write_text(json.dumps(vars(record)))
    (folder / "evil" / "cut-seed0.json").write_text("{")


def write(page: Path, *paths: Path) -> Path:
    torchfru_here("runs", *map(str, paths), "--html", str(page))
    return page


def opened(browser, page: Path, width: int = 1280, scheme: str = "light"):
    """A tab with the page, without trouble in its console, and without a request beside it."""
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    tab = context.new_page()
    trouble: list[str] = []
    for event in ("console", "pageerror", "dialog"):
        tab.on(event, lambda message: trouble.append(str(message)))
    tab.on("request", lambda request: trouble.append(request.url))
    tab.goto(page.as_uri())
    assert trouble == [page.as_uri()]
    return tab


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_runs_are_drawn(browser, tmp_path, results, width, scheme):
    tab = opened(browser, write(tmp_path / "page.html", results), width, scheme)
    sizes = tab.evaluate(SIZES)
    # 3 measures by epoch and by time, 2 matrices; again 3 measures, 2 channels in 3 windows
    assert len(sizes) == 6 + 2 + 6 + 6
    assert all(wide > 100 and high > 100 for wide, high in sizes)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.evaluate(OVERLAPS) == 0
    text = tab.locator("body").inner_text()
    assert "c<b>" in text
    for words in ("Finished after 4 of 4 epochs.", "up, window 1", "Settings that differ"):
        assert words in text
    tab.context.close()


def test_the_numbers_of_the_page_are_those_of_the_record(browser, tmp_path, results):
    (path,) = results.glob("x-*/gru-seed0.json")
    record = RunResult.load(path)
    tab = opened(browser, write(tmp_path / "page.html", path))
    row = tab.locator("#runs tbody tr").inner_text().split("\t")
    assert f"{record.last['test_accuracy']:.2f} %" in row
    assert f"{record.parameters:,}" in row
    counts = record.outcome.counts
    total = sum(n for row in counts.values() for n in row.values())
    assert total == 12
    for name in record.outcome.classes:
        true = sum(counts.get(name, {}).values())
        predicted = sum(row.get(name, 0) for row in counts.values())
        right = counts.get(name, {}).get(name, 0)
        cells = tab.locator(f"article tbody tr:has(th:text-is('{name}')) td").all_inner_texts()
        shown = [f"{right / n:.3f}" if n else "—" for n in (predicted, true)]
        assert [*cells[:2], cells[3]] == [*shown, str(true)]
    wrong = [(n, t, p) for t, row in counts.items() for p, n in row.items() if t != p]
    often = max(wrong, key=lambda one: one[0])
    text = tab.locator(".mistakes").inner_text()
    assert text.startswith("Most frequent mistakes: ")
    assert f"{often[1]} taken for {often[2]} ({often[0]})" in text
    tab.context.close()


def test_headings_sort_and_legends_hide(browser, tmp_path, results):
    tab = opened(browser, write(tmp_path / "page.html", results))
    heading = tab.locator("#runs thead button", has_text="parameters")

    def column() -> list[int]:
        cells = tab.locator("#runs tbody td[data-heading=parameters]").all_inner_texts()
        return [int(cell.replace(",", "")) for cell in cells]

    heading.click()
    assert column() == sorted(column())
    heading.click()
    assert column() == sorted(column(), reverse=True)
    assert len(set(column())) > 1
    line = tab.locator("#data-0 > .charts .r0 .line").first
    assert line.is_visible()
    tab.locator("#data-0 .legend button").first.click()
    assert not line.is_visible()
    tab.context.close()


def test_a_strangers_record_is_only_text(browser, tmp_path):
    strange(tmp_path)
    page = write(tmp_path / "page.html", tmp_path)
    tab = opened(browser, page)
    text = tab.locator("body").inner_text()
    assert "<img src=x onerror=alert(1)>&\\x1b[2J\\u2028</script>" in text
    assert tab.locator("img").count() == 0
    assert tab.locator("script").count() == 1
    assert "Its predictions cannot be shown: its part cannot be 3." in text
    assert "cut-seed0.json is not a run record" in text
    assert "\x1b" not in page.read_text()
    assert not re.search(r"nan|inf\b", page.read_text().partition("<body>")[2], re.IGNORECASE)
    tab.context.close()


def test_no_runs(browser, tmp_path):
    tab = opened(browser, write(tmp_path / "page.html", tmp_path / "nothing"))
    assert tab.locator("h1").inner_text() == "0 runs"
    tab.context.close()


def test_spoiled_records_do_not_stop_the_page(tmp_path, results):
    """Each is shown, or named as one that could not be read."""
    (path,) = results.glob("x-*/gru-seed0.json")
    folder = tmp_path / "results" / "x"
    folder.mkdir(parents=True)
    spoiled = dict(hostile.records(json.loads(path.read_text())))
    for name, content in spoiled.items():
        (folder / f"{name}-seed0.json").write_bytes(content)
    page = write(tmp_path / "page.html", tmp_path / "results").read_text()
    assert len(spoiled) > 50
    for name in spoiled:
        assert f"{name}-seed0" in page
