# SPDX-License-Identifier: Apache-2.0
"""Devices that most tests of the model begin with; a file that needs another one says so itself."""

import pytest
from rig import Host


@pytest.fixture
def host():
    """A device that a driver has brought up."""
    return Host()


@pytest.fixture
def recorded():
    """The same with the profile of the recorded sessions."""
    return Host(profile="recorded")
