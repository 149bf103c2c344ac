"""An optional progress bar."""

from __future__ import annotations

from typing import Any, Callable, Sized


class Progress:
    """Counts results on a bar of tqdm if `wanted`. Use as a context."""

    def __init__(self, wanted: bool, candidates: object) -> None:
        self._bar: Any = None
        if wanted:
            try:
                from tqdm.auto import tqdm
            except ImportError as error:
                raise ImportError("progress=True needs tqdm: pip install tqdm") from error
            self._bar = tqdm(total=len(candidates) if isinstance(candidates, Sized) else None, unit="candidate")
        self.update: Callable[[], object] = self._bar.update if wanted else lambda: None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
