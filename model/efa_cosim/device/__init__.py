# SPDX-License-Identifier: Apache-2.0
"""The reference model of the device, without time."""
