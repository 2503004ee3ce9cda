"""The report's numbers: what counts, what is set beside the paper, what is said to be missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from report_helpers import make_beyond, make_measurement, make_results, make_run, make_sweep, save
from typer.testing import CliRunner

from paper.cli import app
from paper.experiments import EXPERIMENTS
from paper.plan import MEASUREMENTS, PLAN
from paper.report import build_report, read_library
from paper.report.content import Table
from paper.report.glance import ORDER
from paper.report.page import Report
from paper.report.parts import curves
from paper.report.render import fill_readme, to_markdown
from torchfru.records import sweep_path

ROOT = Path(__file__).parents[2]
TUNED = "fru-60-10-tuned"


def report_of(folder: Path, *runs) -> Report:
    save(folder, *runs)
    return Report(read_library(folder))


def text(cell) -> str:
    return cell if isinstance(cell, str) else " ".join(link.text for link in cell)


def table(report: Report, section: str, place: int = 0) -> dict[str, dict[str, str]]:
    """A table of a section, by row and column."""
    content = next(s.content for s in report.sections if s.name == section)
    found = [part for part in content if isinstance(part, Table)][place]
    return {
        text(row[0]): dict(zip(found.header, map(text, row), strict=True)) for row in found.rows
    }


def verdicts(report: Report) -> dict[str, str]:
    return {claim.sentence: claim.verdict for claim in report.claims}


def test_mean_deviation_and_difference_over_the_seeds_that_count(tmp_path):
    seeds = [make_run("imdb", "fru-5-10", k, final=v) for k, v in enumerate((86.0, 87.0, 88.0))]
    running = make_run("imdb", "fru-5-10", 3, epochs=5, final=10.0, status="running")
    diverged = make_run("imdb", "fru-5-10", 4, epochs=5, final=10.0, diverged=True)
    row = table(report_of(tmp_path, *seeds, running, diverged), "imdb")["FRU 5,10"]
    assert row["ours, %"] == "87.00 ± 1.00 (1 of 5 diverged)"
    assert row["paper, %"] == "86.71"
    assert row["difference"] == "+0.29"
    assert row["seeds"] == "0 1 2 3 4"
    assert row["diverged"] == "1"
    assert row["epochs"] == "20 of 20"
    assert row["minutes"] == "20.0"
    assert row["remarks"] == "seed 3 unfinished: 5 of 20 epochs, 5 minutes"


def test_the_last_epoch_counts_and_not_the_best(tmp_path):
    run = make_run("imdb", "lstm", final=80.0)
    run.epochs[3]["test_accuracy"] = 99.0
    assert table(report_of(tmp_path, run), "imdb")["LSTM"]["ours, %"] == "80.00"


def test_sizes_stand_beside_the_papers(tmp_path):
    fru, lstm = make_run("imdb", "fru-5-10"), make_run("imdb", "lstm")
    fru.parameters, lstm.parameters = 12_345, 123_450
    row = table(report_of(tmp_path, fru, lstm), "imdb")["FRU 5,10"]
    names = ("variables", "the paper's", "of LSTM's", "in the paper")
    assert [row[name] for name in names] == ["12,345", "12K", "0.10", "0.09"]


def test_a_run_that_was_cut_short_is_marked(tmp_path):
    report = report_of(tmp_path, make_run("pixel-mnist", "lstm", epochs=6, final=95.0))
    row = table(report, "pixel-mnist")["LSTM"]
    assert row["difference"] == "-3.17*"
    assert row["epochs"] == "6 of 100"
    assert "not comparable in training length: 6 of 100 epochs" in row["remarks"]
    assert (
        "not comparable: pixel-mnist LSTM 95.00 % after 6 of 100 epochs (98.17 %)"
        in report.summary[0]
    )


def test_other_settings_are_named_and_prove_nothing(tmp_path):
    run = make_run("imdb", "rnn", final=50.0)
    run.config["training"]["lr"] = 0.5
    report = report_of(tmp_path, run)
    assert table(report, "imdb")["RNN"]["remarks"] == "training.lr 0.5 instead of 0.01"
    assert "other settings than the authors', and so not comparable: imdb RNN" in report.summary[0]
    assert verdicts(report)["RNN fails to converge on imdb"] == "open"


def test_a_tuned_model_says_that_its_settings_are_not_the_authors(tmp_path):
    report = report_of(tmp_path, make_run("pixel-mnist", TUNED))
    rows = table(report, "pixel-mnist")
    assert rows["FRU 60,10 tuned"]["paper, %"] == "97.61"
    assert (
        "of our own (the paper's in brackets): pixel-mnist FRU 60,10 tuned 96.00 % (97.61 %)"
        in report.summary[1]
    )
    assert "pixel-mnist (RNN, LSTM, SRU, FRU 40,10, FRU 60,10)" in report.summary[0]  # not by tuned
    lr = {name: EXPERIMENTS["pixel-mnist"][name].training.lr for name in ("fru-60-10", TUNED)}
    remarks = rows["FRU 60,10 tuned"]["remarks"]
    assert remarks.startswith("not the authors': model.dropout ")
    assert "model.output relu instead of identity, " in remarks
    assert f"training.lr {lr[TUNED]} instead of {lr['fru-60-10']}" in remarks


def test_what_was_tried_is_listed_with_the_best_first(tmp_path):
    tried = make_sweep("imdb", "fru-5-10", (0.1, 80.0), (0.01, 90.0), (0.5, None))
    tried.config["model"]["dropout"] = 0.5
    tried.save(sweep_path(tmp_path, "imdb", "fru-5-10-0-more-dropout"))
    (tmp_path / "imdb" / "sweep-broken.json").write_text("{}")
    report = report_of(tmp_path, make_run("imdb", "fru-5-10"))
    content = next(s.content for s in report.sections if s.name == "imdb")
    found = [part for part in content if isinstance(part, Table)][1]
    rows = [[text(cell) for cell in row[1:]] for row in found.rows]
    other = "model.dropout 0.5 instead of 0.2"
    assert rows[0] == ["90.00", "0.01", "0.9", "5", "33%", other]
    assert [row[0] for row in rows] == ["90.00", "80.00"]  # no score, no row
    assert "is not a sweep" in report.library.broken["imdb/sweep-broken"]


def test_the_summary_begins_with_what_falls_short(tmp_path):
    runs = [make_run("imdb", "sru", final=80.0), make_run("imdb", "lstm", final=83.5)]
    first, _, last = report_of(tmp_path, *runs).summary
    assert "1 of the paper's 14 accuracies is reached, or missed by at most half a point" in first
    assert "Missed by more than half a point (the paper's in brackets): imdb SRU 80.00 %" in first
    assert "imdb (RNN, FRU 5,10, FRU 1,10)." in first
    assert f"Missing of what was planned, {len(PLAN) + len(MEASUREMENTS) - 2} in all" in last


def test_nothing_is_missing_when_all_is_there(tmp_path):
    make_results(tmp_path)
    library = read_library(tmp_path)
    assert library.missing == {}
    assert Report(library).summary[-1] == "Nothing that was planned is missing."
    (tmp_path / "imdb" / "rnn-seed0.json").unlink()
    save(tmp_path, make_run("imdb", "sru", epochs=7, status="running"))
    missing = {(str(run), how) for run, how in read_library(tmp_path).missing.items()}
    assert missing == {
        ("imdb rnn seed 0", "not begun"),
        ("imdb sru seed 0", "unfinished, 7 of 20 epochs, 7 minutes"),
    }


@pytest.mark.parametrize(("fru", "verdict"), [(1e-5, "holds"), (5e-4, "contradicted")])
def test_orders_of_magnitude_are_counted(tmp_path, fru, verdict):
    errors = {"rnn": 1e-2, "lstm": 1e-3, "sru": 2e-3, "fru": fru}
    runs = [make_run("mix-sin", model, final=error) for model, error in errors.items()]
    claim = report_of(tmp_path, *runs).claims[0]
    assert claim.verdict == verdict
    assert "against LSTM's 1.0e-03" in claim.found


def test_claims_on_gradients(tmp_path):
    runs = {model: make_run("gradients", model) for model in ("rnn", "lstm", "sru", "fru")}
    held = [
        c.verdict for c in report_of(tmp_path, *runs.values()).claims if c.section == "gradients"
    ]
    assert held == ["holds", "holds"]
    runs["fru"].measurements = runs["rnn"].measurements  # which fall
    runs["rnn"].measurements = make_run("gradients", "fru").measurements  # and which do not
    swapped = report_of(tmp_path, *runs.values())
    found = [c.verdict for c in swapped.claims if c.section == "gradients"]
    assert found == ["contradicted", "holds in part"]


def test_every_seed_counts_for_the_gradients(tmp_path):
    level, falling = (make_run("gradients", "fru", seed=seed) for seed in (0, 1))
    falling.measurements = make_run("gradients", "rnn").measurements
    claims = [c for c in report_of(tmp_path, level, falling).claims if c.section == "gradients"]
    assert claims[0].verdict == "contradicted"


@pytest.mark.parametrize(
    ("lstm", "verdict"), [(90.0, "holds"), (97.0, "contradicted"), (None, "open")]
)
def test_the_best_on_permuted_mnist(tmp_path, lstm, verdict):
    accuracies = {"rnn": 80.0, "sru": 92.0, "fru-60-10": 96.0}
    runs = [make_run("permuted-mnist", model, final=v) for model, v in accuracies.items()]
    runs.append(make_run("permuted-mnist", "lstm", final=lstm, epochs=None if lstm else 6))
    name = "FRU ends above SRU, LSTM and RNN on permuted MNIST"
    assert verdicts(report_of(tmp_path, *runs))[name] == verdict


@pytest.mark.parametrize(
    ("fru", "lstm", "verdict"),
    [
        ((8, 100), (None, 6), "open"),
        ((8, 100), (None, 9), "holds"),
        ((8, 100), (40, 100), "holds"),
        ((50, 100), (40, 45), "contradicted"),
        ((None, 100), (40, 45), "contradicted"),
        ((None, 12), (40, 45), "open"),
    ],
)
def test_who_reaches_97_percent_first(tmp_path, fru, lstm, verdict):
    for model, (there, epochs) in {"fru-60-10": fru, "lstm": lstm}.items():
        run = make_run("pixel-mnist", model, epochs=epochs)
        for epoch in run.epochs:
            reached = there is not None and epoch["epoch"] >= there
            epoch["test_accuracy"] = 97.0 if reached else 96.0
        save(tmp_path, run)
    name = "FRU converges fastest; LSTM reaches 97 % at around the 40th epoch"
    assert verdicts(Report(read_library(tmp_path)))[name] == verdict


@pytest.mark.parametrize(
    ("accuracies", "verdict"),
    [
        ({20: 95.0, 40: 96.0, 60: 97.0}, "holds"),
        ({20: 96.0, 40: 95.0, 60: 97.0}, "holds in part"),
        ({20: 97.0, 40: 96.0, 60: 95.0}, "contradicted"),
        ({20: 97.0}, "open"),
    ],
)
def test_more_frequencies_are_compared_with_the_next_smaller_number(tmp_path, accuracies, verdict):
    runs = [
        make_run("frequencies", f"steps784-{count}-0.25-25", final=accuracy)
        for count, accuracy in accuracies.items()
    ]
    claims = {c.sentence: c for c in report_of(tmp_path, *runs).claims}
    assert claims["More frequencies give a higher accuracy (784 steps)"].verdict == verdict


def test_a_curve_is_the_mean_of_the_seeds_that_count(tmp_path):
    runs = [make_run("imdb", "fru-5-10", k, final=v) for k, v in enumerate((86.0, 87.0, 91.0))]
    runs[2].epochs[4]["test_accuracy"] = None
    running = make_run("imdb", "fru-5-10", 3, epochs=5, final=10.0, status="running")
    diverged = [make_run("imdb", "fru-5-10", k, epochs=2, diverged=True) for k in (4, 5)]
    save(tmp_path, *runs, running, *diverged)
    group = read_library(tmp_path).group("imdb", "fru-5-10")
    mean, *others = curves({"FRU": (group, 2)}, "test_accuracy", by_time=True)
    assert mean.label == "FRU"
    assert mean.x == pytest.approx([minute for minute in range(1, 21) if minute != 5])
    assert mean.y[-1] == pytest.approx(88.0)
    assert mean.band[-1] == (86.0, 91.0)
    assert [curve.label for curve in others] == ["FRU (unfinished)", "FRU (diverged)", ""]
    assert [(len(curve.x), curve.kind, curve.band) for curve in others] == [
        (5, "faint", []),
        (2, "faint", []),
        (2, "faint", []),
    ]


def test_a_seed_that_fails_is_not_hidden_by_the_mean(tmp_path):
    runs = [make_run("memory", "adding-100-fru", k, final=v) for k, v in enumerate((0.17, 4e-4))]
    report = report_of(tmp_path, *runs, make_run("memory", "adding-100-rnn", final=0.17))
    rows = table(report, "memory")
    assert rows["FRU, 100"]["each seed"] == "1.70e-01 4.00e-04"
    assert rows["RNN, 100"]["each seed"] == "–"  # noqa: RUF001
    section = next(s for s in report.sections if s.name == "memory")
    [fru] = [c for c in section.content[0].panels[0].curves if c.label == "FRU"]
    assert fru.band[0] == (4e-4, 0.17)


@pytest.mark.parametrize(("loss", "found"), [(2e7, "2.0e+07"), (None, "not finite"), (1.7, "")])
def test_a_test_loss_out_of_bounds_is_named(tmp_path, loss, found):
    run = make_run("memory", "copy-100-fru", 1)
    run.epochs[-1]["test_loss"] = loss
    rows = table(report_of(tmp_path, run), "memory", 1)
    assert rows["FRU, 100"]["remarks"] == (found and f"seed 1: test loss {found}")


def test_trained_models_stand_beside_predictors_without_training(tmp_path):
    make_measurement("mix-sin", "simple").save(tmp_path / "mix-sin" / "simple.json")
    runs = [make_run("mix-sin", "fru", final=5e-5), make_run("mix-sin", "rnn", final=1e-3)]
    report = report_of(tmp_path, *runs)
    rows = table(report, "mixtures")
    assert rows["FRU"]["of straight line's"] == "0.5"
    assert rows["RNN"]["of straight line's"] == "10"
    assert rows["straight line"]["test MSE"] == "1.00e-04"
    assert "straight line through the last two values: mix-sin (RNN)." in report.summary[0]


BROKEN = {
    "no JSON": "{",
    "no record": "[]",
    "another seed": json.dumps(make_run("imdb", "rnn", 1).__dict__),
    "no settings": json.dumps(make_run("imdb", "rnn").__dict__ | {"config": {}}),
    "epochs of text": json.dumps(make_run("imdb", "rnn").__dict__ | {"epochs": [{"epoch": "1"}]}),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_record_that_cannot_be_read_is_named(tmp_path, content):
    path = tmp_path / "imdb" / "rnn-seed0.json"
    save(tmp_path, make_run("imdb", "lstm"))
    path.write_text(content)
    report = Report(read_library(tmp_path))
    (problem,) = report.library.broken.values()
    assert str(path) in problem
    assert "\n" not in problem
    assert "Records that could not be read: 1." in report.summary[-1]
    assert "cannot be read" in report.library.missing.values()
    assert "rnn-seed0.json" in to_markdown(report, tmp_path / "results.md").split("could not")[-1]


@pytest.mark.parametrize("key", ["start", "series", "terms", "fits"])
def test_a_measurement_that_cannot_be_read_is_named(tmp_path, key):
    fits = make_measurement("beijing", "fits")
    del fits.values[key]
    fits.save(tmp_path / "beijing" / "fits.json")
    assert f"'{key}'" in read_library(tmp_path).broken["beijing/fits"]


BLOCKS = "\n".join(f"<!-- {b}: begin -->old<!-- {b}: end -->" for b in ("results", "paper"))


def test_command(tmp_path):
    results, page, tables = tmp_path / "results", tmp_path / "new" / "a.html", tmp_path / "a.md"
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{BLOCKS}\nafter\n".replace("old", "83.99"))
    save(results, make_run("imdb", "lstm", final=83.0))
    (results / "imdb" / "rnn-seed0.json").write_text("{")
    places = ("--html", str(page), "--markdown", str(tables), "--readme", str(readme))
    run = CliRunner().invoke(app, ["report", "--results", str(results), *places])
    assert run.exit_code == 0, run.output
    assert run.stderr.startswith("Not read: ")
    assert "rnn-seed0.json" in run.stderr
    assert "imdb/rnn-seed0.json is not a run record" in page.read_text()
    assert "[0](results/imdb/lstm-seed0.json)" in tables.read_text()
    block = readme.read_text()
    assert block.startswith("before\n")
    assert block.endswith("after\n")
    assert "| IMDB: LSTM | 83.00 | 83.64 | 1,004 |" in block
    assert "recipe" not in block
    assert "83.99" not in block


def test_only_comparable_accuracies_are_in_the_readme(tmp_path):
    tuned, cut = make_run("imdb", "fru-5-10-tuned", final=86.0), make_run("imdb", "sru", epochs=3)
    report = report_of(tmp_path, tuned, cut, make_run("imdb", "rnn", diverged=True))
    page = fill_readme(BLOCKS, report, tmp_path / "a.md")
    assert "| IMDB: FRU 5,10 tuned | 86.00 | 86.71 |" in page
    assert "SRU" not in page
    assert "RNN" not in page


def test_command_errors_are_one_line(tmp_path):
    empty = CliRunner().invoke(app, ["report", "--results", str(tmp_path)])
    assert empty.exit_code == 1
    assert f"there are no run records in {tmp_path}; " in str(empty.exception)
    readme = tmp_path / "README.md"
    readme.write_text("")
    unmarked = CliRunner().invoke(app, ["report", "--readme", str(readme)])
    assert f"{readme} has no block of results" in str(unmarked.exception)


def test_markdown_cannot_be_broken_by_a_record(tmp_path):
    report = report_of(tmp_path, make_run("imdb", "lstm", versions={"torch": "2 | <b>"}))
    assert "torch 2 \\| \\<b>" in to_markdown(report, tmp_path / "results.md")


def test_the_documents_show_the_committed_records():
    report = Report(read_library(ROOT / "results"))
    tables, readme = ROOT / "docs" / "results.md", ROOT / "README.md"
    advice = "the records have changed; run: python -m paper report"
    assert to_markdown(report, tables) == tables.read_text(), advice
    assert fill_readme(readme.read_text(), report, readme) == readme.read_text(), advice


def test_build_report_writes_the_page(tmp_path):
    save(tmp_path, make_run("imdb", "lstm"))
    build_report(tmp_path, tmp_path / "report.html", None)
    page = (tmp_path / "report.html").read_text()
    assert "a &lt;b&gt;CPU&lt;/b&gt;" in page
    assert "<b>CPU" not in page


def test_the_tables_read_only_the_papers_runs(tmp_path):
    """Whatever a user's file is called, and also where an experiment was given other data."""
    save(tmp_path, make_run("imdb", "fru-5-10"))
    mine = make_run("imdb", "fru-5-10", seed=1)
    mine.config["data"]["name"] = "imdb.csv"
    other = make_run("imdb", "rnn")
    other.experiment = "imdb-0123abcd"
    save(tmp_path, mine, other)
    sweep = make_sweep("imdb", "fru-5-10", (0.1, 80.0))
    sweep.config["data"]["name"] = "imdb.csv"
    sweep.save(sweep_path(tmp_path, "imdb", "fru-5-10-0"))
    library = read_library(tmp_path)
    assert [record.name for record in library.runs] == ["imdb/fru-5-10-seed0"]
    assert library.sweeps == ()
    assert library.broken == {}


