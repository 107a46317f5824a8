"""Columns as filters name them: with the table in front, and with fields of structs behind."""

import pytest

from app.errors import FilterError
from app.predicates.binding import bind
from app.predicates.model import Unknown
from app.predicates.names import NAMELESS, Names, Relation
from app.predicates.text import read_text
from tests.tables import columns_of

EVENTS = Relation("events", "db")
E = Relation("e")
PERSON = Relation("person", "db")
"""The name of a column, too."""

FIELDS = columns_of(
    """
    event_id: BIGINT; dt: STRING; two words: INT; person: ROW<event_id BIGINT, first STRING>;
    m: MAP<STRING, INT>; by_number: MAP<INT, INT>; items: ARRAY<ROW<x INT>>;
    prod: ROW<db ROW<events ROW<event_id BIGINT>>>; with.dot: INT; Twice: INT; tWICE: INT
    """
)


def meaning(condition: str, relation: Relation = EVENTS) -> str:
    return str(bind(read_text(condition), FIELDS, relation))


@pytest.mark.parametrize(
    ("condition", "relation"),
    [
        ("events.event_id = 5", EVENTS),
        ("EVENTS.Event_Id = 5", EVENTS),
        ("events . event_id = 5", EVENTS),
        ("`events`.`event_id` = 5", EVENTS),
        ("db.events.event_id = 5", EVENTS),
        ("NOT events.event_id <> 5", EVENTS),
        ("events.event_id IN (5)", EVENTS),
        ("events.event_id = 5 AND event_id = 5", EVENTS),
        ("e.event_id = 5", E),
        ("E.event_id = 5", E),
        ("event_id = 5", E),
        ("event_id = 5", NAMELESS),
        # The table's column goes before the struct's field of that name.
        ("person.event_id = 5", PERSON),
        ("db.person.event_id = 5", PERSON),
    ],
)
def test_columns_may_be_qualified(condition: str, relation: Relation) -> None:
    assert meaning(condition, relation) == "event_id = 5"


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("events.`two words` = 5", "two words = 5"),
        ("events.m['k'] = 5", "m[k] = 5"),
        ("m.k = 5", "m[k] = 5"),
        ("m.K = 5", "m[K] = 5"),
        ("db.events.m.k = 5", "m[k] = 5"),
        ("events.dt LIKE '2025%'", "dt STARTS WITH '2025'"),
        ("`with.dot` = 5", "with.dot = 5"),
        ("events.`with.dot` = 5", "with.dot = 5"),
        ("events.Twice = 5", "Twice = 5"),
    ],
)
def test_every_kind_of_column_may_be_qualified(condition: str, expected: str) -> None:
    assert meaning(condition) == expected


@pytest.mark.parametrize(
    ("condition", "relation"),
    [
        ("person.event_id = 5", EVENTS),
        ("person.event_id = 5", E),
        ("e.person.first = 'a'", E),
        ("events.person.first = 'a'", EVENTS),
        ("person.person.first = 'a'", PERSON),
        ("items.x = 5", EVENTS),
        ("events.items[0].x = 5", EVENTS),
        ("by_number.k = 5", EVENTS),
        ("m.k.l = 5", EVENTS),
        ("person.first['k'] = 5", EVENTS),
        ("NOT person.flag", EVENTS),
        ("person.flag", EVENTS),
        ("events.event_id + 1 = 5", EVENTS),
        ("upper(e.dt) = e.person.first", E),
        ("events.event_id < events.`two words`", EVENTS),
        ("prod.db.events.event_id = 5", EVENTS),
    ],
)
def test_fields_of_structs_and_what_can_be_read_in_two_ways_keep_every_row(
    condition: str, relation: Relation
) -> None:
    assert isinstance(bind(read_text(condition), FIELDS, relation), Unknown)


@pytest.mark.parametrize(
    ("condition", "position", "message", "relation"),
    [
        ("dt = 'a' AND orders.event_id = 5", 13, "qualified by events or db.events", EVENTS),
        ("other.events.event_id = 5", 0, "qualified by events or db.events", EVENTS),
        ("c.other.events.event_id = 5", 0, "qualified by events or db.events", EVENTS),
        ("events.event_id = 5", 0, "qualified by e", E),
        ("db.e.event_id = 5", 0, "qualified by e", E),
        ("events.event_id = 5", 0, "no table name precedes columns", NAMELESS),
        ("paimon.db.events.event_id = 5", 0, "qualified by events or db.events", EVENTS),
        ("events.nowhere = 5", 0, "no column 'events.nowhere'", EVENTS),
        ("events.twice = 5", 0, "could be 'Twice' or 'tWICE'", EVENTS),
        ("event_id.nowhere = 5", 0, "event_id is BIGINT and has no field 'nowhere'", EVENTS),
        ("events.event_id.x = 5", 0, "event_id is BIGINT and has no field 'x'", EVENTS),
    ],
)
def test_what_is_not_this_table_is_refused_with_its_place(
    condition: str, position: int, message: str, relation: Relation
) -> None:
    with pytest.raises(FilterError, match=message) as caught:
        meaning(condition, relation)

    assert caught.value.position == position


@pytest.mark.parametrize(
    "written",
    ["event_id", "EVENT_ID", "`event_id`", "events.event_id", "db.events.`event_id`", "DB.Events.event_id"],
)
def test_sort_columns_may_be_qualified(written: str) -> None:
    assert Names(FIELDS, EVENTS).sort_column(written) is FIELDS[0]


def test_sort_columns_are_names_before_they_are_sql() -> None:
    names = Names(FIELDS, EVENTS)

    assert names.sort_column("two words").name == "two words"
    assert names.sort_column("with.dot").name == "with.dot"
    assert names.sort_column("m[k]").name == "m[k]"


@pytest.mark.parametrize(
    "written", ["", "nowhere", "orders.event_id", "person.first", "event_id + 1", "event_id.", "twice"]
)
def test_other_sort_columns_are_refused(written: str) -> None:
    with pytest.raises(FilterError):
        Names(FIELDS, EVENTS).sort_column(written)
