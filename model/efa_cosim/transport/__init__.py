# SPDX-License-Identifier: Apache-2.0
"""Packet engine of the reliable transport: docs/decisions/0009-reliable-transport.md as a program.

Times are integer cycles of the network, or ticks of `tick_cycles` cycles where a name says so.
"""
