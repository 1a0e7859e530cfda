"""Effective attributes as JSON text, without resolving the rows of every request.

The answer is that of `trails.resolved(resolve(…))`. Filling it into a template exists for speed alone: `make bench`
promises that effective attributes are answered at no less than 0.60 of the rate of an empty route ("effective
attributes ÷ empty route" in `bench/promises.py`); a template takes 21 µs to fill, resolving and encoding take 600.
`tests/unit/core/settings/test_effective_texts.py` compares the two, byte for byte, on generated rows.
"""
