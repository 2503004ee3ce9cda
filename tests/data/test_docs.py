"""docs/data.md says what is so."""

from __future__ import annotations

import re
from pathlib import Path

from torchfru.data import DATASETS
from torchfru.data.files import Source
from torchfru.data.registry import _options
from torchfru.data.user_file import user_file

TEXT = (Path(__file__).parents[2] / "docs" / "data.md").read_text()


def test_examples_run_and_print_what_they_say(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL))
    exec(compile(code, "docs/data.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == re.findall(r"^# (.*torch.*)$", code, re.M)


def test_the_table_of_data_sets_is_complete():
    rows = re.findall(r"^\| `([a-z-]+)` \| (\w+) \| .* \| (.*) \|$", TEXT, re.M)
    described = {name: (task, options) for name, task, options in rows if name in DATASETS}
    assert list(described) == list(DATASETS)
    for name, (task, options) in described.items():
        assert task == DATASETS[name].task
        if "as above" not in options:
            shown = dict(re.findall(r"`(\w+)=([^`]+)`", options))
            known = {key: repr(value) for key, value in DATASETS[name].options.items()}
            assert {key: value.replace('"', "'") for key, value in shown.items()} == known


def test_the_options_of_own_data_are_complete():
    table = TEXT.split("## Data of your own")[1]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.M)) == set(_options(user_file))


def test_the_layout_of_a_data_folder_is_complete():
    sources: set[Source] = {s for entry in DATASETS.values() for s in entry.sources()}
    for source in sources:
        assert str(source) in TEXT
