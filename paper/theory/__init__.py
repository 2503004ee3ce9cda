"""The paper's claims as checks that run: what holds, what does not, and what does instead."""

from .finding import Finding, Settings, to_json
from .registry import CLAIMS, check

__all__ = ["CLAIMS", "Finding", "Settings", "check", "to_json"]
