# SPDX-License-Identifier: Apache-2.0
"""Files are whole or known to be damaged: every damage tried here is found, and nothing in a file
is ever run.
"""

from __future__ import annotations

import errno
import json
import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from unbraid.core import files, store
from unbraid.core.errors import DamagedFileError, InputError, UnbraidError

RECORD = {
    "name": "β-VAE",
    "steps": 300,
    "rate": 1e-4,
    "large": 1e300,
    "nested": {"list": [1, 2.5, None, True], "empty": {}},
}
TABLE = pd.DataFrame(
    {
        "member": np.arange(40),
        "label": [f"beta_vae β={k % 3}" for k in range(40)],
        "score": np.linspace(0, 1, 40) ** 2,
        "done": [True, False] * 20,
        "gap": [np.nan, 1.0] * 20,
    }
)


def tensors() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        "weights": torch.randn(3, 5, generator=generator),
        "half": torch.randn(7, generator=generator).bfloat16(),
        "step": torch.tensor(12),
        "flags": torch.tensor([True, False]),
        "nothing": torch.empty(0, 4),
    }


def same_tensors(left, right) -> bool:
    return left.keys() == right.keys() and all(
        torch.equal(left[key], right[key]) and left[key].dtype == right[key].dtype for key in left
    )


KINDS = {
    "record.json": (
        lambda path: store.write_json(path, RECORD),
        store.read_json,
        lambda found: found == RECORD,
    ),
    "state.safetensors": (
        lambda path: store.write_tensors(path, tensors(), RECORD),
        store.read_tensors,
        lambda found: same_tensors(found[0], tensors()) and found[1] == RECORD,
    ),
    "table.parquet": (
        lambda path: store.write_table(path, TABLE),
        store.read_table,
        lambda found: found.equals(TABLE),
    ),
}


@pytest.fixture(params=list(KINDS))
def kind(request, tmp_path):
    """Path of a good file, its reader and whether a result is what was written."""
    write, read, same = KINDS[request.param]
    path = tmp_path / request.param
    write(path)
    return path, read, same


def test_what_is_written_is_read(kind):
    path, read, same = kind
    assert same(read(path))
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_a_missing_file_is_missing_not_damaged(kind):
    path, read, _ = kind
    path.unlink()
    with pytest.raises(FileNotFoundError):
        read(path)


