# SPDX-License-Identifier: Apache-2.0
"""The links between the devices of a run."""
