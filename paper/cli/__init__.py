"""The commands ``python -m paper reproduce | report | verify | rates``."""

from __future__ import annotations

from torchfru.cli import new_app

from .rates import rates
from .report import report
from .reproduce import reproduce
from .verify import verify

app = new_app("paper", "The paper's experiments, report and theorems.")
app.command()(reproduce)
app.command()(report)
app.command()(verify)
app.command()(rates)
