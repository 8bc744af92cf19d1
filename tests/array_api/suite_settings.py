"""Settings of Hypothesis for the conformance suite: a plugin of pytest.

Looking for the smallest failing example would compile hundreds of cells.
"""

import pytest
from hypothesis import Phase, settings


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """Change the profile that the suite has chosen."""
    settings.register_profile("cells", settings(), phases=[Phase.explicit, Phase.generate])
    settings.load_profile("cells")
