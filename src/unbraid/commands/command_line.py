# SPDX-License-Identifier: Apache-2.0
"""The command line, made from the functions of `commands/`: parse, call, print.

Bad input is one clear message and exit code 2; a foreseen failure has code 1; Ctrl-C has 130.
"""

from __future__ import annotations

import atexit
import importlib
import inspect
import os
import shlex
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from typing import Annotated, Any

import typer
import typer.core

from unbraid.commands.verb import Parameter, Verb, verb_of
from unbraid.core.errors import InputError, Shown, StoppedError, UnbraidError, flag, invalid
from unbraid.core.spelling import as_source, parse_extra_options, split_names

VERBS = (
    *("demo", "train", "resume", "work", "status", "score", "report", "explore", "list"),
    *("discover", "pbt", "rpu", "reduce", "perturb", "crossings", "distances", "gallery"),
)
"""Each is a function of that name in a file of that name."""
GROUPS = {
    "data": ("info", "show", "add", "remove", "export"),
    "study": ("list", "run", "check", "report"),
}
"""Commands of two words: functions of `commands/<group>.py`."""
ABOUT = (
    "A laboratory for disentangled representations: train populations of VAEs, measure and explain"
    " them."
)


def describe() -> list[Verb]:
    """Every command with its parameters, in the order of the help text."""
    found = [verb_of(getattr(_module(name), name)) for name in VERBS]
    for group, words in GROUPS.items():
        verbs = (verb_of(getattr(_module(group), word)) for word in words)
        found += [replace(verb, name=f"{group} {verb.name}") for verb in verbs]
    return found


def _module(name: str) -> Any:
    return importlib.import_module(f"unbraid.commands.{name}")


class VerbCommand(typer.core.TyperCommand):
    """A command that takes the hyperparameters of its objective as further flags."""

    verb: Verb

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Typer's own parsing of what it knows; other flags are left in `ctx.args`."""
        flags = {one: (*one.opts, *one.secondary_opts) for one in self.get_params(ctx)}
        known = {name: one for one, names in flags.items() for name in names}
        kept, extra, words, given, waiting = [], [], [], set(), list(args)
        while waiting:
            word = waiting.pop(0)
            flag, equals, _ = word.partition("=")
            spelled = flag.replace("_", "-")
            if not word.startswith("--") or word == "--":
                words.append(word)
            elif spelled in known:
                one = known[spelled]
                takes_value = not getattr(one, "is_flag", False)
                if one in given:
                    remedy = "A list has commas and no blanks." if takes_value else "Leave one out."
                    name = "/".join(flags[one])
                    with _errors(set()):
                        raise invalid(name, "may be given once", Shown("twice"), remedy)
                given.add(one)
                word = spelled + word[len(flag) :]
                if not equals and takes_value and waiting:
                    kept += [word, waiting.pop(0)]
                    continue
            elif self.verb.objective:
                alone = equals or not waiting or waiting[0].startswith("--")
                extra += [word] if alone else [word, waiting.pop(0)]
                continue
            kept.append(word)
        ctx.meta["objectives"] = words[1:] if self.verb.objective else []
        rest = super().parse_args(ctx, kept)
        ctx.args = [*extra, *ctx.args]
        return rest

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The arguments as the help text writes them."""
        return ["[OPTIONS]", *(one.flag for one in self.verb.options if one.argument)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """What the function declares, and the hyperparameters of the objectives that are named."""
        options = self.verb.options
        sections = {
            "Arguments": [(one.flag, one.text) for one in options if one.argument],
            "Options": [(one.flag, one.text) for one in options if not one.argument],
        }
        sections["Options"].append(("--help", "Show this message and exit."))
        named = [key for name in ctx.meta["objectives"] for key in split_names(name)]
        objectives = list(dict.fromkeys(as_source(key)[0] for key in named))
        sections |= hyperparameters(objectives, self.verb)
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def hyperparameters(objectives: list[str], verb: Verb) -> dict[str, list[tuple[str, str]]]:
    """The options of each objective with meaning and default, under a title.

    One that several of them have is no flag: it is written with its objective.
    """
    from unbraid.objectives import OBJECTIVES
    from unbraid.search.pbt.make_search import usual_range

    classes = {name: OBJECTIVES.load(name) for name in objectives}
    owners = Counter(item.name for cls in classes.values() for item in fields(cls))
    kinds = _SEARCHED if verb.search else _SWEPT
    sections = {}
    for objective, cls in classes.items():
        rows = []
        for item in fields(cls):
            if "help" not in item.metadata:
                continue
            kind = kinds.get(item.metadata["kind"], "TEXT")
            shared = owners[item.name] > 1
            spelled = f"{objective}:{item.name}={kind}" if shared else f"{flag(item.name)} {kind}"
            evolves = verb.search and item.name == cls.strength
            usual = usual_range(item) if evolves else _short(item.default)
            rows.append((spelled, f"{item.metadata['help']} [default: {usual}]"))
        sections[f"Options of {objective}"] = rows
    return sections


_SWEPT = {"number": "LIST", "count": "LIST", "vector": "LIST"}
"""How hyperparameters are written for a population: lists are sweeps."""
_SEARCHED = {"number": "RANGE", "count": "INTEGER", "vector": "LIST"}
"""How they are written for a search: ranges evolve."""


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _typer_parameter(one: Parameter) -> inspect.Parameter:
    """For typer everything is text that may be missing: values and defaults are the function's."""
    if one.argument:
        hint: Any = list[str] if one.many else str
        info: Any = typer.Argument(metavar=one.flag.strip("[].").strip())
    else:
        name = flag(one.name)
        hint = str if one.kind else bool
        spelled = f"{name}/--no-{name[2:]}" if one.default is True else name
        info = typer.Option(spelled, metavar=one.kind or None)
    default: Any = inspect.Parameter.empty if one.required else None
    annotation = Annotated[hint if one.required else hint | None, info]
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(one.name, kind, default=default, annotation=annotation)


