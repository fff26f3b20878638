# SPDX-License-Identifier: Apache-2.0
"""Defines the items and sequences of the host agent: pieces of host software."""

from pyuvm import uvm_sequence, uvm_sequence_item


class HostItem(uvm_sequence_item):
    """Calls a piece of host software with the item's arguments and holds its result."""

    def __init__(self, work, *arguments, **named):
        super().__init__(getattr(work, "__name__", "work"))
        self.work = lambda: work(*arguments, **named)
        self.result = None


class HostSequence(uvm_sequence):
    """Runs host software as a sequence; `await self.do(function, ...)` runs one piece."""

    async def do(self, work, *arguments, **named):
        item = HostItem(work, *arguments, **named)
        await self.start_item(item)
        await self.finish_item(item)
        return item.result