# Beyond the paper ------------------------------------------------------------------------------


@pytest.fixture
def beyond(tmp_path):
    make_beyond(tmp_path)
    return Report(read_library(tmp_path))


def test_the_recipe_stands_beside_what_was_published(beyond):
    found = {row[0]: row[1:] for row in beyond.glance.rows}
    assert found["Permuted MNIST"] == (
        "in between",
        "98.46 ± 0.01 % (3 seeds)",
        "UnICORNN 98.40, LMU by FFT 98.49, LSSL 98.76",
    )
    verdicts = {task: row[0] for task, row in found.items()}
    assert verdicts["Pixel-MNIST"] == "falls short"
    assert verdicts["IMDB"] == "ahead"
    assert verdicts["Adding, 10,000 steps"] == "falls short"  # lower is better
    assert verdicts["Copy after 1,000 steps"] == "holds"
    assert verdicts["Copy after 10,000 steps"] == "falls short"
    assert "Copy after 100,000 steps" not in verdicts  # there is no record
    assert verdicts["Next value, all steps"] == "in between"  # SRU is below
    assert found["Next value, after the first step"][1] == "0.01 of its error, 4 mixtures"
    order = [row[1] for row in beyond.glance.rows[:-2]]
    assert order == sorted(order, key=ORDER.index)


