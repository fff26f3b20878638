# SPDX-License-Identifier: Apache-2.0
"""Tests the store rate of a client without a virtual machine, on a null server, model and RTL."""

import shutil
from dataclasses import replace

import linux
import native_stores
import pytest
from native_stores import NULL, Rate, StoreRateError, device_server, measure, null_server, stores_of
from test_linux import STEPS, played, written

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")
PART = 110  # stores: ten messages


@pytest.fixture(scope="module")
def stores():
    found = stores_of()
    return replace(found, messages=found.messages[:PART])


def test_a_message_has_eleven_stores():
    found = stores_of()
    assert len(found.messages) == 11 * found.count == 4400
    assert {(step.bar, len(step.data)) for step in found.messages} == {(2, 8), (4, 4)}


def test_the_null_server_answers_every_store(stores, tmp_path):
    with null_server(tmp_path) as server:
        [rate] = measure([server], tmp_path, stores, 2)
    assert rate.stores == pytest.approx(rate.messages * PART / stores.count) and rate.stores > 0


def test_a_device_executes_the_stores(stores, backend, tmp_path):
    with device_server(tmp_path, backend) as server:
        [rate] = measure([server], tmp_path, stores, 1)
    assert rate.messages > 0
    assert (rate.clock() != "") == (backend == "verilator")
    if rate.clocks_only:
        assert 0 < rate.cycles < 10 * rate.clocks_only


def test_the_clock_stands_beside_clocks_only():
    rate = Rate("verilator", 20_000, 1_800, 150_000, 200_000)
    assert rate.clock() == "150,000 cycles/CPU s, 200,000 with clocks only (75%)"


def test_a_device_that_executes_nothing_is_found(stores, tmp_path, monkeypatch):
    monkeypatch.setattr(native_stores, "WAIT_SECONDS", 0.2)
    with (null_server(tmp_path) as server,
          pytest.raises(StoreRateError, match="no response at 0x.* as in line 6 of the session")):
        measure([replace(server, name="model")], tmp_path, stores, 1)


def test_a_missing_completion_is_found(stores, tmp_path, monkeypatch):
    monkeypatch.setattr(native_stores, "WAIT_SECONDS", 2.0)
    messages = [*stores.messages]
    place = next(place for place, step in enumerate(messages) if step.writes)
    line, address, data = messages[place].writes[-1]
    wrong = [(line, address, b"\xff" + data[1:])]
    messages[place] = replace(messages[place], writes=wrong)
    with (device_server(tmp_path, "model") as server,
          pytest.raises(StoreRateError, match=f"no completion at {address:#x} as in the session")):
        measure([server], tmp_path, replace(stores, messages=messages), 1)


def test_the_report_has_the_rates_side_by_side(tmp_path):
    steps = [*STEPS[:1], linux.Step("srd_send_bw", "true")]
    text = "@@begin load\n@@end load 0 0 1 0\n@@begin srd_send_bw\n 64 1000 0 0 0.000838\n"
    found = {"model": played(tmp_path, written(f"{text}@@end srd_send_bw 0 1 2 9\n"), steps)}
    rows = linux.rate_rows([Rate(NULL, 80_000.4, 7273), Rate("model", 11_000, 1000)], found)
    assert rows == [(NULL, "80,000", "7,273", "none", "none"),
                    ("reference model", "11,000", "1,000", "none", "64 B: 838 messages/s")]
