"""Forecast with fit and predict: a year of months, with intervals, and a test on the past."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from torchfru import FRUForecaster

rng = np.random.default_rng(0)
months = np.arange(180)
season = np.sin(2 * np.pi * months / 12) + 0.4 * np.sin(4 * np.pi * months / 12)
sales = (200 + months) * (1 + 0.2 * season) + 6 * rng.normal(size=len(months))


def main(plot: Path) -> None:
    model = FRUForecaster(horizon=12, max_steps=100, random_state=0, verbose=False)
    tested = model.backtest(sales, test=0.25)
    print(tested)
    tested.plot(plot)
    assert tested.rows["model"]["mse"] < tested.rows["season before"]["mse"]

    model.fit(sales)
    forecast, low, high = model.predict(3, interval=0.8)
    for month, (value, least, most) in enumerate(zip(forecast, low, high, strict=True)):
        print(f"month {month + 1}: {value:.0f}, four times in five {least:.0f} to {most:.0f}")
    print(f"start: {model.naive_}; {'kept as it is' if model.kept_naive_ else 'then trained'}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder) / "forecast.png")
