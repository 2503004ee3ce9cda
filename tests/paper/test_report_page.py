"""The report's page in a browser: drawn, whole in one file, and readable on a phone."""

from __future__ import annotations

import pytest
from report_helpers import make_beyond, make_results, make_run, save

from paper.report import read_library, write_report
from paper.report.content import Figure
from paper.report.page import Report

DEAD_LINKS = """() => [...document.querySelectorAll('[href^="#"], use')]
    .map(e => (e.getAttribute('href') || e.getAttribute('xlink:href')).slice(1))
    .filter(id => !document.getElementById(id))"""
REPEATED_IDS = """() => [...document.querySelectorAll('[id]')].map(e => e.id)
    .filter((id, place, every) => every.indexOf(id) !== place)"""
SIZES = """() => [...document.querySelectorAll('.panel svg')].map(e => {
    const box = e.getBoundingClientRect(); return [box.width, box.height] })"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page of a full set of records with some of each trouble, and how many panels it has."""
    folder = tmp_path_factory.mktemp("report")
    results = folder / "results"
    make_results(results)
    make_beyond(results)
    save(
        results,
        make_run("pixel-mnist", "lstm", epochs=6),
        make_run("pixel-mnist", "rnn", epochs=3, diverged=True),
        make_run("pixel-mnist", "fru-60-10", 1, epochs=30, status="running"),
    )
    (results / "imdb" / "sru-seed0.json").write_text("{")
    library = read_library(results)
    write_report(library, folder / "report.html")
    report = Report(library)
    parts = [part for section in report.sections for part in section.content] + report.opening
    panels = sum(len(part.panels) for part in parts if isinstance(part, Figure))
    return folder / "report.html", panels


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_page(browser, page, width, scheme):
    path, panels = page
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    tab = context.new_page()
    trouble, requests = [], []
    tab.on("console", lambda message: trouble.append(message.text))
    tab.on("pageerror", lambda error: trouble.append(str(error)))
    tab.on("request", lambda request: requests.append(request.url))
    tab.goto(path.as_uri())
    assert requests == [path.as_uri()]
    assert trouble == []
    sizes = tab.evaluate(SIZES)
    assert len(sizes) == panels == 53
    assert all(wide > 200 and high > 100 for wide, high in sizes)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.evaluate(DEAD_LINKS) == []
    assert tab.evaluate(REPEATED_IDS) == []
    assert tab.evaluate("document.querySelectorAll('main > section').length") == 15
    verdicts = tab.locator("header .good, header .mixed, header .bad, #claims td:nth-child(2)")
    boxes = [verdict.bounding_box() for verdict in verdicts.all()]
    assert len(boxes) > 20
    assert all(box["x"] + box["width"] <= width for box in boxes)  # nothing to scroll sideways
    context.close()


def test_a_number_leads_to_its_record(browser, page):
    tab = browser.new_page()
    tab.goto(page[0].as_uri())
    record = tab.locator("#record-imdb-fru-5-10-seed1")
    assert not record.is_visible()
    tab.locator('#imdb a[href="#record-imdb-fru-5-10-seed1"]').click()
    assert record.is_visible()
    assert "SHA-256" in record.inner_text()
    tab.close()
