# SPDX-License-Identifier: Apache-2.0
"""Host software: driver, verbs, provider and the store buffer of a CPU."""