@pytest.mark.parametrize(
    ("change", "verdict"),
    [({"status": "running"}, "open"), ({"diverged": True}, "falls short"), ({}, "ahead")],
)
def test_a_seed_that_does_not_count_is_not_forgotten(tmp_path, change, verdict):
    runs = [make_run("imdb", "fru-recipe", seed, final=90.0) for seed in (0, 1)]
    report = report_of(tmp_path, *runs, make_run("imdb", "fru-recipe", 2, final=90.0, **change))
    row = report.glance.rows[0]
    assert row[:2] == ("IMDB", verdict)
    lost = "(2 seeds, 1 more diverged or unfinished)" if change else "(3 seeds)"
    assert row[2] == f"90.00 ± 0.00 % {lost}"


def test_other_settings_than_the_recipe_s_prove_nothing(tmp_path):
    run = make_run("imdb", "fru-recipe", final=90.0)
    run.config["training"]["lr"] = 0.5
    assert report_of(tmp_path, run).glance.rows[0][1] == "open"


def test_the_first_section_says_where_the_recipe_falls_short(beyond):
    first = beyond.sections[0]
    assert first.name == "beyond"
    assert first.text[0].startswith("Where it falls short: Pixel-MNIST: 99.21 ± 0.01 %")
    assert "the test set was never used for selection" in first.text[2]
    sources = [text(row[2]) for row in first.content[-1].rows if "LMU" in row[1]]
    assert sources == ["165K, linear recurrence; Chilkuri and Eliasmith, ICML 2021"]


