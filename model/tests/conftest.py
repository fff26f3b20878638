# SPDX-License-Identifier: Apache-2.0
"""Provides the devices that most model tests use; a file that needs another device defines its own.
"""

import pytest
from rig import Host


@pytest.fixture
def host():
    """Returns a device after driver initialization."""
    return Host()


@pytest.fixture
def recorded():
    """Returns an initialized device with the profile of the recorded sessions."""
    return Host(profile="recorded")
