"""From the plan to the records: which runs are left, and several processes that do them."""

from .runner import Outcome, Runner, Running
from .tasks import State, Task, inspect, plan_tasks

__all__ = ["Outcome", "Runner", "Running", "State", "Task", "inspect", "plan_tasks"]