def test_truncated_files_are_found(kind):
    path, read, _ = kind
    whole = path.read_bytes()
    for length in sorted(
        {0, 1, 7, 8, 9, *range(0, len(whole), max(1, len(whole) // 40)), len(whole) - 2}
    ):
        path.write_bytes(whole[:length])
        with pytest.raises(DamagedFileError, match=f"^{path} is damaged: "):
            read(path)


def test_flipped_bits_are_found_or_harmless(kind):
    """One bit, or all bits, of a byte at a time: what is read is what was written, or the file is
    called damaged.
    """
    path, read, same = kind
    whole = path.read_bytes()
    found = 0
    places = range(0, len(whole), max(1, len(whole) // 400))
    for count, place in enumerate(places):
        flip = 0xFF if count % 3 == 0 else 1 << (count % 8)
        path.write_bytes(whole[:place] + bytes([whole[place] ^ flip]) + whole[place + 1 :])
        try:
            result = read(path)
        except DamagedFileError:
            found += 1
        else:
            assert same(result), f"byte {place} ^ {flip:#x} went unnoticed"
    assert found > 0.95 * len(places)


def test_every_bit_of_a_small_record_counts(tmp_path):
    path = tmp_path / "small.json"
    store.write_json(path, {"rate": 1e300, "n": 7})
    whole = path.read_bytes()
    for place in range(len(whole)):
        for bit in range(8):
            path.write_bytes(
                whole[:place] + bytes([whole[place] ^ (1 << bit)]) + whole[place + 1 :]
            )
            if place == whole.index(b"e+300") and bit == 5:
                assert store.read_json(path) == {"rate": 1e300, "n": 7}  # 1E+300 is the same number
                continue
            with pytest.raises(DamagedFileError):
                store.read_json(path)


def test_zeroed_and_swapped_blocks_are_found(kind):
    path, read, _ = kind
    whole = path.read_bytes()
    for start in range(0, len(whole) - 64, max(1, len(whole) // 10)):
        path.write_bytes(whole[:start] + bytes(64) + whole[start + 64 :])
        with pytest.raises(DamagedFileError):
            read(path)
    path.write_bytes(whole + b"x")
    with pytest.raises(DamagedFileError):
        read(path)


@pytest.mark.parametrize(
    "content",
    [
        b"[]",
        b"3",
        b'"sha256"',
        b"null",
        b"{}",
        b'{"a": NaN, "sha256": "x"}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_other_json_is_refused(tmp_path, content):
    path = tmp_path / "record.json"
    path.write_bytes(content)
    with pytest.raises(DamagedFileError):
        store.read_json(path)


def test_messages_name_file_and_reason(tmp_path):
    path = tmp_path / "record.json"
    store.write_json(path, {"steps": 300})
    path.write_text(path.read_text().replace("300", "301"))
    with pytest.raises(DamagedFileError) as told:
        store.read_json(path)
    assert str(told.value) == f"{path} is damaged: its content does not match its checksum."
    path.write_text("{")
    with pytest.raises(DamagedFileError) as told:
        store.read_json(path)
    assert str(told.value) == f"{path} is damaged: it is not a whole record (JSONDecodeError)."


def test_tables_and_tensors_without_a_checksum_are_refused(tmp_path):
    from safetensors.torch import save_file

    TABLE.to_parquet(tmp_path / "foreign.parquet")
    with pytest.raises(DamagedFileError):
        store.read_table(tmp_path / "foreign.parquet")
    save_file({"a": torch.zeros(2)}, tmp_path / "foreign.safetensors")
    with pytest.raises(DamagedFileError):
        store.read_tensors(tmp_path / "foreign.safetensors")


def test_about_of_the_wrong_kind_is_damage(tmp_path):
    from safetensors.torch import save_file

    path = tmp_path / "state.safetensors"
    for about in ("[1]", "3", "null", '{"a": NaN}'):
        save_file(
            {"a": torch.zeros(2)}, path, metadata={"record": f'{{"about": {about}, "sha256": "0"}}'}
        )
        with pytest.raises(DamagedFileError):
            store.read_tensors(path)


def test_tables_stay_readable_to_everyone(tmp_path):
    store.write_table(tmp_path / "table.parquet", TABLE)
    assert pd.read_parquet(tmp_path / "table.parquet").equals(TABLE)


def test_values_survive_exactly(tmp_path):
    record = {
        "third": 1 / 3,
        "tiny": 5e-324,
        "zero": -0.0,
        "big": 2**80,
        "text": 'β "quoted" \n line',
        "numbers": {2: "b", 10: "a"},
    }
    store.write_json(tmp_path / "record.json", record)
    found = store.read_json(tmp_path / "record.json")
    assert found == record | {"numbers": {"2": "b", "10": "a"}}
    assert str(found["zero"]) == "-0.0"
    with pytest.raises(ValueError, match="not JSON compliant"):
        store.write_json(tmp_path / "record.json", {"score": float("nan")})
    assert store.read_json(tmp_path / "record.json") == found


def test_digest_is_that_of_canonical_json():
    import hashlib

    assert (
        store.digest({"b": 1, "a": [1.5, None]})
        == hashlib.sha256(b'{"a":[1.5,null],"b":1}').hexdigest()
    )
    assert (
        store.digest({"a": 1, "b": 2})
        == store.digest({"b": 2, "a": 1})
        != store.digest({"a": 2, "b": 1})
    )


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize(
    ("code", "told"),
    [
        (
            errno.ENOSPC,
            (
                "record.json needs 2.5 MB and the disk at {folder} is full; free some room and"
                " give the command again, or resume what it had begun."
            ),
        ),
        (
            errno.EDQUOT,
            (
                "record.json needs 2.5 MB and the disk at {folder} is full; free some room and"
                " give the command again, or resume what it had begun."
            ),
        ),
        (
            errno.EIO,
            (
                "{folder}/record.json cannot be written: Input/output error. Give the command"
                " again where it can be, or by the user who may."
            ),
        ),
    ],
)
def test_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step, code, told):
    path = tmp_path / "record.json"
    files.write_bytes(path, b"old")

    def fail(*given):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(UnbraidError) as error:
        files.write_bytes(path, b"n" * 2_500_000)
    assert str(error.value) == told.format(folder=tmp_path)
    assert path.read_bytes() == b"old"
    assert [found.name for found in tmp_path.iterdir()] == ["record.json"]


def test_full_disk_is_told_for_every_kind(tmp_path, monkeypatch):
    def fail(*given):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    for name, (write, _, _) in KINDS.items():
        with pytest.raises(
            UnbraidError,
            match=(
                rf"^{name} needs \d+\.\d MB and the disk at .* is full; free some room and give"
                r" the command again, or resume what it had begun\.$"
            ),
        ):
            write(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_content_is_synced_before_it_takes_the_place(tmp_path, monkeypatch):
    calls = []
    real_fsync, real_replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (calls.append("fsync"), real_fsync(handle))[1])
    monkeypatch.setattr(
        os,
        "replace",
        lambda source, target: (calls.append("replace"), real_replace(source, target))[1],
    )
    files.write_bytes(tmp_path / "new" / "folder" / "file", b"content")
    # The two new folders, the content, the rename, the folder that holds the name.
    assert calls == ["fsync", "fsync", "fsync", "replace", "fsync"]
    assert (tmp_path / "new" / "folder" / "file").read_bytes() == b"content"


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UnbraidError) as error:
        files.write_bytes(tmp_path / "file" / "below", b"x")
    message = f"{tmp_path}/file/below cannot be written: File exists. Give "
    assert str(error.value).startswith(message)


def test_killed_writer_leaves_the_old_file_and_removable_leftovers(tmp_path):
    program = """
        import os, signal, sys
        from pathlib import Path
        from unbraid.core import store
        os.replace = lambda *given: os.kill(os.getpid(), signal.SIGKILL)
        store.write_json(Path(sys.argv[1]) / "deep" / "record.json", {"version": 2})
    """
    store.write_json(tmp_path / "deep" / "record.json", {"version": 1})
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)], check=False
    )
    assert done.returncode == -9
    assert store.read_json(tmp_path / "deep" / "record.json") == {"version": 1}
    assert len(list((tmp_path / "deep").iterdir())) == 2
    files.remove_unfinished(tmp_path)
    assert [found.name for found in (tmp_path / "deep").iterdir()] == ["record.json"]


def test_remove_unfinished_takes_only_leftovers(tmp_path):
    kept = ["plan.json", ".lock", "notes.part", "state.safetensors"]
    for name in [*kept, ".plan.json.123.part", "sub/.x.safetensors.9.part"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    files.remove_unfinished(tmp_path)
    assert sorted(
        str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()
    ) == sorted(kept)


HOLDER = """
    import sys, time
    from pathlib import Path
    from unbraid.core.files import only_one
    with only_one(Path(sys.argv[1])):
        print("held", flush=True)
        sys.stdin.read()
"""


@pytest.mark.parametrize("end", ["leave", "kill"])
def test_only_one_process_holds_a_folder(tmp_path, end):
    command = [sys.executable, "-c", textwrap.dedent(HOLDER), str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(InputError) as told, files.only_one(tmp_path):
            pytest.fail("two processes hold the folder")
        assert (
            str(told.value)
            == f"{tmp_path} is being written by another process; wait for it to end or stop it."
        )
        if end == "kill":
            holder.kill()
        holder.communicate()
    with files.only_one(tmp_path):
        pass


def test_lock_is_given_back_after_an_error(tmp_path):
    with pytest.raises(RuntimeError, match="trouble"), files.only_one(tmp_path):
        raise RuntimeError("trouble")
    with files.only_one(tmp_path):
        pass


def test_a_missing_folder_cannot_be_held(tmp_path):
    with pytest.raises(UnbraidError) as error, files.only_one(tmp_path / "gone"):
        pytest.fail("a folder that is not there is held")
    assert (
        str(error.value) == f"{tmp_path}/gone cannot be written: No such directory. Make it first."
    )
    assert not (tmp_path / "gone").exists()


class Trap:
    """Leaves a mark when unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return (Path.touch, (self.mark,))


def test_nothing_in_a_file_is_executed(kind, tmp_path):
    path, read, _ = kind
    mark = tmp_path / "executed"
    trap = pickle.dumps(Trap(mark))
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        path.write_bytes(pickle.dumps(Trap(mark), protocol=protocol))
        with pytest.raises(DamagedFileError):
            read(path)
    torch.save({"trap": Trap(mark)}, path)
    with pytest.raises(DamagedFileError):
        read(path)
    assert not mark.exists()
    pickle.loads(trap)  # the trap works
    assert mark.exists()


def test_text_that_looks_like_code_stays_text(tmp_path):
    record = {
        "command": "__import__('os').system('true')",
        "yaml": "!!python/object/apply:os.system ['true']",
    }
    store.write_json(tmp_path / "record.json", record)
    assert store.read_json(tmp_path / "record.json") == record
    assert json.loads((tmp_path / "record.json").read_text())["command"] == record["command"]


def test_tensors_own_their_memory(tmp_path):
    path = tmp_path / "state.safetensors"
    store.write_tensors(
        path,
        {"transposed": torch.arange(6.0).view(2, 3).T, "grad": torch.ones(2, requires_grad=True)},
        {},
    )
    found, about = store.read_tensors(path)
    path.write_bytes(b"overwritten")
    assert found["transposed"].tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    assert found["transposed"].is_contiguous()
    assert not found["grad"].requires_grad
    assert about == {}


def test_the_same_tensors_are_the_same_bytes(tmp_path: Path):
    for number in range(8):
        store.write_tensors(
            tmp_path / f"{number}",
            {"b": torch.ones(3), "a": torch.zeros(2)},
            {"step": 3, "plan": "x"},
        )
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1


def test_a_path_through_a_file_is_missing_not_damaged(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotADirectoryError):
        store.read_json(tmp_path / "file" / "plan.json")


def test_files_of_every_kind_may_be_read_by_whom_the_system_lets(tmp_path: Path):
    plain = tmp_path / "plain"
    plain.write_bytes(b"as the system makes files")
    usual = plain.stat().st_mode
    files.write_bytes(tmp_path / "bytes", b"x")
    store.write_json(tmp_path / "json", {"a": 1})
    store.write_tensors(tmp_path / "tensors", {"a": torch.zeros(2)}, {})
    assert {path.stat().st_mode for path in tmp_path.iterdir()} == {usual}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bytes", "json", "plain", "tensors"]


def test_a_full_disk_under_tensors_is_told_as_such(tmp_path: Path, monkeypatch):
    import safetensors.torch
    from safetensors import SafetensorError

    def full(*words, **options):
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    with pytest.raises(UnbraidError, match=r"needs 0\.0 MB and the disk at .* is full; free some"):
        store.write_tensors(tmp_path / "tensors", {"a": torch.zeros(2)}, {})
    assert list(tmp_path.iterdir()) == []


def test_the_record_about_tensors_is_read_from_the_header(tmp_path: Path):
    path = tmp_path / "tensors"
    store.write_tensors(path, {"a": torch.zeros(2)}, {"step": 3})
    assert store.read_about(path) == {"step": 3}
    path.write_bytes(b"")
    with pytest.raises(DamagedFileError):
        store.read_about(path)


def test_a_table_carries_a_record_about_it(tmp_path: Path):
    table, about = pd.DataFrame({"a": [1, 2]}), {"device": "x", "seconds": 2.5, "of": {"b": [1]}}
    store.write_table(tmp_path / "with.parquet", table, about)
    store.write_table(tmp_path / "without.parquet", table)
    assert store.read_about_table(tmp_path / "with.parquet") == about
    assert store.read_about_table(tmp_path / "without.parquet") == {}
    assert store.read_table(tmp_path / "with.parquet").equals(table)
    content = bytearray((tmp_path / "with.parquet").read_bytes())
    content[10] ^= 1  # in the rows: the record itself is whole
    (tmp_path / "with.parquet").write_bytes(content)
    with pytest.raises(DamagedFileError, match="does not match its checksum"):
        store.read_about_table(tmp_path / "with.parquet")


def test_halves_of_killed_processes_are_removed_and_those_of_others_kept(tmp_path: Path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    path = tmp_path / "report[1].html"
    dead = [tmp_path / f".report[1].html.{ended.pid}.part", tmp_path / f".set.{ended.pid}.part"]
    dead[0].write_text("half")
    dead[1].mkdir()
    (dead[1] / "000000.png").write_text("half")
    alive = [tmp_path / f".report[1].html.{os.getpid()}.part", tmp_path / ".report[1].html.x.part"]
    other = [tmp_path / f".report.html.{ended.pid}.part", tmp_path / "report[1].html"]
    for one in (*alive, *other):
        one.write_text("theirs")
    for place in (path, tmp_path / "set"):
        files.remove_halves(place)
    assert set(tmp_path.iterdir()) == {*alive, *other}


@pytest.mark.parametrize("writer", ["ended", "alive", "elsewhere"])
def test_what_names_nobody_goes_where_no_half_is_left(tmp_path: Path, writer: str):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    name = files.half_of(tmp_path / "x").name
    if writer != "alive":
        name = name.replace(f"-{os.getpid()}.", f"-{ended.pid}.")
    if writer == "elsewhere":
        name = name.replace(name[3:11], "0" * 8)
    halves = {tmp_path / name, tmp_path / ".tmpHrArx6"}
    for half in halves:
        half.write_text("half")
    (tmp_path / "x").write_text("whole")
    files.remove_halves_in(tmp_path)
    left = set() if writer == "ended" else halves
    assert set(tmp_path.iterdir()) == {*left, tmp_path / "x"}


def folder(path: Path) -> None:
    path.mkdir()


def loop(path: Path) -> None:
    path.symlink_to(path)


def dangling(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


@pytest.mark.parametrize("put", [folder, loop, dangling])
@pytest.mark.parametrize("name", ["x.parquet", "x.safetensors"])
def test_what_stands_in_the_place_of_a_file_is_damage(tmp_path: Path, name: str, put):
    read = store.read_table if name == "x.parquet" else store.read_tensors
    with pytest.raises(FileNotFoundError):
        read(tmp_path / name)
    put(tmp_path / name)
    with pytest.raises(DamagedFileError, match="is damaged: it is a "):
        read(tmp_path / name)


def test_a_table_that_may_not_be_read_is_neither_damaged_nor_absent(tmp_path: Path, monkeypatch):
    path = tmp_path / "x.parquet"
    store.write_table(path, pd.DataFrame({"x": [1]}))

    def denied(self):
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_bytes", denied)
    with pytest.raises(UnbraidError) as told:
        store.read_table(path)
    assert type(told.value) is UnbraidError
    assert str(told.value).startswith(f"{path} cannot be read: Permission denied. Give ")