def test_tables_of_the_recipe(beyond):
    rows = table(beyond, "beyond")
    assert rows["IMDB, %"]["ours"] == "88.51 ± 0.01"
    assert rows["IMDB, %"]["each seed"] == "88.50 88.51 88.52"
    rows = table(beyond, "beyond", 1)
    assert rows["Sines: SRU"]["all steps"] == "5.00e-07"
    assert rows["Sines: straight line"]["after step 1"] == "1.00e-06"
    assert rows["Polynomials of degree 15: FRU"]["of the line's after step 1"] == "0.0102"
    ablation = table(beyond, "beyond", 2)
    assert list(ablation) == ["the whole recipe", "without norm"]
    content = [part for part in beyond.sections[0].content if isinstance(part, Table)][2]
    changes = [text(cell) for cell in content.rows[1]]
    assert changes[1:5] == ["97.00", "-1.00", "98.00", "-1.00"]
    assert changes[6] == "3 times"


def test_minutes_until_an_accuracy_is_first_reached(tmp_path):
    recipe = make_run("permuted-mnist", "fru-recipe")
    hardware = {"cpu": "a CPU", "threads": 2}
    run = make_run("time-to-accuracy", "permuted-mnist", hardware=hardware)
    for epoch in run.epochs:
        epoch["test_accuracy"] = 96.0 + 0.1 * epoch["epoch"]  # 97 % at epoch 10, a minute each
    rows = table(report_of(tmp_path, recipe, run), "beyond", 1)
    assert rows["Permuted MNIST"] == {
        "task": "Permuted MNIST",
        "97 %": "10.0",
        "98 %": "20.0",
        "99 %": "30.0",
        "processor": "a CPU, threads: 2",
    }


