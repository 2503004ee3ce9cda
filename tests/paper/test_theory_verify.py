"""The registry, the figures and the command."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from paper import theory
from paper.cli import app
from paper.plots import save
from paper.theory import picard
from paper.theory.page import fill
from torchfru import FRU

QUICK = ("vandermonde", "expressive-power", "gradient-rnn")


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["verify", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def test_every_claim_has_a_file_that_measures_it() -> None:
    folder = Path(theory.__file__).parent
    for module, function in theory.CLAIMS.values():
        text = (folder / f"{module}.py").read_text()
        assert f"def {function}(settings: Settings) -> Finding:" in text


def test_json_has_what_machines_need(tmp_path: Path) -> None:
    code, _ = run(
        "--claim", "vandermonde", "--claim", "gradient-rnn", "--json", f"{tmp_path}/f.json"
    )
    records = json.loads((tmp_path / "f.json").read_text())
    assert code == 0
    assert [record["claim"] for record in records] == ["vandermonde", "gradient-rnn"]
    for record in records:
        assert {"claim", "verdict", "tried", "worst", "bound", "seconds"} <= set(record)
        assert record["verdict"] == "holds"


def test_the_table_names_claim_and_verdict() -> None:
    _, output = run("--claim", "gradient-sru")
    assert "gradient-sru" in output
    assert "refuted as stated" in output
    assert "counterexample" in output


def test_a_refuted_claim_is_no_error_and_a_failed_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("--claim", "gradient-sru")[0] == 0
    sound = theory.check("vandermonde")
    monkeypatch.setattr(theory, "check", lambda *_: replace(sound, sound=False))
    assert run("--claim", "vandermonde")[0] == 1


def test_an_unknown_claim_is_named() -> None:
    with pytest.raises(ValueError, match="no claim 'gradients'; there are fru-summary"):
        run("--claim", "gradients")


def test_without_mpmath_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "paper.theory.gradient_rnn", raising=False)
    monkeypatch.setitem(sys.modules, "mpmath", None)
    with pytest.raises(ModuleNotFoundError, match=r"gradient-rnn needs mpmath: pip install"):
        theory.check("gradient-rnn")


def test_trained_weights_reach_the_claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save(FRU(1, 4, seq_len=9, num_freqs=3, freq_dim=2).state_dict(), tmp_path / "w.pt")
    monkeypatch.setattr(picard, "LENGTHS", (10, 100))
    monkeypatch.setattr(picard, "GAINS", (1.0, 2.0))
    _, output = run("--claim", "picard", "--weights", str(tmp_path / "w.pt"))
    assert "trained weights, R = " in output
    save_file(torch.load(tmp_path / "w.pt", weights_only=True), tmp_path / "w.safetensors")
    layers = [picard.load_layer(tmp_path / name, 10) for name in ("w.pt", "w.safetensors")]
    assert torch.equal(layers[0].weight_ug_l0, layers[1].weight_ug_l0)
    assert "trained weights are not measured" in run("--claim", "picard")[1]


def test_help_has_an_example() -> None:
    assert "Example: python -m paper verify" in run("--help")[1]


@pytest.mark.parametrize("name", QUICK)
def test_figures_show_every_line(name: str, tmp_path: Path) -> None:
    finding = theory.check(name)
    save(finding.panels, tmp_path / "figure.svg")
    text = (tmp_path / "figure.svg").read_text()
    assert finding.panels
    for panel in finding.panels:
        assert all(name in text for name in panel.limits)
        for curve in panel.curves:
            assert curve.label in text
            assert len(curve.x) == len(curve.y) > 1
    assert text.count('id="line2d') > 2 * sum(len(panel.curves) for panel in finding.panels)


def test_the_same_seed_gives_the_same_figure_and_leaves_torch_s_alone(tmp_path: Path) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    for folder in ("a", "b"):
        save(theory.check("gradient-rnn").panels, tmp_path / folder / "figure.svg")
    first, second = ((tmp_path / folder / "figure.svg").read_bytes() for folder in ("a", "b"))
    assert first == second
    assert torch.equal(torch.get_rng_state(), before)


def test_the_docs_name_every_claim_and_figure() -> None:
    docs = Path(__file__).parents[2] / "docs"
    text = (docs / "theory.md").read_text()
    for name in theory.CLAIMS:
        assert f"## {name}" in text
        assert f"(figures/theory/{name}.svg)" in text
        assert (docs / "figures" / "theory" / f"{name}.svg").stat().st_size > 1_000


def test_the_page_shows_the_committed_findings() -> None:
    root = Path(__file__).parents[2]
    page = (root / "docs" / "theory.md").read_text()
    findings = json.loads((root / "results" / "theory.json").read_text())
    assert [finding["claim"] for finding in findings] == list(theory.CLAIMS)
    assert fill(page, findings) == page


def test_a_page_without_a_place_for_a_claim_is_refused() -> None:
    findings = json.loads((Path(__file__).parents[2] / "results" / "theory.json").read_text())
    with pytest.raises(ValueError, match="no place for verdicts"):
        fill("# A page", findings)


def test_findings_go_into_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    places = ("verdicts: begin", "verdicts: end", "vandermonde: begin", "vandermonde: end")
    page.write_text("\n".join(f"<!-- {place} -->" for place in places))
    assert run("--claim", "vandermonde", "--page", str(page))[0] == 0
    assert "| [vandermonde](#vandermonde) | holds | 0 | 0 |" in page.read_text()
    assert "- tried: " in page.read_text()
