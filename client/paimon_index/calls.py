"""Every endpoint as a conversation: generators that yield requests, are sent bodies and return results.

Both clients run these, so requests are made and answers are read in one place. A plan's stream is not among
them: see :mod:`paimon_index.plans`.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from paimon_index import catalog, results
from paimon_index.decoding import decode
from paimon_index.errors import IncompleteAnswerError
from paimon_index.requests import ARROW, Request, get, index_file_members, post, under

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Unpack

    from paimon_index import options

T = TypeVar("T")
Call: TypeAlias = Generator[Request, bytes, T]


def read_json(body: bytes) -> Any:
    """The JSON value of a body.

    Raises:
        IncompleteAnswerError: it is none.
    """
    try:
        return json.loads(body)
    except ValueError as error:
        raise IncompleteAnswerError(f"the answer is not JSON: {error}") from error


def one(kind: type[T], request: Request) -> Call[T]:
    """One request, whose answer is one object."""
    return decode(kind, read_json((yield request)))


def listed(kind: type[T], member: str, request: Request) -> Call[tuple[T, ...]]:
    """One request, whose answer is a list of objects under a member."""
    answer = read_json((yield request))
    return tuple(decode(kind, each) for each in _member(answer, member))


def names(member: str, request: Request) -> Call[tuple[str, ...]]:
    """One request, whose answer is a list of names under a member."""
    return tuple(_member(read_json((yield request)), member))


def text(request: Request) -> Call[str]:
    """One request, whose answer is text."""
    return (yield request).decode()


def document(request: Request) -> Call[dict[str, Any]]:
    """One request, whose answer is a JSON object of many shapes."""
    answer: dict[str, Any] = read_json((yield request))
    return answer


def caches(request: Request) -> Call[dict[str, catalog.CacheState]]:
    """One request, whose answer has a cache under each member."""
    answer = read_json((yield request))
    return {name: decode(catalog.CacheState, state) for name, state in answer.items() if state is not None}


def schemas(table: str, version: Mapping[str, Any]) -> Call[tuple[catalog.Schema, ...]]:
    """All schemas up to that of a version, the oldest first."""
    joined = yield from _pages("schemas", _get_pages(under(table, "/schemas"), version))
    return tuple(decode(catalog.Schema, each) for each in joined["schemas"])


def index_files(table: str, asked: Mapping[str, Any]) -> Call[catalog.IndexFileList]:
    """The live entries of a version's index manifest."""
    joined = yield from _pages("index_files", _get_pages(under(table, "/index-files"), asked))
    return decode(catalog.IndexFileList, joined)


def deletions(table: str, asked: Mapping[str, Any]) -> Call[results.Deletions]:
    """Deleted rows of data files."""
    path = under(table, "/deletions")

    def page(token: str | None) -> Request:
        return post(path, {**asked, "page_token": token})

    return decode(results.Deletions, (yield from _pages("deletions", page)))


def lookup(table: str, asked: options.LookupOptions) -> Call[results.BucketLookup]:
    """The buckets of keys."""
    return one(results.BucketLookup, post(under(table, "/buckets/lookup"), asked))


def assign(table: str, asked: options.AssignOptions) -> Call[results.Assignment]:
    """The buckets that a writer would give keys."""
    return one(results.Assignment, post(under(table, "/buckets/assign"), asked))


def evaluate(
    warehouse: str,
    schema: Mapping[str, str],
    files: Iterable[options.IndexFile],
    **asked: Unpack[options.EvaluateOptions],
) -> Call[results.Evaluation]:
    """What index files say about a filter."""
    columns = [{"name": name, "type": type_} for name, type_ in schema.items()]
    members = {"schema": columns, "files": [index_file_members(file) for file in files], **asked}
    return one(results.Evaluation, post(f"/v1/{warehouse}/index-files/evaluate", members))


def inspect(
    warehouse: str, file: options.IndexFile, **asked: Unpack[options.InspectOptions]
) -> Call[results.Inspection]:
    """What is in an index file."""
    types = asked.pop("types", None)
    request = post(f"/v1/{warehouse}/index-files/inspect", {**index_file_members(file), **asked})
    parameters = get("", {"schema": types}).parameters
    return one(results.Inspection, Request("POST", request.path, parameters, request.body, key=request.path))


def plan_request(table: str, asked: options.PlanOptions) -> Request:
    """The request whose answer is a plan as an Arrow stream."""
    return post(under(table, "/plan"), asked, ARROW)


def _get_pages(path: str, asked: Mapping[str, Any]) -> Any:
    return lambda token: get(path, {**asked, "page_token": token})


def _pages(member: str, page: Any) -> Call[dict[str, Any]]:
    """The first page's object, with the entries of all pages under ``member``."""
    joined: dict[str, Any] = read_json((yield page(None)))
    entries, token = list(_member(joined, member)), joined.get("next_page_token")
    while token is not None:
        further = read_json((yield page(token)))
        entries += _member(further, member)
        token = further.get("next_page_token")
    return {**joined, member: entries}


def _member(answer: Any, name: str) -> Any:
    if not isinstance(answer, dict) or name not in answer:
        raise IncompleteAnswerError(f"the answer has no member {name}; is the base URL that of paimon-index?")
    return answer[name]
