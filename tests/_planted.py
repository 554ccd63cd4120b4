"""Faults planted in five examples, and where each is found."""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """A fault of a program."""

    kind: str
    right: str
    wrong: str
    found: str
    """In the constructor of a class, by the build check, by the first run, or never."""
    checkers: tuple[str, ...] = ()
    """What finds it before the program runs: the mypy plugin, pyright without it."""


PLANTED = {
    "forecast": [
        Fault("wrong dtype", "weekday=day[PAST:] % 7", "weekday=day[PAST:] / 7", "constructor", ("plugin",)),
        Fault("wrong width", "nn.Linear(21, 3)", "nn.Linear(20, 3)", "build"),
        Fault(
            "swapped fields", "nn.Embedding(7, 4), Day.weekday", "nn.Embedding(7, 4), Day.past", "build", ("plugin",)
        ),
        Fault("swapped arguments", "past, weekday, Day.holiday)", "past, Day.holiday, weekday)", "build"),
        Fault(
            "missing field",
            "holiday=holiday[PAST:], ",
            "",
            "constructor",
            (
                "plugin",
                "pyright",
            ),
        ),
        Fault(
            "wrong order",
            "        past=past,\n        weekday=weekday,\n        join=",
            "        past=past,\n        join=",
            "build",
            ("plugin",),
        ),
        Fault(
            "typo",
            "past, weekday, Day.holiday)",
            "past, weekday, Day.holidays)",
            "build",
            (
                "plugin",
                "pyright",
            ),
        ),
        Fault(
            "batch dim lost",
            "torch.cat([a.relu(), b, holiday[:, None]], -1)",
            "torch.cat([a.relu(), b, holiday[:, None]], -1).mean(0)",
            "build",
        ),
        Fault("loss not per element", "off = sold[:, None] - quantiles", "off = sold - quantiles[:, 1:2]", "first run"),
    ],
    "towers": [
        Fault("wrong dtype", "film=torch.stack(film)", "film=torch.stack(film).float()", "constructor", ("plugin",)),
        Fault("wrong width", "nn.Linear(17, 16)", "nn.Linear(16, 16)", "build"),
        Fault("swapped fields", "stage(films, Visit.film)", "stage(films, Visit.age)", "build", ("plugin",)),
        Fault("swapped arguments", "-1), seen, Visit.age)", "-1), Visit.age, seen)", "build"),
        Fault(
            "missing field",
            "age=20 + 5 * kind + torch.randn(USERS), ",
            "",
            "constructor",
            (
                "plugin",
                "pyright",
            ),
        ),
        Fault(
            "wrong order",
            "        user=nn.Linear(17, 16),\n        length=stage(unit, out=Towers.user),\n",
            "        length=stage(unit, out=Towers.user),\n        user=nn.Linear(17, 16),\n",
            "build",
        ),
        Fault(
            "typo",
            "out=Towers.user",
            "out=Towers.usr",
            "build",
            (
                "plugin",
                "pyright",
            ),
        ),
        Fault("batch dim lost", "seen.apply(films).mean()", "seen.apply(films).values.mean(0)", "build"),
        Fault(
            "loss not per element", "10 * towers.user @ towers.film.mT", "10 * towers.user * towers.film", "first run"
        ),
    ],
    "suppress": [
        Fault("wrong dtype", "(overlap(*pair) > 0.5).any(-1)", "overlap(*pair).amax(-1)", "build"),
        Fault("wrong width", "boxes=torch.stack(boxes)", "boxes=torch.stack(boxes)[..., :3]", "constructor"),
        Fault(
            "swapped fields",
            "Kept(found=found, score=[one[index] for one, index in zip(score, kept, strict=True)]",
            "Kept(score=found, found=[one[index] for one, index in zip(score, kept, strict=True)]",
            "build",
        ),
        Fault(
            "swapped arguments", "zip(found, raw.truth, strict=True)", "zip(raw.truth, found, strict=True)", "first run"
        ),
        Fault(
            "missing field",
            ", right=right)",
            ")",
            "build",
            (
                "plugin",
                "pyright",
            ),
        ),
        Fault("wrong order", "for one, index in zip(score, kept", "for one, index in zip(kept, score", "first run"),
        Fault(
            "typo",
            "zip(found, raw.truth",
            "zip(found, raw.truths",
            "build",
            (
                "plugin",
                "pyright",
            ),
        ),
        Fault("batch dim lost", "Kept(found=found,", "Kept(found=torch.cat(found),", "build"),
    ],
    "moons": [
        Fault("wrong dtype", "dtype=torch.float32", "dtype=torch.float64", "constructor", ("plugin",)),
        Fault("wrong width", "network(4)", "network(2)", "build"),
        Fault("swapped fields", 'get_dist(batch, "z")', 'get_dist(batch, "halves")', "first run"),
        Fault("missing field", "        z=sample(Normal),\n", "", "build"),
        Fault(
            "wrong order",
            "        halves=NormalParamExtractor(),\n        z=sample(Normal),\n",
            "        z=sample(Normal),\n        halves=NormalParamExtractor(),\n",
            "build",
        ),
        Fault(
            "typo",
            "Point.place)",
            "Point.plase)",
            "build",
            (
                "plugin",
                "pyright",
            ),
        ),
        Fault(
            "batch dim lost",
            "stage(network(2), returns",
            "stage(nn.Sequential(network(2), nn.Flatten(0)), returns",
            "build",
        ),
        Fault("loss not per element", "Normal(0.0, 1.0)).sum(-1)).mean()", "Normal(0.0, 1.0)).sum(-1))", "first run"),
    ],
    "ensemble": [
        Fault(
            "wrong dtype",
            "progression=(target - target.mean()) / target.std()",
            "progression=target.long()",
            "constructor",
            ("plugin",),
        ),
        Fault(
            "wrong width",
            "expand(measured, weight) @ heads.mT",
            "expand(measured, weight)[..., 1:] @ heads.mT",
            "build",
        ),
        Fault("swapped fields", "out=(Guess.value, Guess.spread)", "out=(Guess.spread, Guess.value)", "never"),
        Fault(
            "swapped arguments",
            "Patient(measured=table / table.std(0), progression=(target - target.mean()) / target.std())",
            "Patient((target - target.mean()) / target.std(), table / table.std(0))",
            "constructor",
        ),
        Fault("missing field", "out=(Guess.value, Guess.spread)", "out=Guess.value", "build", ("plugin",)),
        Fault(
            "wrong order",
            "        votes=stage(lambda measured: expand(measured, weight) @ heads.mT, "
            "Patient.measured),\n"
            "        guess=stage(lambda votes: (votes.mean(-1), votes.std(-1)), out=(Guess.value, "
            "Guess.spread)),\n",
            "        guess=stage(lambda votes: (votes.mean(-1), votes.std(-1)), out=(Guess.value, "
            "Guess.spread)),\n"
            "        votes=stage(lambda measured: expand(measured, weight) @ heads.mT, "
            "Patient.measured),\n",
            "build",
            ("plugin",),
        ),
        Fault(
            "typo",
            "Patient.measured)",
            "Patient.mesured)",
            "build",
            (
                "plugin",
                "pyright",
            ),
        ),
        Fault("batch dim lost", "(votes.mean(-1), votes.std(-1))", "(votes.mean(0), votes.std(0))", "build"),
    ],
}
