"""What ended a native function is raised once: an interrupt, no check, which the next call tells."""

from __future__ import annotations

import pytest

from nnmagic.engine.relax.runtime.callbacks import CheckError, keep_pending, prepare_thread, raise_pending


@pytest.mark.parametrize("error", [KeyboardInterrupt(), CheckError("[]"), None])
def test_an_interrupt_is_raised_once_and_a_failed_check_is_not(error: BaseException | None) -> None:
    prepare_thread()
    assert keep_pending(lambda: 0, lambda _: lambda: (-1, error))() == -1
    if isinstance(error, KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt):
            raise_pending()
    raise_pending()
