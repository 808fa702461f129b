# SPDX-License-Identifier: Apache-2.0
"""Leases: one holder at a time, taken over from who is gone, by no clock but one's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unbraid.core import files, lease, lease_holder
from unbraid.core.errors import HeldError
from unbraid.core.lease import Lease, LostLeaseError, take
from unbraid.core.lease_holder import Watch, holder, living


class Clock:
    """Somebody's own clock, which counts what it is told to."""

    def __init__(self, began: float) -> None:
        self.now = began

    def __call__(self) -> float:
        return self.now


def hold(place: Path, watch: Watch | None = None, seconds: float = 60.0) -> Lease | None:
    def covers(path: Path) -> bool:
        return path.name.startswith("mine")

    return take(place, covers, watch or Watch(), seconds=seconds, own_halves=True)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / ".chunk.lease"


def elsewhere(monkeypatch: pytest.MonkeyPatch, one: Lease) -> None:
    """Nothing can be known of the process that holds *one* but what its file says."""
    monkeypatch.setattr(lease, "is_dead", lambda name: False)


def test_one_holds_it_until_it_is_given_back(place: Path):
    first = hold(place)
    assert first is not None
    assert hold(place) is None
    assert holder(place) == first.name
    first.give_back()
    assert holder(place) is None
    assert not [*place.parent.iterdir()]
    second = hold(place)
    assert second is not None
    assert second.name != first.name
    second.give_back()


def test_of_many_rivals_one_wins(place: Path):
    won: list[Lease | None] = []
    together = threading.Barrier(16)

    def rival() -> None:
        together.wait()
        won.append(hold(place))

    threads = [threading.Thread(target=rival) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [one for one in won if one is not None]
    assert [path.name for path in place.parent.iterdir()] == [place.name], "losers leave nothing"
    winner.give_back()


def test_of_many_rivals_one_takes_it_over(place: Path, monkeypatch: pytest.MonkeyPatch):
    old = hold(place)
    assert old is not None
    elsewhere(monkeypatch, old)
    clocks = [Clock(1000.0 * number) for number in range(16)]
    watches = [Watch(clock) for clock in clocks]
    for clock, watch in zip(clocks, watches, strict=True):
        watch.look(place)
        clock.now += 61.0
    won: list[Lease | None] = []
    together = threading.Barrier(16)

    def rival(watch: Watch) -> None:
        together.wait()
        won.append(hold(place, watch))

    threads = [threading.Thread(target=rival, args=(watch,)) for watch in watches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [one for one in won if one is not None]
    assert holder(place) == winner.name
    with pytest.raises(LostLeaseError, match="was taken over by another process"):
        old.check()
    for one in (old, winner):
        one.give_back()


def test_who_sleeps_while_it_takes_over_has_lost_it_too(
    place: Path, monkeypatch: pytest.MonkeyPatch
):
    old = hold(place)
    assert old is not None
    elsewhere(monkeypatch, old)
    clock, real, third = Clock(0.0), Path.mkdir, []

    def stopped(path: Path, *given: object, **options: object) -> None:
        if path.name.endswith(".halves") and not third:
            third.append(None)  # from here on
            clocks = Clock(0.0)
            watch = Watch(clocks)
            watch.look(place)
            clocks.now = 61.0
            third[0] = hold(place, watch)
        real(path, *given, **options)  # pyright: ignore

    watch = Watch(clock)
    watch.look(place)
    clock.now = 61.0
    with monkeypatch.context() as patched:
        patched.setattr(Path, "mkdir", stopped)
        assert hold(place, watch) is None
    assert holder(place) == third[0].name
    third[0].check()
    third[0].give_back()
    old.give_back()
    assert not place.exists()


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.tuples(st.floats(0.1, 40.0), st.booleans()), max_size=8),
    st.floats(-1e9, 1e9),
    st.floats(5.0, 60.0),
)
def test_it_is_over_after_the_promised_time_without_a_sign_of_life(
    tmp_path_factory: pytest.TempPathFactory,
    looks: list[tuple[float, bool]],
    began: float,
    seconds: float,
):
    """By the clock of who looks, whatever it shows; the holder's promise counts."""
    clock, dead = Clock(began), lease_holder.is_dead
    watch, place = Watch(clock), tmp_path_factory.mktemp("lease") / ".chunk.lease"
    one = hold(place, seconds=seconds)
    assert one is not None
    lease_holder.is_dead = lambda name: False
    try:
        silent = 0.0
        watch.look(place)
        for waited, beats in looks:
            clock.now += waited
            silent += waited
            if beats:
                one.beat()
                silent = 0.0
            seen = watch.look(place)
            assert seen is not None
            assert seen.unchanged == pytest.approx(silent, abs=1e-3 + 1e-6 * abs(began))
            if abs(silent - seconds) > 1e-2 + 1e-6 * abs(began):
                assert seen.is_over == (silent > seconds)
    finally:
        lease_holder.is_dead = dead
        one.give_back()


def test_times_of_files_mean_nothing(place: Path, monkeypatch: pytest.MonkeyPatch):
    one = hold(place)
    assert one is not None
    elsewhere(monkeypatch, one)
    for seconds in (0, 1, 2e9, 4e9):
        os.utime(place / one.name, (seconds, seconds))
        monkeypatch.setattr(time, "time", lambda seconds=seconds: seconds)
        assert hold(place) is None
    one.give_back()