def test_claims_at_196_steps_are_judged_where_there_are_records(beyond, tmp_path_factory):
    names = ("FRU converges fastest", "FRU ends above SRU, LSTM and RNN on permuted MNIST")
    found = verdicts(beyond)
    assert [found[f"At 196 steps: {name}"] for name in names] == ["holds", "holds"]
    rows = table(beyond, "mnist-196")
    assert rows["FRU, the recipe"]["permuted, %"] == "98.90"
    assert rows["SRU"]["pixel, %"] == "96.00"
    other = report_of(tmp_path_factory.mktemp("other"), make_run("imdb", "rnn"))
    assert not [name for name in verdicts(other) if "196" in name]
    assert other.sections[0].name == "mixtures"


def test_the_readme_opens_with_the_recipe(beyond, tmp_path):
    page, _, rest = fill_readme(BLOCKS, beyond, tmp_path / "a.md").partition("results: end")
    assert "best published" not in rest
    assert "| task | ours | best published of its kind | parameters |" in page
    assert "| IMDB, % | 88.51 ± 0.01 | UnICORNN 88.40 | 1,010 |" in page


def test_an_empty_table_of_missing_runs_is_not_printed(tmp_path):
    make_results(tmp_path)
    report = Report(read_library(tmp_path))
    assert "without a finished record" not in to_markdown(report, tmp_path / "a.md")
    (tmp_path / "imdb" / "rnn-seed0.json").unlink()
    report = Report(read_library(tmp_path))
    assert "without a finished record" in to_markdown(report, tmp_path / "a.md")
