# SPDX-License-Identifier: Apache-2.0
"""The write-combine laboratory: planted provider bugs and their checker."""
