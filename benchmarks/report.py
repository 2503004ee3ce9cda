"""Tables and pictures for the documentation, from the records that the benchmarks wrote."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

from . import shapes_report
from .markdown import fill_between, table

BY_LSTM = "against nn.LSTM"
HEADER = (
    "layer", "parameters", "forward", BY_LSTM, "forward + backward", BY_LSTM, "peak memory"
)  # fmt: skip


def markdown(record: dict[str, Any]) -> str:
    """One record as a heading, a table, and what else it holds."""
    shape, place = record["shape"], record["environment"]
    outputs = "every output" if shape["every_step"] else "the last output"
    outputs += ", denormal numbers flushed" if record.get("flush_denormals") else ""
    lines = [
        f"### {record['preset']}: {shape['steps']} steps of {shape['input_size']}, "
        f"batch {shape['batch']}, FRU_{shape['num_freqs']},{shape['freq_dim']}, {outputs}",
        "",
        f"{place['cpu']}, {place['threads']} threads, torch {place['torch']}, "
        f"{record['rounds']} rounds.",
        "",
        table(HEADER, _rows(record["layers"])),
        "",
    ]
    return "\n".join([*lines, *_remarks(record)])


def _rows(layers: list[dict[str, Any]]) -> list[list[str]]:
    lstm = next((layer for layer in layers if layer["name"] == "nn.LSTM"), None)
    rows = []
    for layer in layers:
        cells = [layer["name"], f"{layer['parameters']:,}"]
        for kind in ("forward", "training"):
            cells.append(_time(layer[kind]["seconds"]))
            cells.append("" if lstm is None else f"{_times_less(lstm, layer, kind):.1f} x")
        peak = layer["peak_bytes"]
        cells.append("" if peak is None else f"{peak / 2**20:,.1f} MiB")
        rows.append(cells)
    return rows


def _times_less(slow: dict[str, Any], fast: dict[str, Any], kind: str) -> float:
    return times_less(slow[kind]["seconds"], fast[kind]["seconds"])


def times_less(slow: list[float], fast: list[float]) -> float:
    """How many times less one took than the other, from the seconds of each round.

    The median of the rounds' own ratios: a machine is quick in one round and slow in another, for
    both.
    """
    return statistics.median(_by_round(slow, fast))


def _by_round(slow: list[float], fast: list[float]) -> list[float]:
    return [s / f for s, f in zip(slow, fast, strict=True)]


def _time(seconds: list[float]) -> str:
    return f"{1e3 * statistics.median(seconds):,.1f} ms ± {100 * spread(seconds):.0f} %"


def spread(seconds: list[float]) -> float:
    """Half the range between the quartiles, relative to the median."""
    if len(seconds) < 2:
        return 0.0
    low, _, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return (high - low) / 2 / statistics.median(seconds)


def _remarks(record: dict[str, Any]) -> list[str]:
    lines = _against_definition({layer["name"]: layer for layer in record["layers"]})
    if record["kernel"]:
        rate = record["kernel"]
        lines.append(
            f"- the fused forward loop: {rate['kernel'] / 1e9:.0f} GFLOP/s, {rate['ratio']:.2f} of "
            f"torch's 2048 x 2048 product ({rate['product'] / 1e9:.0f} GFLOP/s)"
        )
    for size, times in record["sweeps"].items():
        entries = ", ".join(f"{int(v):,}: {1e3 * s:,.2f} ms" for v, s in times.items())
        lines.append(f"- FRU's training step by `{size}`: {entries}")
    for batch, seconds in record.get("small_batches", {}).items():
        (lstm, slow), (fru, fast) = seconds.items()
        lines.append(
            f"- batch {batch}: {lstm} {1e3 * slow:,.1f} ms, {fru} {1e3 * fast:,.2f} ms: "
            f"{slow / fast:.1f} x"
        )
    return lines


def _against_definition(layers: dict[str, dict[str, Any]]) -> list[str]:
    """The kernels beside the paper's update rule in plain torch."""
    if not {"FRU numba", "FRU reference"} <= set(layers):
        return []
    fused, definition = layers["FRU numba"], layers["FRU reference"]
    ratios = {
        "forward": _times_less(definition, fused, "forward"),
        "forward + backward": _times_less(definition, fused, "training"),
    }
    if fused["peak_bytes"] and definition["peak_bytes"]:
        ratios["peak memory"] = definition["peak_bytes"] / fused["peak_bytes"]
    listed = ", ".join(f"{name} {ratio:.1f} x less" for name, ratio in ratios.items())
    rounds = _by_round(definition["training"]["seconds"], fused["training"]["seconds"])
    between = f"forward + backward from {min(rounds):.1f} to {max(rounds):.1f} x, by round"
    return [f"- FRU numba against FRU reference: {listed}; {between}"]


def fill(page: str, records: list[dict[str, Any]]) -> str:
    """The page, with the tables of these records between its marks."""
    shapes = [record for record in records if "rows" in record]
    presets = [record for record in records if "preset" in record]
    page = fill_between(page, "shapes", "\n\n".join(map(shapes_report.markdown, shapes)))
    return fill_between(page, "measured", "\n\n".join(map(markdown, presets)))


def read(folder: Path) -> list[dict[str, Any]]:
    """The records of a folder, by name."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


if __name__ == "__main__":
    from .plot import draw

    target, found = Path(sys.argv[2]), read(Path(sys.argv[1]))
    target.write_text(fill(target.read_text(), found))
    for record in found:
        if "rows" in record:
            shapes_report.draw(record, target.parent / "figures" / "bench-shapes.svg")
        elif "preset" in record:
            draw(record, target.parent / "figures" / f"bench-{record['preset']}.svg")
