# SPDX-License-Identifier: Apache-2.0
"""Live devices: PCI functions for virtual machines, over vfio-user."""
