"""The checked reading of annotation files: what cannot be read is refused by name, what was odd is noted."""

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from turnwise.benchmarks.items import AnyItem, Loaded
from turnwise.episodes import describe
from turnwise.errors import UserError

Text = Annotated[str, Field(min_length=1)]


class Refusal(Exception):
    """Why a record cannot be used."""


class Annotation(BaseModel):
    """A record of an annotation file; fields that no scorer needs are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


AnyAnnotation = TypeVar("AnyAnnotation", bound=Annotation)


def read_list(path: Path) -> list[dict[str, Any]]:
    """The JSON objects of an annotation file. Raises UserError where the file is missing or no list of objects."""
    records = _read_json(path, "put the benchmark's official annotation there")
    if not isinstance(records, list) or not records or not all(isinstance(record, dict) for record in records):
        raise UserError(f"{path}: must hold a list of records, as the official annotation does")
    return records


def read_json_object(path: Path, remedy: str) -> dict[str, Any]:
    """The JSON object that a file holds. Raises UserError with the remedy where there is none."""
    value = _read_json(path, remedy)
    if not isinstance(value, dict):
        raise UserError(f"{path}: must hold a JSON object; {remedy}")
    return value


def _read_json(path: Path, remedy: str) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: {(error.strerror or str(error)).lower()}; {remedy}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not valid JSON: {error}; fetch the file again") from None


def annotation_files(places: Sequence[Path], names: Sequence[str]) -> list[Path]:
    """The files themselves, and for a folder those of `names` that it holds. Raises UserError where it holds none."""
    files: list[Path] = []
    for place in places:
        found = [place / name for name in names if (place / name).is_file()] if place.is_dir() else [place]
        if not found:
            raise UserError(f"{place}: holds none of {', '.join(names)}; name the folder or file of the annotation")
        files += found
    return list(dict.fromkeys(files))


def parse(model: type[AnyAnnotation], record: Any) -> AnyAnnotation:
    """One record as `model`. Raises Refusal with the field and the reason."""
    try:
        return model.model_validate(record)
    except ValidationError as error:
        raise Refusal(describe(error).removeprefix("record: ")) from None


def collect(
    files: Sequence[Path], candidates: Callable[[Path], Iterable[tuple[str, Callable[[], Sequence[AnyItem]]]]]
) -> Loaded[AnyItem]:
    """Items of the records of files, each record as its name and what makes its items.

    A record that is refused, or stands twice, is named with the reason. Raises UserError where no record at all is usable.
    """
    kept: dict[str, AnyItem] = {}
    records, refused = 0, []
    for name, make in chain.from_iterable(map(candidates, files)):
        try:
            made = {item.key: item for item in make()}
            if made.keys() & kept.keys():
                raise Refusal("stands twice; the first record counts")
        except Refusal as refusal:
            refused.append((name, str(refusal)))
        else:
            kept |= made
            records += 1
    if not kept:
        names = ", ".join(map(str, files))
        first = f"; record {refused[0][0]}: {refused[0][1]}" if refused else ""
        raise UserError(f"{names}: none of {len(refused)} records is usable{first}; check that this is the right file")
    return Loaded(tuple(kept.values()), tuple(refused), records, tuple(files))
