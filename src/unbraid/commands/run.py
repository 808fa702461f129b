# SPDX-License-Identifier: Apache-2.0
"""A run as a program has it: what can be asked of a population that is trained."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbraid.commands import options as declared
from unbraid.core.checks import is_whole
from unbraid.core.errors import InputError, Shown, StoppedError, invalid
from unbraid.core.folders import PAGES, given_path
from unbraid.core.progress import Progress
from unbraid.core.spelling import split_list
from unbraid.core.words import count
from unbraid.population import defaults

if TYPE_CHECKING:
    import pandas as pd
    import torch

    from unbraid.codes.model import Model
    from unbraid.commands.explore import Explorer
    from unbraid.data.dataset import Dataset
    from unbraid.population.member import Member
    from unbraid.population.run_folder import RunFolder


class Run:
    """A trained population: its members, curves, scores and models."""

    def __init__(
        self, folder: RunFolder, device: torch.device, places: list[torch.device] | None = None
    ) -> None:
        """The run in *folder*; what is left to compute is computed on *device*, and trained on
        *places*, by default on all that *device* stands for.
        """
        self.folder = folder
        self.device = device
        self.places = places

    def __repr__(self) -> str:
        """The folder and what it holds."""
        return (
            f"<Run {self.path}: {count(len(self.folder.plan.members), 'model')} on"
            f" {self.folder.plan.data}>"
        )

    @property
    def path(self) -> Path:
        """The run folder."""
        return self.folder.path

    @property
    def dataset(self) -> Dataset:
        """What the population was trained on."""
        return self.folder.dataset

    @property
    def members(self) -> pd.DataFrame:
        """One row per member: hyperparameters, seed, how its training ended."""
        return self.folder.members()

    @property
    def history(self) -> pd.DataFrame:
        """Training curves: member, step, one column per recorded quantity."""
        return self.folder.history()

    def resume(
        self, *, steps: int | None = None, seeds: int | None = None, quiet: bool = False
    ) -> Run:
        """Train and encode what is left; returns itself.

        With more *steps* than its plan had it trains on, if it kept the optimiser's state. With
        more *seeds* every setting gets so many; models that it has stay, with their scores. Stopped
        by Ctrl-C it raises `StoppedError`, with everything so far on disk.
        """
        self.more(steps, seeds, quiet)
        if os.access(self.path, os.W_OK) or not self._is_trained():
            self._train(quiet)
        self._encode(quiet)
        return self

    def more(self, steps: int | None, seeds: int | None, quiet: bool) -> None:
        """Give the plan more *steps* or *seeds*, with nothing trained yet."""
        from unbraid.population.more_training import extend, grow

        pages = {page.name for page in self.path.glob("*.html")}
        if steps is not None and steps != self.folder.plan.steps:
            extend(self.folder, steps)
        if seeds is not None:
            grow(self.folder, seeds, self.device, self.places)
        gone = pages - {page.name for page in self.path.glob("*.html")}
        if gone and not quiet:
            told = f"{', '.join(sorted(gone))} told of what was there before, and is removed."
            print(f"{told} Afterwards: unbraid report {self.path}", file=sys.stderr, flush=True)

    def train_on_ray(
        self, kind: str, address: str | None, quiet: bool, metrics: Sequence[str] = ()
    ) -> None:
        """Train and encode what is left on a Ray cluster, and score it by *metrics*, if any."""
        from unbraid.commands.on_ray import score_on_ray, train_on_ray
        from unbraid.population.run_folder import RunFolder

        try:
            train_on_ray(self.folder, kind, address, quiet)
            self.folder = RunFolder.open(self.path, self.dataset)
            if metrics:
                score_on_ray(self.folder, metrics, address)
        except KeyboardInterrupt:
            raise stopped(self.path) from None

    def train_and_score(self, metrics: Sequence[str], names: Sequence[str], quiet: bool) -> None:
        """Train, encode and score by *metrics*, which are *names* spelled out."""
        from unbraid.scoring.while_training import ScoringWhileTraining

        try:
            if ScoringWhileTraining.pays(self.device):
                self._train_beside_scoring(names, quiet)
            else:
                self._train(quiet)
            self._encode(quiet)
        except (KeyboardInterrupt, StoppedError):
            # What was asked for is not in the folder, so that `resume` does not score.
            score = f"unbraid score {self.path} --metrics {','.join(metrics)}"
            raise StoppedError(f"{stopped(self.path)}, then score: {score}") from None
        if not self.failure:
            self.score(metrics, quiet=quiet)

    def _train_beside_scoring(self, names: Sequence[str], quiet: bool) -> None:
        """Train, and score chunks that are done meanwhile."""
        from unbraid.scoring.while_training import ScoringWhileTraining

        scoring = ScoringWhileTraining(self.folder, names, self.device, "cheap")
        try:
            self._train(quiet, scoring.chunk_done)
            if not quiet:
                print("scoring: the models trained last", file=sys.stderr, flush=True)
            scoring.finish()
        except BaseException:
            scoring.stop()
            raise

    def _train(
        self, quiet: bool, chunk_done: Callable[[tuple[Member, ...]], None] = lambda chunk: None
    ) -> None:
        from unbraid.population.train import train_run

        plan = self.folder.plan
        with Progress("training", "model-steps", plan.steps * len(plan.members), quiet) as progress:
            some: dict[str, Any] = {} if self.places is None else {"places": self.places}
            outcome = train_run(
                *(self.folder, self.device, progress.advance, progress.say, chunk_done), **some
            )
        if not outcome.finished:
            raise stopped(self.path)
        if outcome.diverged:
            ids = ", ".join(map(str, outcome.diverged))
            progress.say(
                f"{len(outcome.diverged)} of {count(len(plan.members), 'member')} diverged and"
                f" {'was' if len(outcome.diverged) == 1 else 'were'} frozen: {ids}."
            )

    @property
    def failure(self) -> str:
        """What to change where every model diverged, so that there is nothing to look at; else
        empty. The command line ends with it, and with exit code 1.
        """
        members, plan = self.members, self.folder.plan
        if set(members["status"]) != {"diverged"}:
            return ""
        told = (
            f"every model of {self.path} diverged, the first at step {members['steps'].min()}: its"
            " loss or gradient was no finite number any more."
        )
        rates = [
            one.learning_rate for one in plan.members if not isinstance(one.learning_rate, str)
        ]
        usual = defaults.LEARNING_RATE
        if len(rates) < len(plan.members) or min(rates) > usual:
            shown = ", ".join(dict.fromkeys(f"{one.learning_rate}" for one in plan.members))
            return (
                f"{told} Train again, into a new folder, with a lower learning rate, such as"
                f" {usual}; it was {shown}."
            )
        weights = dict.fromkeys(
            f"{name} {value}" for one in plan.members for name, value in one.hyper.items()
        )
        return (
            f"{told} The learning rate of {min(rates)} is low already. Train again, into a new"
            f" folder, with other weights ({', '.join(weights) or 'the objective has none'}), or"
            f" {'with precision float32' if plan.precision != 'float32' else 'look at the data'}."
        )

    def summary(self) -> str:
        """How many models were trained, where they are, and what to type next."""
        from unbraid.data.where_rule import count_images

        lines, members, rule = [], self.members, self.folder.plan.where
        if rule:
            part = f"{count_images(rule, self.dataset):,} of {len(self.dataset):,} images"
            lines.append(f"Trained on {part}: {rule}")
        trained = members["status"].tolist().count("trained")
        lines.append(f"Trained {trained} of {count(len(members), 'model')}: {self.path}")
        return "\n".join([*lines, f"Next:  unbraid score {self.path}"])

    def _encode(self, quiet: bool) -> None:
        from unbraid.codes.codes import CodeStore, scored_sample

        store = CodeStore(self.folder)
        missing = store.missing()
        if not missing:
            return
        images = len(scored_sample(self.dataset, self.folder.plan.code_samples))
        with Progress("encoding", "images", images * len(missing), quiet) as progress:
            store.encode(self.device, progress.advance)

    def score(
        self,
        metrics: str | Sequence[str] = "usual",
        *,
        representation: str | Sequence[str] = "mean",
        errors: str = "cheap",
        quiet: bool = False,
    ) -> pd.DataFrame:
        """Scores of every member beside its settings: one row per member, one column per metric.

        *metrics* are names, with options where wanted ("infomec:pruning=tripod"), or groups: usual
        (the six of Locatello et al. 2019), supervised, unsupervised, usefulness, all. Computed once
        and kept; the index holds member, objective and, of several, the representation. How many
        latents a model uses, and whether it is collapsed (`scoring/collapse.py`), stands before its
        scores; `attrs["remarks"]` has what must be known to read them. After a metric stands its
        standard error over samples, such as `mig_se`, of those that *errors* asks for: cheap ones,
        all that have one, or none (`scoring/standard_errors.py`).
        """
        import pandas as pd

        from unbraid.codes.codes import CodeStore
        from unbraid.codes.reconstructions import ReconstructionStore
        from unbraid.metrics._resampled import STANDARD_ERROR
        from unbraid.scoring.counted import (
            active_latents,
            collapsed_members,
            few_samples_lines,
            scale_lines,
        )
        from unbraid.scoring.metric_names import asked, left_out, needs
        from unbraid.scoring.run_scores import check_request, count_scores, score_run
        from unbraid.scoring.standard_errors import with_error

        names = asked(metrics)
        with_error([], errors)
        words = split_list(representation) if isinstance(representation, str) else representation
        kinds = list(dict.fromkeys(words))
        self._require_trained()
        with Progress("scoring", "scores", 0, quiet) as progress:
            wanted = check_request(self.folder, names, kinds)
            if missing := left_out(names, wanted):
                progress.say(f"Left out for lack of factors: {', '.join(missing)}.")
            self._encode(quiet=True)
            if any(needs(name) == "elbo" for name in wanted):
                ReconstructionStore(CodeStore(self.folder)).measure(self.device)
            healthy = len(self.members.query("status != 'diverged'"))
            progress.total(count_scores(healthy, wanted, kinds))
            try:
                rows = score_run(
                    self.folder, names, kinds, progress.advance, progress.say, self.device, errors
                )
            except KeyboardInterrupt:
                raise StoppedError(
                    f"stopped; the scores so far are kept in {self.path}. The same command goes on."
                ) from None
        sought = ["score"] if errors == "none" else ["score", STANDARD_ERROR]
        rows = rows[rows["quantity"].isin(sought)]
        table = rows.pivot(
            index=["member", "representation"], columns=["metric", "quantity"], values="value"
        )
        known = [
            (name, quantity)
            for name in wanted
            for quantity in sought
            if (name, quantity) in table.columns
            and (quantity == "score" or f"{name}_se" not in wanted)
        ]
        table = table[known].set_axis(
            [name if quantity == "score" else f"{name}_se" for name, quantity in known], axis=1
        )
        about = self.members.drop(columns=["label", "status", "steps"])
        scored = sorted(set(table.index.get_level_values("member").tolist()))
        collapsed = collapsed_members(self.folder, scored)
        about = about.merge(
            pd.DataFrame(
                {
                    "member": scored,
                    "active_latents": list(active_latents(self.folder, scored).values()),
                    "collapsed": [one in collapsed for one in scored],
                }
            ).astype({"member": int}),
            on="member",
        )
        columns = [*about.columns, "representation", *table.columns]
        table = table.reset_index().merge(about, on="member")[columns]
        keys = ["member", "objective"] + (["representation"] if len(kinds) > 1 else [])
        table = table.set_index(keys).drop(columns=["representation"], errors="ignore")
        shown = list(dict.fromkeys(name for name, _ in known))
        whole = [member for member in scored if member not in collapsed]
        table.attrs["remarks"] = [
            *few_samples_lines(self.folder, shown, scored),
            *scale_lines(self.folder, shown, whole),
            *self._remarks(shown, collapsed, len(scored)),
        ]
        return table.sort_index()

    def _remarks(self, metrics: Sequence[str], collapsed: dict[int, int], of: int) -> list[str]:
        """What must be known to read the scores by *metrics*, with some models *collapsed*."""
        from unbraid.scoring.collapse import collapse_remark, dead_codes_remarks
        from unbraid.scoring.counted import varying_factors

        fond = dead_codes_remarks(metrics)
        if not collapsed:
            return fond
        latents = self.folder.plan.latents
        return [collapse_remark(collapsed, latents, varying_factors(self.folder), of), *fond]

    def _is_trained(self) -> bool:
        try:
            self._require_trained()
        except InputError:
            return False
        return True

    def _require_trained(self) -> None:
        for chunk in self.folder.chunks():
            self.folder.trained(chunk)

    def best(self, metric: str | None = None, *, collapsed: bool = False) -> Model:
        """The model with the best score: the highest, or the lowest where lower is better.

        Without a *metric* it is chosen without labels, in the way that did best in locatello2019
        (docs/search.md), and what to expect is said; where none is known to be good, a metric must
        be given. Models that are collapsed, whose scores mean nothing, take part where *collapsed*
        is True.
        """
        if metric is None:
            return self._chosen_without_labels(collapsed)
        from unbraid.scoring.metric_names import GROUPS, asked, higher_is_better

        if not isinstance(metric, str) or metric in GROUPS or len(asked(metric)) != 1:
            raise invalid("metric", "must be a single one, by its name", metric)
        table = self._scored_alive([metric], collapsed)
        values = table[metric] if higher_is_better(metric) else -table[metric]
        return self.model(int(values.idxmax()[0]))  # type: ignore[index]

    def _scored_alive(self, metrics: Sequence[str], collapsed: bool) -> pd.DataFrame:
        """Models with a value by each of *metrics*; with *collapsed* ones where they may be."""
        from unbraid.scoring.collapse import REMEDY

        table = self.score(metrics, errors="none", quiet=True)
        for metric in metrics:
            if metric not in table or bool(table[metric].isna().all()):
                raise invalid("metric", "has no value for any member of the run", metric)
        if collapsed:
            return table
        table = table.loc[~table["collapsed"] & table[[*metrics]].notna().all(axis=1)]
        if not len(table):
            rule = "needs a model that is not collapsed"
            remedy = f"{REMEDY} To take one all the same: {{collapsed=True}}."
            raise invalid("best", rule, Shown(f"none with a value in {self.path}"), remedy)
        return table

    def _chosen_without_labels(self, collapsed: bool) -> Model:
        """The model that the way of the study picks; says how good to expect it."""
        from unbraid.studies.locatello2019 import choosing

        known = choosing.best_choice_known()
        if known is None or not known.trusted:
            rule = "must be given: no choice without labels is known to be good"
            remedy = "For example run.best('udr'); docs/search.md has how good such choices were."
            if known is not None:
                remedy = f"Best did one {known.expectation()}. {remedy}"
            raise invalid("metric", rule, None, remedy)
        table = self._scored_alive(choosing.NEEDED, collapsed)
        scores = {name: table[name].to_numpy(dtype=float) for name in choosing.NEEDED}
        member = int(table.index[choosing.pick(known.way, scores)][0])  # type: ignore[index]
        print(f"member {member}: chosen {known.expectation()}", file=sys.stderr, flush=True)
        return self.model(member)

    def model(self, member: int) -> Model:
        """One trained model of the population."""
        from unbraid.codes.model import Model, check_healthy

        ids = [one.id for one in self.folder.plan.members]
        if not is_whole(member) or member not in ids:
            raise invalid("member", f"must be one of 0..{ids[-1]}", member)
        model = Model(self.folder, int(member))
        check_healthy(self.folder, int(member))
        return model

    def report(self, out: str | Path | None = None) -> Path:
        """Write report.html and return its path: in the run, or by *out* in a folder or a file."""
        from unbraid.report.page import page_place, write_page
        from unbraid.report.train.context import page_context, write_report

        place = None if out is None else page_place(out, PAGES["train"], "report")
        if place is None and not os.access(self.path, os.W_OK):
            remedy = "Write the page elsewhere: {out=FOLDER}."
            raise invalid("run", "must be a folder that can be written", str(self.path), remedy)
        self._require_trained()
        self._encode(quiet=True)
        if place is None:
            return write_report(self.folder)
        return write_page(place, "train", page_context(self.folder))

    def explore(self, out: str | Path | None = None, *, wait: bool = True) -> Explorer:
        """Serve the explorer of the run, until Ctrl-C or, without *wait*, until it is closed; or
        write it to *out*, an .html file or a folder.
        """
        from unbraid.commands.explore import explore

        return explore(self.path, out=out, data=self.dataset, wait=wait)


def stopped(path: Path) -> StoppedError:
    """What is said after Ctrl-C."""
    return StoppedError(
        f"stopped; everything so far is in {path}. Go on with: unbraid resume {path}"
    )


def open_run(path: str | Path, *, data: declared.MovedData = None, device: str = "auto") -> Run:
    """The run in a folder; *data* where it was moved, or was an array in memory."""
    from unbraid.population.devices import choose_devices
    from unbraid.population.run_folder import RunFolder

    folder = RunFolder.open(given_path("run", path))
    if data is not None:
        folder.use(declared.moved_data(data, folder.plan))
    return Run(folder, *choose_devices(declared.device_name(device)))
