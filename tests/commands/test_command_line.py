# SPDX-License-Identifier: Apache-2.0
"""The command line as a whole: help texts, flags in messages, exit codes, Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import unbraid as ub
from unbraid.commands import command_line as cli
from unbraid.commands.command_line import VERBS
from unbraid.core.errors import StoppedError, UnbraidError

from .conftest import DATA, WORDS, words_with

PROGRAM = [sys.executable, "-m", "unbraid"]


def test_the_whole_way(unbraid, tmp_path: Path, contents):
    folder = tmp_path / "run"
    answer = unbraid("train", DATA, "vae,beta_vae", "--beta", "4", "--out", str(folder), *WORDS)
    assert answer.code == 0
    assert answer.out == f"Trained 2 of 2 models: {folder}\nNext:  unbraid score {folder}\n"
    assert answer.err.splitlines()[0].startswith("training: 40 model-steps in ")
    assert '"unbraid train sprites:x=6' in (folder / "plan.json").read_text()

    answer = unbraid("score", str(folder), "--metrics", "mig")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0].split() == ["seed", "beta", "active_latents", "collapsed", "mig"]
    assert lines[1].split() == ["member", "objective"]
    assert [line.split()[0] for line in lines[2:4]] == ["0", "1"]
    assert lines[5] == "Sorted by member: all are collapsed, so none counts as best."
    assert lines[-2:] == [
        f"All scores, with their parts: {folder / 'scores.parquet'}",
        f"Look at them:  unbraid report {folder}",
    ]

    before = contents(folder)
    answer = unbraid("resume", str(folder))
    assert answer.code == 0
    assert answer.out == f"Trained 2 of 2 models: {folder}\nNext:  unbraid score {folder}\n"
    assert contents(folder) == before

    answer = unbraid("report", str(folder))
    assert answer == (0, f"Open in a browser: {folder / 'report.html'}\n", "")
    assert (folder / "report.html").stat().st_size > 10_000


def test_help_answers_within_half_a_second():
    # Half a second on an idle machine; ratios to a bare interpreter hold on a busy one too.
    ratios = []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import json, argparse, email.message"], check=True)
        bare = time.perf_counter() - began
        began = time.perf_counter()
        shown = subprocess.run([*PROGRAM, "--help"], capture_output=True, text=True, check=True)
        ratios.append((time.perf_counter() - began) / bare)
    assert min(ratios) < 8
    for command in (*VERBS, "data"):
        assert f"  {command} " in shown.stdout


def test_no_command_is_declared_with_anything_heavy():
    program = (
        "import sys; import unbraid.commands.command_line\n"
        "print([m for m in ('torch', 'PIL', 'pandas', 'h5py', 'scipy') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert shown.stdout.strip() == "[]", shown.stderr


def test_the_version(unbraid):
    assert unbraid("--version") == (0, f"unbraid {ub.__version__}\n", "")


@pytest.mark.parametrize(
    ("verb", "kind", "usual"),
    [("train", "LIST", "4"), ("pbt", "RANGE", "1..60"), ("rpu", "RANGE", "1..60")],
)
def test_help_lists_the_hyperparameters_of_the_objective(unbraid, verb: str, kind: str, usual: str):
    plain = unbraid(verb, "--help").out
    assert "Options of" not in plain
    assert "--latents INTEGER" in plain
    assert "[default: 10]" in plain
    shown = unbraid(verb, "dsprites", "beta_vae:beta=4", "--steps", "3", "--help").out
    assert plain.rstrip() in shown
    more = shown.partition("Options of beta_vae:\n")[2]
    row = f"--beta {kind} weight of the KL divergence [default: {usual}]"
    assert more.split() == row.split()


def test_help_lists_those_of_several_objectives(unbraid):
    shown = unbraid("train", "dsprites", "vae,factor_vae", "annealed_vae", "--help").out
    titles = [line for line in shown.splitlines() if line.startswith("Options of ")]
    assert titles == ["Options of factor_vae:", "Options of annealed_vae:"]
    assert "--max-capacity LIST" in shown


def test_help_lists_what_several_objectives_have_under_each(unbraid):
    shown = unbraid("train", "dsprites", "beta_vae", "beta_tcvae", "--help").out
    listed = shown.partition("Options of ")[2]
    rows = [line.split()[0] for line in listed.splitlines() if line.strip()]
    assert {"beta_vae:beta=LIST", "beta_tcvae:beta=LIST"} <= set(rows)
    assert "--beta" not in rows


def test_numbers_and_lists_have_types_of_their_own(unbraid):
    shown = unbraid("train", "--help").out
    for option in (
        *("--seeds LIST", "--steps INTEGER", "--checkpoint-seconds FLOAT", "--out PATH"),
        *("--prior NAMES", "--network TEXT", "[OBJECTIVE...]"),
    ):
        assert option in shown, option
    assert "--clip / --no-clip" in unbraid("perturb", "--help").out


def test_a_message_has_flags_here_and_parameters_in_python(unbraid, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = (
        "train",
        DATA,
        "beta_vae",
        "--batch-size",
        "0",
        "--seeds",
        "0",
        "--learning-rate",
        "nan",
    )
    answer = unbraid(*words)
    assert answer.code == 2
    assert answer.err.splitlines() == [
        "unbraid: --seeds must be at least 1; got 0.",
        "--learning-rate must be a finite number above 0; got nan.",
        "--batch-size must be a whole number of at least 2; got 0.",
    ]
    with pytest.raises(ub.InputError) as caught:
        ub.train(DATA, "beta_vae", batch_size=0)
    assert str(caught.value) == "batch_size must be a whole number of at least 2; got 0."
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (UnbraidError("the disk is full."), 1, "the disk is full."),
        (ub.InputError("no."), 2, "no."),
        (StoppedError("stopped; go on."), 130, "stopped; go on."),
        (KeyboardInterrupt(), 130, "stopped."),
    ],
)
def test_exit_codes(unbraid, monkeypatch, error: BaseException, code: int, text: str):
    def fail(kind: str) -> str:
        raise error

    monkeypatch.setattr("unbraid.commands.list.entries", fail)
    assert unbraid("list", "metrics") == (code, "", f"unbraid: {text}\n")


@pytest.mark.parametrize(
    "stop", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_a_stopped_training_says_how_to_go_on_and_does(unbraid, tmp_path: Path, stop):
    run = tmp_path / "run"
    words = ("train", DATA, "vae", "--out", str(run), "--checkpoint-seconds", "0.05")
    command = [*PROGRAM, *words, *words_with(steps=800)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        deadline = time.monotonic() + 60
        while (
            not list(run.glob("checkpoint/*.safetensors"))
            and process.poll() is None
            and time.monotonic() < deadline
        ):
            time.sleep(0.01)
        process.send_signal(stop)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == ""
    told = f"unbraid: stopped; everything so far is in {run}. Go on with: unbraid resume {run}"
    assert err.splitlines()[-1] == told
    assert "Traceback" not in err
    answer = unbraid("resume", str(run))
    assert answer.code == 0
    assert answer.out.splitlines()[0] == f"Trained 1 of 1 model: {run}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--beta", "1", "--beta", "4"), "option --beta may be given once; got twice."),
        (("--steps", "2", "--steps=3"), "--steps may be given once; got twice."),
        (("--batch_size", "2", "--batch-size", "3"), "--batch-size may be given once; got twice."),
        (("--standardise", "--standardise"), "--standardise may be given once; got twice. Leave"),
        (("--beta",), "beta_vae: beta needs at least one value; got []."),
        (("--scores", "mig"), "option 'scores' is unknown; did you mean 'score'? Known: "),
        (("--keep-optimizer",), "option 'keep_optimizer' is unknown; did you mean 'keep_opti"),
        (("--keep-optimizer", "--score", "mig"), "option 'keep_optimizer' is unknown; did you"),
        (("--out", "file.txt/sub"), "--out must be a folder; got 'file.txt/sub'."),
        (("--out", "n" * 300), "--out must be a folder that can be made; got"),
    ],
)
def test_bad_words_write_nothing(unbraid, tmp_path: Path, monkeypatch, words, message: str):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file.txt").write_text("mine")
    answer = unbraid("train", DATA, "beta_vae", *WORDS, *words)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"unbraid: {message}")
    assert [path.name for path in tmp_path.iterdir()] == ["file.txt"]


def test_both_ways_of_a_flag_are_one_too_many(unbraid, tmp_path: Path):
    answer = unbraid("perturb", DATA, "--out", str(tmp_path / "p"), "--clip", "--no-clip")
    told = "--clip/--no-clip may be given once; got twice. Leave one out."
    assert (answer.code, answer.err) == (2, f"unbraid: {told}\n")


@pytest.mark.parametrize("ignored", [False, True])
def test_a_closed_terminal_stops_it_as_ctrl_c_does_but_not_under_nohup(
    unbraid, monkeypatch, ignored
):
    def app(prog_name):
        signal.raise_signal(signal.SIGHUP)
        raise SystemExit(0)

    monkeypatch.setattr(cli, "app", app)
    signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    try:
        answer = unbraid("list", "metrics")
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    expected = (0, "") if ignored else (130, "unbraid: stopped.\n")
    assert (answer.code, answer.err) == expected


@pytest.mark.parametrize(
    "before", ["sys.stdout = sys.stderr = None", "threading._shutdown = interrupted"]
)
def test_a_closed_output_or_a_second_ctrl_c_turns_no_good_end_into_an_error(before: str):
    """On a GPU, where the process ends by itself; the shell's `>&-` leaves no stream at all."""
    program = f"""
import atexit, os, sys, threading
from unbraid.commands import command_line
def interrupted():
    raise KeyboardInterrupt
atexit.register(os.write, 1, b"exit handlers were called")
{before}
command_line._leave(0)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "exit handlers were called"


@pytest.mark.parametrize(("words", "code"), [(["list"], 0), (["train", "nothing"], 2)])
def test_a_process_that_used_a_gpu_ends_when_all_is_said(words: list[str], code: int):
    """Nothing runs after the exit handlers: a thread that would abort the process is left alone."""
    program = f"""