def _run(verb: Verb, context: typer.Context, given: dict[str, Any]) -> None:
    """Call the function with what was given, and print what it returns."""
    with _errors({one.name for one in verb.options if not one.argument}) as flags:
        if verb.objective:
            given["hyper"] = parse_extra_options(context.args) or None
            flags.update(given["hyper"] or ())
        arguments = {
            one.name: one.read(given[one.name])
            for one in verb.options
            if given.get(one.name) not in (None, [])
        }
        if verb.objective:
            arguments["hyper"] = given["hyper"]
        if any(one.name == "command" for one in verb.parameters):
            arguments["command"] = shlex.join(["unbraid", *sys.argv[1:]])
        made = verb.function(**arguments)
        if failure := getattr(made, "failure", ""):
            raise UnbraidError(failure)
        module = sys.modules[verb.function.__module__]
        shown: Callable[..., str] | None = getattr(module, "shown", None)
        text = shown(verb.function.__name__, made, arguments) if shown else _text(made)
        if text:
            print(text, flush=True)


def _text(made: Any) -> str:
    return made if isinstance(made, str) else made.summary()


def _typer_function(verb: Verb) -> Callable[..., None]:
    def function(context: typer.Context, **given: Any) -> None:
        _run(verb, context, given)

    first = inspect.Parameter(
        "context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
    )
    parameters = [first, *map(_typer_parameter, verb.options)]
    function.__annotations__ = {one.name: one.annotation for one in parameters}
    function.__doc__ = "\n\n".join(part for part in (verb.summary, verb.details) if part)
    setattr(function, "__signature__", inspect.Signature(parameters))  # noqa: B010
    return function


def _new_app(text: str) -> typer.Typer:
    return typer.Typer(
        help=text,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"max_content_width": 100},
    )


def _make_app() -> typer.Typer:
    """The whole command line."""
    app = _new_app(ABOUT)
    groups = {name: _new_app(inspect.getdoc(_module(name)) or "") for name in GROUPS}
    for verb in describe():
        group, _, name = verb.name.rpartition(" ")
        cls = type("VerbCommand", (VerbCommand,), {"verb": verb})
        settings = {"allow_extra_args": verb.objective}
        (groups[group] if group else app).command(name, cls=cls, context_settings=settings)(
            _typer_function(verb)
        )
    for name, one in groups.items():
        app.add_typer(one, name=name)

    app.callback()(_about)
    return app


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"unbraid {version('unbraid')}")
        raise typer.Exit


_VersionOption = Annotated[
    bool,
    typer.Option(
        "--version", help="Show the version and exit.", is_eager=True, callback=_print_version
    ),
]


def _about(version: _VersionOption = False) -> None:
    pass


app = _make_app()


@contextmanager
def _errors(flags: set[str]) -> Iterator[set[str]]:
    """Say what went wrong in one message on standard error, and exit with its code."""
    try:
        yield flags
    except UnbraidError as error:
        code = 130 if isinstance(error, StoppedError) else 2 if isinstance(error, InputError) else 1
        print(f"unbraid: {error.render(flags)}", file=sys.stderr)
        raise SystemExit(code) from None
    except KeyboardInterrupt:
        print("unbraid: stopped.", file=sys.stderr)
        raise SystemExit(130) from None
    except BrokenPipeError:
        # Whoever read the output has enough of it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except OSError as error:
        if error.strerror is None:
            raise
        where = "" if error.filename is None else f"{error.filename}: "
        print(f"unbraid: {where}{error.strerror}.", file=sys.stderr)
        raise SystemExit(1) from None


def _stop(signum: int, frame: Any) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Run the command line."""
    _on_word_of_a_cluster(_stop)
    # The terminal is gone; `nohup` has set it aside.
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, _stop)
    try:
        with _errors(set()):
            app(prog_name="unbraid")
    except SystemExit as ended:
        _on_word_of_a_cluster(signal.SIG_IGN)  # said again, it would end what has ended well
        if _used_a_gpu():
            _leave(ended.code)
        raise


def _on_word_of_a_cluster(what: Any) -> None:
    """Do *what* on SIGTERM, and on SIGUSR1, which may come some time before the end."""
    for name in ("SIGTERM", "SIGUSR1"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), what)


def _used_a_gpu() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_initialized()


def _leave(code: Any) -> None:
    """End the process when all is done and said, before the interpreter is taken down.

    Threads of libraries may abort it then, with nothing wrong (threads of Arrow, its issue 34314,
    and of derivatives on a GPU): a good run would end with exit code 134. Exit handlers are called.
    """
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    wait_for_threads = threading._shutdown  # pyright: ignore[reportAttributeAccessIssue]
    for finish in (wait_for_threads, atexit._run_exitfuncs):
        with suppress(KeyboardInterrupt):  # pressed again: what is waited for is left
            finish()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # as it is where the process began with it closed
            with suppress(OSError, ValueError):  # closed by whoever reads it
                stream.flush()
    os._exit(code or 0)
