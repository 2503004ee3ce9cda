"""The models that the paper compares, at the paper's sizes."""

from __future__ import annotations

from typing import Any

from .config import ModelConfig


def baselines(hidden_size: int = 200, **options: Any) -> dict[str, ModelConfig]:
    """RNN, LSTM, GRU and SRU of one width. (The paper has no GRU; it gets the LSTM's settings.)"""
    layers = ("rnn", "lstm", "gru", "sru")
    return {layer: ModelConfig(layer, hidden_size=hidden_size, **options) for layer in layers}


def fru(num_freqs: int, freq_dim: int, max_freq: float | None, **options: Any) -> ModelConfig:
    """FRU_{num_freqs, freq_dim}: gates of 60 and, unless told otherwise, an output of 200."""
    return ModelConfig("fru", num_freqs=num_freqs, freq_dim=freq_dim, max_freq=max_freq, **options)
