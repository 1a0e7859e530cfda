"""Effective attributes as JSON text, written from stored rows without resolving them into objects first.

This is a second way to compute `trails.resolved(resolve(…))`, and exists for speed alone: `make bench` promises that
effective attributes are answered at no less than 0.60 of the rate of an empty route ("effective attributes ÷ empty
route" in `bench/promises.py`). A template takes 21 µs to fill, where resolving and encoding take 600.
`tests/unit/core/settings/test_effective_texts.py` compares the two, byte for byte, on generated rows.
"""

from __future__ import annotations

from admin.core.settings.effective_text.shapes import Said, Shape, Shapes, rows_of
from admin.core.settings.effective_text.texts import EffectiveTexts

__all__ = ["EffectiveTexts", "Said", "Shape", "Shapes", "rows_of"]
