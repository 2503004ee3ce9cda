"""Lemma: det V = prod_{i<j} (a_j - a_i) for V[i, j] = a_i^(j-1).

The interpolation lemma uses it for A[i, j] = (i^2)^j and, with "i^(2j+1/j)" in the paper, for
B[i, j] = i^(2j+1), i = 1..d+1, j = 0..d. B is no Vandermonde matrix, but diag(i) times one:

    det B = prod_i i  prod_{i<j} (j^2 - i^2)  =  (d+1)! det A.

All of it in exact rational arithmetic: the two sides are equal or they are not.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

from .finding import Finding, Settings, panel

DEGREES = tuple(range(1, 13))  # d of the interpolation lemma

Matrix = list[list[Fraction]]


def determinant(matrix: Matrix) -> Fraction:
    """Exact, by elimination.

    >>> determinant([[Fraction(1), Fraction(2)], [Fraction(3), Fraction(4)]])
    Fraction(-2, 1)
    """
    rows, result = [list(row) for row in matrix], Fraction(1)
    for k in range(len(rows)):
        pivot = next((i for i in range(k, len(rows)) if rows[i][k] != 0), None)
        if pivot is None:
            return Fraction(0)
        if pivot != k:
            rows[k], rows[pivot], result = rows[pivot], rows[k], -result
        result *= rows[k][k]
        for i in range(k + 1, len(rows)):
            factor = rows[i][k] / rows[k][k]
            rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k], strict=True)]
    return result


def vandermonde(nodes: Sequence[Fraction]) -> Matrix:
    """V[i, j] = a_i^j for j = 0..n-1."""
    return [[node**j for j in range(len(nodes))] for node in nodes]


def product_formula(nodes: Sequence[Fraction]) -> Fraction:
    """prod_{i<j} (a_j - a_i)."""
    return math.prod((b - a for a, b in combinations(nodes, 2)), start=Fraction(1))


def systems(d: int) -> tuple[Matrix, Matrix]:
    """A and B of the interpolation lemma."""
    a = vandermonde([Fraction(i * i) for i in range(1, d + 2)])
    b = [[Fraction(i) ** (2 * j + 1) for j in range(d + 1)] for i in range(1, d + 2)]
    return a, b


def measure(settings: Settings) -> Finding:
    draw = random.Random(settings.seed)
    unequal = 0
    for _ in range(settings.examples):
        size = draw.randint(1, 7)
        nodes = [Fraction(draw.randint(-50, 50), draw.randint(1, 20)) for _ in range(size)]
        unequal += determinant(vandermonde(nodes)) != product_formula(nodes)
    logs: dict[str, list[float]] = {"det A": [], "det B": []}
    for d in DEGREES:
        a, b = (determinant(matrix) for matrix in systems(d))
        expected = product_formula([Fraction(i * i) for i in range(1, d + 2)])
        unequal += (a != expected) + (b != math.factorial(d + 1) * expected) + (a == 0)
        for found, value in zip(logs.values(), (a, b), strict=True):
            found.append(math.log10(value))
    title, ylabel = "The determinants of the interpolation lemma", "log10 of the determinant"
    return Finding(
        tried=f"{settings.examples} random rational matrices to 7 x 7; A and B for d = 1 to 12",
        measure="determinants that differ (exact arithmetic)",
        worst=unequal,
        bound=0,
        notes=("B of the paper's proof is diag(i) times a Vandermonde matrix, not one itself",),
        panels=(panel(title, "d", ylabel, DEGREES, logs, xscale="linear", yscale="linear"),),
    )
