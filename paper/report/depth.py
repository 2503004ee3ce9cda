"""Fourier over depth: deep networks, plain, residual and summed, and their gradients by layer."""

from __future__ import annotations

from typing import Any

from ..experiments import CONVOLUTIONAL, DEPTHS, KINDS, network_name
from ..plots import Curve, Panel
from .content import Cell, Section, Table, label, style
from .parts import SPREAD, by_size, figure
from .records import Group, Library
from .tables import PERCENT, VARIABLES, cells, each_seed, result, runs_table, tried_table

Groups = dict[tuple[int, str], Group]  # by number of layers and kind
SHAPES = {"mlp": "MLP", CONVOLUTIONAL: "CNN"}
GUESSING = {"always the same digit": 11.35}  # percent of the test images that show a 1


def depth(library: Library) -> Section:
    tables: list[Table] = []
    panels = []
    for shape, title in SHAPES.items():
        groups = _of_shape(library, shape)
        tables += [_accuracies(title, groups), _runs(title, groups)]
        drawn, name = by_size(groups, PERCENT.key), f"{title}: accuracy by depth"
        panels.append(Panel(name, "layers", PERCENT.axis, drawn, GUESSING, xscale="log"))
    for shape, title in SHAPES.items():
        panels += _gradients(title, _of_shape(library, shape), max(DEPTHS[shape]))
    text = [
        "The paper ends with the wish to bring the Fourier idea to networks that are not "
        "recurrent. Here depth takes the place of time: u_l = u_{l-1} + 1/L c(l) (x) h_l over the "
        "layers l = 1..L, each with weights of its own (FourierMLP, FourierConv2d), without any "
        "normalisation.",
        "Beside it, with the same state and parameters within 3 %: plain, u_l = phi(f_l(u)); "
        "residual, u + f_l(u); prenorm, u + f_l(norm(u)) with LayerNorm; mean, "
        "u + phi(f_l(u)) / L, the same factor without the basis, which tells what of it is "
        "Fourier's.",
        "Settings: MNIST as whole images (a CNN sees 7 x 7 pixels of 16 channels), batches of 256, "
        "10 epochs (CNN: 3), AdamW with a learning rate that rises and falls once, gradients "
        "clipped at 1; the rate of each kind is the one of a grid that did best on held back "
        "images after one epoch, at 100 layers (CNN: 10) for networks of up to as many, and at "
        "1,000 (CNN: 50) for deeper ones. Where a kind does not learn at that depth, it has the "
        "rate of ten layers. A network whose gradient is not finite ends at once, as diverged.",
    ]
    caption = (
        f"The last epoch's test accuracy by number of layers, {SPREAD}; and the norm of the "
        "gradient of the loss by layer in the deepest networks, before and after training. Of "
        "several seeds, the first."
    )
    tried = tried_table([s for s in library.sweeps if s.result.experiment == "depth"], ".2f")
    return Section("depth", "Depth", text, [*figure("depth", caption, panels), *tables, *tried])


def _of_shape(library: Library, shape: str) -> Groups:
    named = {model: network_name(model) for model in library.models("depth")}
    return {
        (depth, kind): library.group("depth", model)
        for model, (kind, own, depth) in named.items()
        if own == shape
    }


def _accuracies(title: str, groups: Groups) -> Table:
    """A row a depth, a column a kind."""
    rows: list[tuple[Cell, ...]] = []
    for depth in dict.fromkeys(depth for depth, _ in groups):
        found = [cells(groups[depth, kind], (result(PERCENT),))[0] for kind in KINDS]
        rows.append((f"{depth:,}", *found))
    caption = f"{title}: test accuracy after the last epoch, %"
    return Table(caption, ("layers", *map(label, KINDS)), rows)


def _runs(title: str, groups: Groups) -> Table:
    named = {f"{label(kind)}, {depth:,}": group for (depth, kind), group in groups.items()}
    return runs_table(f"{title}: runs", named, [result(PERCENT), each_seed(PERCENT), VARIABLES])


def _gradients(title: str, groups: Groups, depth: int) -> list[Panel]:
    """Norms by layer, a curve a kind: before training and after it."""
    panels = []
    for place, when in ((0, "before training"), (-1, "after training")):
        drawn = []
        for kind in KINDS:
            probes = _probes(groups[depth, kind])
            if probes and (place == 0 or len(probes) > 1):
                probe = probes[place]
                drawn.append(Curve(label(kind), probe["layer"], probe["l2"], style(kind)))
        name = f"{title}, {depth:,} layers, {when}"
        panels.append(Panel(name, "layer l", "norm of dL/du_l", drawn, yscale="log"))
    return panels


def _probes(group: Group) -> list[dict[str, Any]]:
    """The gradients of the first run that has any, where some are finite."""
    for record in group.records:
        measured = record.run.measurements.get("gradients", [])
        if measured:
            return [probe for probe in measured if any(probe["l2"])]
    return []
