import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import CorruptIndexError
from app.file_index.container import read_name, write_name
from app.file_index.payloads import Cursor


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("", b"\0\0"),
        ("id", b"\0\2id"),
        ("\0", b"\0\2\xc0\x80"),
        ("é", b"\0\2\xc3\xa9"),
        ("\uffff", b"\0\3\xef\xbf\xbf"),
        ("😀", b"\0\6\xed\xa0\xbd\xed\xb8\x80"),
    ],
)
def test_writes_names_as_java_does(name: str, stored: bytes) -> None:
    assert write_name(name) == stored
    assert read_name(Cursor(stored), "name") == name


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_reads_what_it_wrote(name: str) -> None:
    cursor = Cursor(b"..." + write_name(name) + b"...", 3)

    assert read_name(cursor, "name") == name
    assert cursor.remaining == 3


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param(b"\0\1\0", id="a plain NUL"),
        pytest.param(b"\0\4\xf0\x9f\x98\x80", id="four bytes"),
        pytest.param(b"\0\3\xed\xa0\xbd", id="half a surrogate pair"),
        pytest.param(b"\0\6\xed\xb8\x80\xed\xa0\xbd", id="halves in the wrong order"),
        pytest.param(b"\0\1\xc3", id="a cut character"),
        pytest.param(b"\0\2\xc1\x81", id="an overlong letter"),
        pytest.param(b"\0\3ab", id="too few bytes"),
        pytest.param(b"\0", id="half a length"),
    ],
)
def test_refuses(stored: bytes) -> None:
    with pytest.raises(CorruptIndexError):
        read_name(Cursor(stored), "name")


def test_refuses_to_write_names_beyond_the_length_field() -> None:
    assert len(write_name("x" * 65535)) == 65537
    with pytest.raises(ValueError, match="at most 65535 bytes, not 65536"):
        write_name("x" * 65536)
