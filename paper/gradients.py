"""Gradients to the initial state while training on mix-poly of degree 5 (the paper's figure).

Settings as for mix-poly-5, with the decays of SRU that the figure's caption names. They are
measured before training and after every tenth epoch.
"""

from __future__ import annotations

from dataclasses import replace

from torchfru.experiments.synthetic import EXPERIMENTS as SYNTHETIC

MIX_POLY = SYNTHETIC["mix-poly-5"]
ALPHAS = (0.0, 0.25, 0.5, 0.9, 0.95)
MODELS = {name: MIX_POLY[name].model for name in ("rnn", "lstm", "sru", "fru")}
MODELS["sru"] = replace(MODELS["sru"], alphas=ALPHAS)
TRAINING = replace(MIX_POLY["fru"].training, epochs=90, probe_every=10)

EXPERIMENTS = {
    "gradients": {
        name: replace(MIX_POLY[name], model=model, training=TRAINING)
        for name, model in MODELS.items()
    }
}
