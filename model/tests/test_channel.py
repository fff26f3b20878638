# SPDX-License-Identifier: Apache-2.0
"""Tests how the server takes messages and their file descriptors from a socket."""

import os
import select
import socket

import pytest

from efa_cosim.live.channel import READ_BYTES, Channel, Closed, close_fds
from efa_cosim.live.protocol import HEADER, MOST_FDS, ProtocolError


def message(number, payload=b""):
    return HEADER.pack(number, 1, HEADER.size + len(payload), 0, 0) + payload


@pytest.fixture
def ends():
    """A client, and the channel to it."""
    client, server = socket.socketpair()
    channel = Channel(server)
    yield client, channel
    client.close()
    channel.close()


@pytest.fixture
def files(tmp_path):
    """Some open files; `number_of` tells which one a file descriptor is."""
    numbers = [os.open(tmp_path / str(name), os.O_CREAT) for name in range(3)]
    yield numbers
    close_fds(numbers)


def number_of(fd):
    return int(os.readlink(f"/proc/self/fd/{fd}").rpartition("/")[2])


def received(channel):
    """(number, payload, file numbers) of the messages that have arrived."""
    found = []
    while select.select([channel], [], [], 0)[0]:
        for one in channel.messages():
            found.append((one.header.message, one.payload, [number_of(fd) for fd in one.fds]))
            close_fds(one.fds)
    return found


def test_messages_of_any_size_arrive_in_order(ends):
    client, channel = ends
    sizes = [0, 1, 24, READ_BYTES, 3 * READ_BYTES, 0, 8]
    payloads = [bytes([number]) * size for number, size in enumerate(sizes)]
    client.sendall(b"".join(message(number, one) for number, one in enumerate(payloads)))
    assert received(channel) == [(number, one, []) for number, one in enumerate(payloads)]


def test_a_message_arrives_in_pieces(ends):
    client, channel = ends
    whole = message(7, b"payload") + message(8)
    for at in range(len(whole) - 1):
        client.sendall(whole[at : at + 1])
        expected = [(7, b"payload", [])] if at == len(message(7, b"payload")) - 1 else []
        assert received(channel) == expected
    client.sendall(whole[-1:])
    assert received(channel) == [(8, b"", [])]


def test_file_descriptors_stay_with_their_message(ends, files):
    client, channel = ends
    client.sendall(message(1))
    socket.send_fds(client, [message(2, b"map")], files[:2])
    client.sendall(message(3))
    socket.send_fds(client, [message(4)], files[2:])
    assert received(channel) == [(1, b"", []), (2, b"map", [0, 1]), (3, b"", []), (4, b"", [2])]


@pytest.mark.parametrize("cut", [1, HEADER.size, HEADER.size + 2])
def test_file_descriptors_come_with_any_part_of_a_message(ends, files, cut):
    client, channel = ends
    whole = message(2, b"map")
    socket.send_fds(client, [whole[:cut]], files[:1])
    socket.send_fds(client, [whole[cut:]], files[1:2])
    client.sendall(message(3))
    assert received(channel) == [(2, b"map", [0, 1]), (3, b"", [])]
    client.sendall(message(4))
    socket.send_fds(client, [whole[:cut]], files[:1])
    assert received(channel) == [(4, b"", [])]
    client.sendall(whole[cut:] + message(5))
    assert received(channel) == [(2, b"map", [0]), (5, b"", [])]


def test_a_message_has_not_too_many_file_descriptors(ends, files):
    client, channel = ends
    for _ in range(MOST_FDS // 2):
        socket.send_fds(client, [b"\1"], files[:2])
        assert received(channel) == []
    socket.send_fds(client, [b"\1"], files[:1])
    with pytest.raises(ProtocolError, match="too many file descriptors"):
        received(channel)


def test_a_closed_channel_holds_no_file_descriptors(ends, files):
    client, channel = ends
    before = set(os.listdir("/proc/self/fd"))
    client.sendall(message(1))
    socket.send_fds(client, [message(2, b"map")[:-1]], files)
    assert received(channel) == [(1, b"", [])]
    client.close()
    with pytest.raises(Closed) as end:
        received(channel)
    assert end.value.inside
    channel.close()
    assert set(os.listdir("/proc/self/fd")) < before
