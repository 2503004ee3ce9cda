"""reproduce: what is left to do, doing it in several processes, and what can go wrong there."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock
from rich.console import Console
from training_helpers import TINY, numbers, read
from typer.testing import CliRunner

from paper import cli, runner, worker
from paper.cli import watch
from paper.experiments import EXPERIMENTS
from paper.plan import Planned, select
from paper.quick import data_name, quick_plan
from paper.runner import Runner
from paper.worker import BUSY
from torchfru.data import available
from torchfru.records import RunResult
from torchfru.training import override

DOCUMENT = Path(__file__).parents[2] / "docs" / "reproducing.md"


def tiny(name: str = "fru", epochs: int = 3, seed: int = 0, **changes) -> Planned:
    config = override(EXPERIMENTS["mix-poly-5"]["fru"], [*TINY, f"training.epochs={epochs}"])
    config = replace(config, training=replace(config.training, **changes))
    return Planned("mix-poly-5", name, seed, 1.0, config)


def save_record(task: Planned, results: Path, epochs: int, **changes) -> None:
    entries = [{"epoch": k + 1, "test_mse": 0.5, "seconds": 30.0} for k in range(epochs)]
    config = json.loads(json.dumps(task.config.to_dict()))
    record = RunResult(task.experiment, task.name, task.seed, config, 1, epochs=entries)
    record.seconds = 30.0 * epochs
    for name, value in changes.items():
        setattr(record, name, value)
    record.save(task.record(results))


def do(task: Planned, results: Path, monkeypatch, deadline: float | None = None) -> int:
    """The worker, in this process."""
    program = worker.command(task, results, data_dir=None, threads=1, deadline=deadline)
    monkeypatch.setattr(sys, "argv", program[-2:])
    return worker.main()


# What is left to do ------------------------------------------------------------------------


def test_names_and_seeds_choose_from_the_plan():
    chosen = select(["imdb", "mix-sin"], seeds=[1])
    assert {task.experiment for task in chosen} == {"imdb", "mix-sin"}
    assert {task.seed for task in chosen} == {None, 1}
    assert [str(task) for task in chosen if task.seed is None] == ["mix-sin simple"]
    assert len(select(["all"])) > len(select(["all"], seeds=[0])) > 100
    with pytest.raises(ValueError, match="called 'pixel-mnits'; did you mean 'pixel-mnist'"):
        select(["pixel-mnits"])


def test_what_a_record_says_of_its_task(tmp_path):
    task = tiny()
    assert task.progress(tmp_path).kind == "missing"
    save_record(task, tmp_path, 2)
    assert (task.progress(tmp_path).kind, len(task.progress(tmp_path).epochs)) == ("cut off", 2)
    save_record(task, tmp_path, 2, status="finished")
    assert task.progress(tmp_path).kind == "finished"
    other = tiny(lr=0.5).progress(tmp_path)
    assert other.kind == "refused"
    assert re.search(r"fru-seed0.json has training.lr=0.001, not 0.5: left alone", other.why)
    for content in ("{", '{"experiment": 1, "model": 1, "seed": 1, "config": 1, "parameters": 1}'):
        task.record(tmp_path).write_text(content)
        assert "is not a run record" in task.progress(tmp_path).why


def test_records_from_before_a_setting_existed_are_as_good(tmp_path):
    task = tiny()
    save_record(task, tmp_path, 3, status="finished")
    record = read(task.record(tmp_path))
    for name in ("max_minutes", "probe_every"):
        del record["config"]["training"][name]
    task.record(tmp_path).write_text(json.dumps(record))
    assert task.progress(tmp_path).kind == "finished"


# One task in its process -------------------------------------------------------------------


def test_a_task_stops_after_the_epoch_in_which_time_is_up_and_goes_on(tmp_path, monkeypatch):
    cut, whole = tmp_path / "cut" / "results", tmp_path / "whole" / "results"
    assert do(tiny(), cut, monkeypatch, deadline=time.time()) == 0
    assert (tiny().progress(cut).kind, len(tiny().progress(cut).epochs)) == ("cut off", 1)
    assert do(tiny(), cut, monkeypatch) == do(tiny(), whole, monkeypatch) == 0
    first, second = (read(tiny().record(results)) for results in (cut, whole))
    assert first["status"] == second["status"] == "finished"
    assert numbers(first) == numbers(second)


def test_a_run_is_trained_by_one_process_only(tmp_path, monkeypatch):
    folder = tiny().folder(tmp_path / "results")
    folder.mkdir(parents=True)
    with FileLock(folder / "lock"):
        assert do(tiny(), tmp_path / "results", monkeypatch) == BUSY
    assert not tiny().record(tmp_path / "results").exists()


def test_an_error_is_one_line(tmp_path, monkeypatch, capsys):
    task = tiny()
    task = replace(task, config=override(task.config, ["data.length=1"]))
    assert do(task, tmp_path / "results", monkeypatch) == 1
    assert re.fullmatch(r"Error: .*length.*\n", capsys.readouterr().err)


# Several at once ---------------------------------------------------------------------------


def use_fake_processes(monkeypatch, results: Path, programs: dict[str, str]) -> None:
    """In a task's place a short program, by the task's name; ``done`` makes its record."""
    folder = results / "made"

    def command(run: Planned, *_: object, **options: object) -> list[str]:
        save_record(run, folder, 3, status="finished")
        made, path = run.record(folder), run.record(results)
        path.parent.mkdir(parents=True, exist_ok=True)
        done = f"import os, sys, time; done = lambda: os.replace({str(made)!r}, {str(path)!r});"
        return [sys.executable, "-S", "-c", done + programs[run.name]]

    monkeypatch.setattr(runner, "command", command)
    monkeypatch.setattr(runner, "POLL", 0.01)


def test_others_go_on_when_one_fails(tmp_path, monkeypatch):
    programs = {
        "good": "done()",
        "bad": "sys.exit('Error: no such luck')",
        "killed": f"print('compiling', flush=True); os.kill(os.getpid(), {signal.SIGKILL:d})",
        "busy": f"sys.exit({BUSY})",
        "stopped": "0",
    }
    use_fake_processes(monkeypatch, tmp_path, programs)
    save_record(tiny("old"), tmp_path, 3, status="finished")
    save_record(tiny("other"), tmp_path, 3, status="finished")
    tasks = [
        tiny("old"),
        tiny("bad"),
        tiny("killed"),
        tiny("other", lr=0.5),
        *map(tiny, ("busy", "stopped", "good")),
    ]
    began = []
    work = Runner(tasks, tmp_path, jobs=2, began=lambda progress: began.append(progress.run.name))
    endings = {outcome.run.name: outcome for outcome in work.run()}
    assert {name: outcome.kind for name, outcome in endings.items()} == {
        "bad": "failed",
        "killed": "failed",
        "other": "refused",
        "busy": "busy",
        "stopped": "missing",
        "good": "finished",
    }
    assert began == ["bad", "killed", "busy", "stopped", "good"]
    assert endings["bad"].why.startswith("no such luck (log: ")
    assert endings["killed"].why.startswith("ended by signal 9 (Killed) (log: ")


def test_no_more_at_a_time_than_asked_for_and_none_after_the_budget(tmp_path, monkeypatch):
    use_fake_processes(monkeypatch, tmp_path, {"a": "time.sleep(0.2); done()"})
    tasks, most = [tiny("a", seed=seed) for seed in range(5)], []
    Runner(tasks, tmp_path, jobs=2, tick=lambda running: most.append(len(running))).run()
    assert max(most) == 2
    assert all(task.progress(tmp_path).kind == "finished" for task in tasks)
    later = [tiny("a", seed=seed) for seed in (7, 8)]
    assert [o.run.seed for o in Runner(later, tmp_path, jobs=1, budget=0.05).run()] == [7]
    assert Runner(later, tmp_path, budget=0.0).run() == []


def test_stopping_leaves_no_process_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "PATIENCE", 0.5)
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    use_fake_processes(monkeypatch, tmp_path, {"polite": "time.sleep(60)", "deaf": deaf})
    seen = []

    def stop_when_both_run(running) -> None:
        seen[:] = [job.process for job in running]
        if len(running) == 2:
            work.stop()

    work = Runner([tiny("polite"), tiny("deaf")], tmp_path, jobs=2, tick=stop_when_both_run)
    assert work.run() == []
    assert len(seen) == 2
    assert all(process.poll() is not None for process in seen)


PARENT = """
import sys, time
from pathlib import Path
sys.path[:0] = [sys.argv[1], str(Path(sys.argv[1]).parent)]
from test_reproduce import Runner, tiny
pids = lambda running: [job.process.pid for job in running if job.progress.epochs]
show = lambda running: [print(pid, flush=True) for pid in pids(running)]
Runner([tiny(epochs=1_000_000)], Path(sys.argv[2]), tick=show).run()
"""


def is_alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_a_worker_ends_when_its_parent_is_killed(tmp_path):
    arguments = [sys.executable, "-c", PARENT, str(Path(__file__).parent), str(tmp_path / "r")]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        assert is_alive(pid)
        parent.kill()
    patience = time.monotonic() + 30
    while is_alive(pid) and time.monotonic() < patience:
        time.sleep(0.02)
    assert not is_alive(pid)


def test_a_worker_ends_cleanly_while_its_parent_waits(tmp_path):
    (simple,) = (run for run in select(["mix-sin"]) if str(run) == "mix-sin simple")
    program = worker.command(simple, tmp_path, data_dir=None, threads=1, deadline=None)
    with subprocess.Popen(program, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.wait() == 0, process.stderr.read()
    assert simple.progress(tmp_path).kind == "finished"


def test_the_time_left_is_judged_by_the_epochs_so_far(tmp_path):
    task = tiny("a", epochs=10)
    job = runner.Running(task.progress(tmp_path), None, tmp_path, tmp_path / "log")
    assert 50 < job.seconds_left() <= 60  # the plan's minute
    save_record(task, tmp_path, 4)
    job.look()
    assert (len(job.progress.epochs), job.seconds_left()) == (4, 180.0)
    limited = replace(
        task, config=replace(task.config, training=replace(task.config.training, max_minutes=2.5))
    )
    job.progress = limited.progress(tmp_path)
    assert job.progress.kind == "refused"  # it is another configuration
    job.progress = replace(job.progress, kind="cut off")
    assert job.seconds_left() == 30.0


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_on_a_terminal_and_in_a_file(tmp_path, monkeypatch, terminal):
    monkeypatch.setattr(watch, "HEARTBEAT", 0.0)
    task, output = tiny("a", epochs=10), io.StringIO()
    job = runner.Running(task.progress(tmp_path), None, tmp_path, tmp_path / "log")
    with watch.Watch(Console(file=output, force_terminal=terminal, width=100)) as shown:
        shown.began(task.progress(tmp_path))
        save_record(task, tmp_path, 4)
        job.look()
        shown.tick([job])
        shown.tick([job])
        shown.live.refresh()
        shown.ended(task.progress(tmp_path))
    text = output.getvalue()
    assert "stopped   mix-poly-5 a seed 0: 4 of 10 epochs, mse 0.5, 2 min" in text
    if terminal:
        assert re.search(r"mix-poly-5 +a +0 +4 of 10 +mse 0.5 +3 min left", text)
    else:
        assert text.count("running   mix-poly-5 a seed 0: 4 of 10, mse 0.5, 3 min left") == 1
        assert "\x1b" not in text


# The command -------------------------------------------------------------------------------


def invoke(*arguments: str):
    return CliRunner().invoke(cli.app, ["reproduce", *arguments])


def test_the_plan_can_be_looked_at(tmp_path):
    shown = invoke("imdb", "--dry-run", "--json", "--results", str(tmp_path))
    rows = json.loads(shown.output)
    assert {row["state"] for row in rows} == {"missing"}
    frus = {"fru-5-10", "fru-1-10", "fru-5-10-tuned", "fru-recipe"}
    assert {"rnn", "lstm", "sru"} | frus == {row["model"] for row in rows}
    table = invoke("imdb", "--dry-run", "--results", str(tmp_path)).output
    assert "fru-1-10" in table
    assert re.search(r"About \d h \d+ min on one core", table)
    assert not list(tmp_path.iterdir())


def test_failures_make_the_exit_code(tmp_path, monkeypatch):
    names = [task.name for task in select(["gradients"])]
    use_fake_processes(monkeypatch, tmp_path, dict.fromkeys(names, "done()"))
    good = invoke("gradients", "--results", str(tmp_path), "--jobs", "4")
    assert good.exit_code == 0, good.output
    assert "finished  gradients fru seed 0: 3 of 90 epochs, mse 0.5, 2 min" in good.output
    summary = f"Of {len(names)}: {len(names)} finished.\n"
    assert good.output.endswith(summary)
    assert invoke("gradients", "--results", str(tmp_path)).output == summary
    other = select(["gradients"])[0]
    training = replace(other.config.training, epochs=7)
    save_record(replace(other, config=replace(other.config, training=training)), tmp_path, 7)
    refused = invoke("gradients", "--results", str(tmp_path))
    assert refused.exit_code == 1
    assert "has training.epochs=7, not 90: left alone" in refused.output


def test_control_c_ends_the_command(tmp_path, monkeypatch):
    names = [task.name for task in select(["gradients"])]
    press = f"os.kill(os.getppid(), {signal.SIGINT:d}); time.sleep(60)"
    use_fake_processes(monkeypatch, tmp_path, dict.fromkeys(names, press))
    before = signal.getsignal(signal.SIGINT)
    stopped = invoke("gradients", "--results", str(tmp_path), "--jobs", "2")
    assert stopped.exit_code == 130
    assert "The same command resumes" in stopped.output
    assert signal.getsignal(signal.SIGINT) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("imbd", "there is nothing to reproduce called 'imbd'; did you mean 'imdb'?"),
        ("imdb --budget 2d", "--budget must be a number with s, m or h behind it"),
        ("imdb --seeds 0,x", "--seeds must be whole numbers, as in 0,1,2; got '0,x'"),
        ("imdb --json", "--json belongs to --dry-run"),
        ("quick imdb", "quick goes alone, got quick imdb"),
    ],
)
def test_errors_name_what_was_wrong(arguments, message):
    failed = invoke(*arguments.split())
    assert message in str(failed.exception)


# quick -------------------------------------------------------------------------------------


# the same tasks as others of quick, at other sizes
LEFT_OUT = {"mix-poly-10", "mix-poly-15", "pixel-mnist-196", "permuted-mnist-196", "ablation"} | {
    "time-to-accuracy"
}


def test_quick_is_every_experiment_at_a_tiny_size(tmp_path, monkeypatch):
    tasks = quick_plan()
    planned = {task.experiment for task in select(["all"])}
    assert {task.experiment for task in tasks} == planned - LEFT_OUT
    for task in tasks:
        if task.config is not None:
            assert task.config.training.epochs == 2
            assert 60 in (task.config.data.size, task.config.data.limit)
    small = [task for task in tasks if str(task) in ("gradients rnn seed 0", "mix-sin simple")]
    assert [do(task, tmp_path / "results", monkeypatch) for task in small] == [0, 0]
    gradients = read(small[1].record(tmp_path / "results"))["measurements"]["gradients"]
    assert [entry["epoch"] for entry in gradients] == [0, 1, 2]
    assert set(read(small[0].record(tmp_path / "results"))["values"]) == {
        "last value",
        "straight line",
        "straight line, after step 1",
    }


def test_quick_downloads_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHFRU_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    missing = [run for run in quick_plan() if not available(data_name(run), data_dir=tmp_path)]
    assert {run.experiment for run in missing} == {
        "pixel-mnist",
        "permuted-mnist",
        "imdb",
        "frequencies",
        "beijing",
        "depth",
    }
    shown = invoke("quick", "--data-dir", str(tmp_path / "data"), "--dry-run", "--json")
    assert {row["experiment"] for row in json.loads(shown.stdout)} == {
        "mix-poly-5",
        "mix-sin",
        "gradients",
        "bases",
        "memory",
    }
    for name in ("pixel-mnist", "permuted-mnist", "imdb", "beijing"):
        assert f"skipped   {name}: not here; torchfru data fetch {name} brings it" in shown.stderr


# The document --------------------------------------------------------------------------------


def test_the_document_names_what_exists():
    text = DOCUMENT.read_text()
    for name in re.findall(r"(?:torchfru train|paper reproduce) ([a-z0-9-]+)", text):
        assert name in (*EXPERIMENTS, "all", "quick"), name
    known = {"--model", "--resume", "--set"}
    for command in ("reproduce", "report"):
        shown = CliRunner().invoke(cli.app, [command, "--help"], terminal_width=200)
        assert f"Example: python -m paper {command}" in shown.output
        known |= set(re.findall(r"--[a-z-]+", shown.output))
    options = set(re.findall(r"(?<![\w-])(--[a-z][a-z-]*)", text))
    assert options <= known, options - known
