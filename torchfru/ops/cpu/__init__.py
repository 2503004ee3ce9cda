"""The backend ``numba``: FRU's fused loop on the CPU. Everything that imports Numba is here."""
