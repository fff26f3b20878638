# SPDX-License-Identifier: Apache-2.0
"""Structures of the host interface and of packets, generated from spec/, and their codecs."""