import atexit, functools, sys, threading, torch
torch.cuda.is_initialized = functools.partial(bool, 1)
atexit.register(print, "exit handlers were called")
class Late:
    def __del__(self):
        print("the interpreter was taken down")
late = Late()
sys.argv = ["unbraid", *{words}]
threading.Timer(0.2, print, ["threads were waited for"]).start()
from unbraid.commands.command_line import main
main()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == code, ended.stderr
    said = ended.stdout.splitlines()
    assert {"threads were waited for", "exit handlers were called"} <= set(said)
    assert "the interpreter was taken down" not in said
    assert "Traceback" not in ended.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="its processes end at once")
def test_a_signal_that_is_sent_again_does_not_disturb_the_end():
    """Clusters do so; what was saved and said stays the end, with its exit code."""
    program = (
        "import atexit, os, signal\n"
        "from unbraid.commands import command_line as cli\n"
        "def app(prog_name):\n"
        "    atexit.register(os.kill, os.getpid(), signal.SIGTERM)\n"
        "    os.kill(os.getpid(), signal.SIGUSR1)\n"
        "cli.app = app\n"
        "cli.main()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (130, "unbraid: stopped.\n")


@pytest.mark.parametrize("verb", ["report", "score", "resume", "status", "explore", "work"])
def test_a_folder_of_runs_is_told_from_a_run(tmp_path, unbraid, verb):
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "plan.json").write_text("{}")
    code, out, err = unbraid(verb, str(tmp_path))
    assert (code, out) == (2, "")
    assert err.endswith(f"It holds first: unbraid {verb} {tmp_path / 'first'}\n")
