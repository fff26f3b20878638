# SPDX-License-Identifier: Apache-2.0
"""Serves the RTL to virtual machines: a vfio-user server around the simulated devices."""