def test_what_a_former_holder_writes_cannot_take_its_place(
    place: Path, monkeypatch: pytest.MonkeyPatch
):
    """Even where it is stopped in the last moment, after it has looked whether it still holds."""
    target = place.with_name("mine.json")
    one = hold(place)
    assert one is not None
    files.write_bytes(target, b"before")
    elsewhere(monkeypatch, one)
    real, taken = os.replace, []

    def stopped(source: Path, path: Path) -> None:
        if path == target and not taken:
            clock = Clock(0.0)
            watch = Watch(clock)
            watch.look(place)
            clock.now = 61.0
            taken.append(take(place, lambda path: False, watch))
            assert taken[0] is not None, "another takes it over"
        real(source, path)

    monkeypatch.setattr(files.os, "replace", stopped)
    with pytest.raises(LostLeaseError):
        files.write_bytes(target, b"of a zombie")
    assert target.read_bytes() == b"before"
    with pytest.raises(LostLeaseError):
        files.remove(target)
    assert target.exists()
    one.give_back()
    assert holder(place) == taken[0].name, "what another holds is not given back"
    taken[0].give_back()


def test_files_that_are_not_covered_are_written_as_ever(place: Path):
    one = hold(place)
    assert one is not None
    one.is_lost = True
    files.write_bytes(place.with_name("other.json"), b"1")
    with pytest.raises(LostLeaseError):
        files.write_bytes(place.with_name("mine.json"), b"1")
    one.give_back()


def test_a_dead_process_of_this_machine_is_known_at_once(place: Path):
    program = "import sys; from pathlib import Path; from unbraid.core.lease import *\n"
    program += "take(Path(sys.argv[1]), bool, Watch()); import os; os._exit(9)"
    subprocess.run([sys.executable, "-c", program, str(place)], check=False)
    assert holder(place) is not None
    one = hold(place)
    assert one is not None
    assert {*os.listdir(place)} == {one.name, one.halves.name}
    one.give_back()
    assert not place.exists()


def test_names_of_the_dead():
    own = lease_holder.new_name()
    assert not lease_holder.is_dead(own)
    machine, process, began, word = own.split("-")
    assert lease_holder.is_dead(f"{machine}-{process}-{int(began) + 1}-{word}"), (
        "a process since then"
    )
    assert not lease_holder.is_dead(f"0{machine[1:]}x-{process}-1-{word}"), "of another machine"
    assert not lease_holder.is_dead("anything")


def test_a_process_that_nobody_has_waited_for_is_dead():
    child = os.fork()
    if child == 0:
        os._exit(0)
    deadline = time.monotonic() + 10
    while lease_holder._started(child) != "ended" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert lease_holder.is_dead(f"{lease_holder.machine()}-{child}-1-0")
    os.waitpid(child, 0)


def test_a_holder_shows_that_it_lives_without_being_asked(place: Path):
    one = hold(place, seconds=0.3)
    assert one is not None
    one.about["step"] = 7
    deadline = time.monotonic() + 10
    while one.beats < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    said = json.loads((place / one.name).read_text())
    assert said["beats"] >= 2
    assert (said["step"], said["process"]) == (7, os.getpid())
    one.give_back()


def test_a_lease_that_goes_is_noticed_by_its_holder(place: Path):
    one = hold(place)
    assert one is not None
    (place / one.name).unlink()
    one.beat()
    assert one.is_lost
    one.give_back()


def test_halves_of_nobody_do_not_stand_in_the_way(place: Path):
    (place / "somebody.halves").mkdir(parents=True)
    assert hold(place) is None, "they are removed"
    one = hold(place)
    assert one is not None
    one.give_back()


def test_a_lock_is_refused_while_somebody_on_another_machine_holds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    """And taken over once that one has shown no sign of life for as long as it promised."""
    real = lease_holder.machine()
    monkeypatch.setattr(lease_holder, "machine", lambda: "f" * 16)
    far = take(tmp_path / ".lock.lease", lambda path: False, Watch(), seconds=0.5)
    assert far is not None
    monkeypatch.setattr(lease_holder, "machine", lambda: real)
    with pytest.raises(HeldError, match="is being written by another process on"):
        with files.only_one(tmp_path):
            pass
    monkeypatch.setattr(far, "beat", lambda: None)
    with files.only_one(tmp_path):
        assert holder(tmp_path / ".lock.lease") not in (None, far.name)
    assert living(tmp_path / ".lock.lease", Watch()) is None


def test_what_was_left_of_one_holder_keeps_the_halves_of_no_other_in_place(
    place: Path, monkeypatch: pytest.MonkeyPatch
):
    """A server may keep a file that is removed while somebody has it open."""
    one = hold(place)
    assert one is not None
    earlier = place / f"0-earlier{one.halves.name}"
    for halves in (earlier, one.halves):
        halves.mkdir(exist_ok=True)
        (halves / "half").touch()
    half = one.halves / "half"
    monkeypatch.setattr(lease.shutil, "rmtree", lambda path, ignore_errors: None)
    monkeypatch.setattr(lease, "_names", lambda place: sorted(os.listdir(place)))
    rival = lease.Lease(place, lease_holder.new_name(), 60.0, lambda path: False, True)
    assert lease._taken_over(rival, one.name)
    assert not half.exists(), "its holder would put it in place"
    monkeypatch.undo()
    rival.give_back()
    one.give_back()
