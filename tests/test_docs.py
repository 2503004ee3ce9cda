"""The documentation: its code runs, and the site is built from it without a warning."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
import torch
from training_helpers import python_command

import torchfru

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
OTHERWISE_TESTED = {"data", "depth", "training"}  # beside the code that they are about
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
WITH_CODE = {path.stem for path in DOCS.glob("*.md") if PYTHON.search(path.read_text())}


# torch.export and torch.onnx warn about their own parts.
QUIET = {"export": pytest.mark.filterwarnings("ignore")}


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=QUIET.get(page, ()))
        for page in sorted(WITH_CODE - OTHERWISE_TESTED)
    ],
)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    torch._dynamo.reset()  # it remembers a loop of the batch size that another export had
    code = "\n".join(PYTHON.findall((DOCS / f"{page}.md").read_text()))
    assert code, "the page has no code any more"
    exec(compile(code, f"docs/{page}.md", "exec"), {"__name__": page})


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site as `make docs` builds it, elsewhere."""
    folder = tmp_path_factory.mktemp("docs")
    options = ("--fail-on-warning", "--keep-going", "--quiet", "-d", str(folder / "doctrees"))
    command = (str(Path(sys.executable).parent / "sphinx-build"), *options)
    assert " ".join(options[:3]) in (ROOT / "Makefile").read_text()
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    built = python_command(*command, str(DOCS), str(folder / "site"), env=environment)
    assert built.returncode == 0, built.stderr
    return folder / "site"


def test_the_site_has_every_page_and_every_public_name(site):
    for path in DOCS.glob("*.md"):
        assert (site / f"{path.stem}.html").exists()
    reference = (site / "reference.html").read_text()
    for name in (*torchfru.__all__, *torchfru.estimators.__all__):
        assert f'id="torchfru.{name}"' in reference, name


def test_the_site_loads_nothing_from_elsewhere(site):
    loaded = re.compile(r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=\"(?:https?:)?//[^\"]*")
    for path in site.rglob("*.html"):
        assert not loaded.findall(path.read_text()), path
    for path in site.rglob("*.css"):
        assert not re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", path.read_text()), path


def test_links_to_records_lead_to_copies_of_them(site):
    page = (site / "results.html").read_text()
    copies = re.findall(r'href="(_downloads/[^"]*/fru-recipe-seed0\.json)"', page)
    records = {(site / copy).read_bytes() for copy in copies}
    assert (ROOT / "results" / "pixel-mnist" / "fru-recipe-seed0.json").read_bytes() in records


def test_the_accuracies_by_depth_are_those_of_the_results():
    page = (DOCS / "depth.md").read_text().partition("## Results")[2]
    rows = [line for line in page.splitlines() if re.match(r"\| [\d,]+ \|", line)]
    assert len(rows) == 8
    found = (DOCS / "results.md").read_text().splitlines()
    assert [row for row in rows if row not in found] == []
