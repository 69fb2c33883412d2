"""SQL written once: names, words, parameters and batches, for both databases."""

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.core.errors import InvalidSetting, StoreError
from ostinato.store.dialect import TABLES, DatabaseKind, Dialect
from ostinato.store.rows import from_micros, to_micros, to_uuid

POSTGRES = Dialect(DatabaseKind.POSTGRES)
SQLITE = Dialect(DatabaseKind.SQLITE)
BOTH = pytest.mark.parametrize("dialect", [POSTGRES, SQLITE], ids=["postgres", "sqlite"])

FILE = """\
-- All statements of the test.

-- name: rename
-- Gives a job another name.
UPDATE {jobs} SET name = :name WHERE id = :id AND name <> :name;

-- name: lock [postgres]
SELECT pg_advisory_lock(1)

-- name: lock [sqlite]
SELECT 1
"""


def test_a_file_of_statements_is_read_by_name_and_dialect():
    assert set(POSTGRES.statements(FILE)) == {"rename", "lock"}
    assert POSTGRES.statements(FILE)["lock"].sql == "/* lock */ SELECT pg_advisory_lock(1)"
    assert SQLITE.statements(FILE)["lock"].sql == "/* lock */ SELECT 1"


def test_comments_below_the_name_are_kept_as_documentation_and_not_sent():
    rename = SQLITE.statements(FILE)["rename"]
    assert rename.about == "Gives a job another name."
    assert "Gives" not in rename.sql


def test_parameters_and_tables_are_written_as_each_database_wants_them():
    p, s = POSTGRES.statements(FILE)["rename"], SQLITE.statements(FILE)["rename"]
    assert p.sql == '/* rename */ UPDATE "ostinato".jobs SET name = $1 WHERE id = $2 AND name <> $1'
    assert s.sql == "/* rename */ UPDATE ostinato_jobs SET name = :name WHERE id = :id AND name <> :name"
    assert p.parameters == s.parameters == ("name", "id")


PARTS = """\
-- part: chosen
-- Which of them.
name = :name AND {position}(task, :text) > 0

-- name: page
SELECT id FROM {jobs} WHERE {part chosen} LIMIT :limit

-- name: total
SELECT count(*) FROM {jobs} WHERE {part chosen}
"""


def test_a_part_stands_in_every_statement_that_names_it():
    page, total = POSTGRES.statements(PARTS).values()
    assert page.sql == ('/* page */ SELECT id FROM "ostinato".jobs WHERE name = $1 AND strpos(task, $2) > 0 LIMIT $3')
    assert total.parameters == ("name", "text")
    assert "instr(task, :text) > 0" in SQLITE.statements(PARTS)["total"].sql


@BOTH
def test_a_part_that_is_not_in_the_file_is_refused(dialect):
    with pytest.raises(StoreError, match="There is no part chosen"):
        dialect.statements("-- name: page\nSELECT 1 WHERE {part chosen}")


@BOTH
def test_quotes_comments_and_casts_are_left_alone(dialect):
    statement = dialect.statement("SELECT 'it''s :a {b} 100%', \"c:d\", 1::bigint -- :e {f}\nWHERE 2 % 2 = 0")
    assert statement.sql == "SELECT 'it''s :a {b} 100%', \"c:d\", 1::bigint\nWHERE 2 % 2 = 0"
    assert statement.parameters == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("-- name: a\nSELECT 1\n-- name: a\nSELECT 2", "a is written twice"),
        ("-- name: a\nSELECT 1\n-- name: a [sqlite]\nSELECT 2", "a is written twice"),
        ("-- name: a [sqlite]\nSELECT 1", "a is missing for postgres"),
        ("-- name: a [oracle]\nSELECT 1", "Line 1 does not name"),
        ("-- name a\nSELECT 1", "Line 1 does not name"),
        ("SELECT 1\n-- name: a\nSELECT 1", "Line 1 stands before"),
        ("-- name: a\n-- nothing\n", "a is empty"),
        ("-- name: a\nSELECT {now}", r"a has a word that no dialect knows: \{now\}"),
        ("-- name: a\nSELECT :rows", "cannot call a parameter rows"),
        ("-- name: a\nSELECT * FROM {rows: id}", "not `name type`: id"),
        ("-- name: a\nSELECT * FROM {rows: id uuid}, {rows: id text}", "one batch only"),
    ],
)
@BOTH
def test_a_file_that_is_wrong_is_refused_when_it_is_loaded(dialect, text, reason):
    with pytest.raises(StoreError, match=reason):
        dialect.statements(text)


@pytest.mark.parametrize(
    ("word", "postgres", "sqlite"),
    [
        ("{for_update}", "FOR UPDATE", ""),
        ("{for_update of j}", "FOR UPDATE OF j", ""),
        ("{for_update_skip_locked}", "FOR UPDATE SKIP LOCKED", ""),
        ("{for_update_skip_locked of j}", "FOR UPDATE OF j SKIP LOCKED", ""),
        ("{for_share}", "FOR SHARE", ""),
        ("{uuid}", "uuid", "BLOB"),
        ("{instant}", "bigint", "INTEGER"),
        ("{bigint}", "bigint", "INTEGER"),
        ("{double}", "double precision", "REAL"),
        ("{text}", 'text COLLATE "C"', "TEXT"),
        ("{json}", "text", "TEXT"),
        ("{keyed}", "", "STRICT, WITHOUT ROWID"),
        ("{fillfactor 50}", "WITH (fillfactor=50)", ""),
        ("{prefix}", "", "ostinato_"),
        ("{greatest}", "GREATEST", "max"),
        ("{least}", "LEAST", "min"),
        ("{is_distinct_from}", "IS DISTINCT FROM", "IS NOT"),
        ("{is_not_distinct_from}", "IS NOT DISTINCT FROM", "IS"),
    ],
)
def test_dialect_words(word, postgres, sqlite):
    assert POSTGRES.statement(f"x {word} y").sql == f"x {postgres} y"
    assert SQLITE.statement(f"x {word} y").sql == f"x {sqlite} y"


@pytest.mark.parametrize("table", sorted(TABLES))
def test_every_table_has_its_name(table):
    assert Dialect(DatabaseKind.POSTGRES, "mine").statement(f"{{{table}}}").sql == f'"mine".{table}'
    assert SQLITE.statement(f"{{{table}}}").sql == f"ostinato_{table}"


@pytest.mark.parametrize("schema", ["", "Mine", "a b", 'a"b', "1a", "x" * 41, "ü"])
def test_a_schema_that_is_no_plain_identifier_is_refused(schema):
    with pytest.raises(InvalidSetting, match="cannot be used"):
        Dialect(DatabaseKind.POSTGRES, schema)


def test_a_batch_is_a_table_of_its_rows():
    text = "UPDATE {jobs} AS j SET x = u.x, at = :now FROM {rows: id uuid, x bigint} WHERE j.id = u.id"
    p, s = POSTGRES.statement(text), SQLITE.statement(text)
    assert "FROM unnest($2::uuid[], $3::bigint[]) AS u(id, x) WHERE" in p.sql
    cells = "substr(:rows_ids, key * 16 + 1, 16) AS id, value->>1 AS x"
    assert f"FROM (SELECT {cells} FROM json_each(:rows)) AS u WHERE" in s.sql
    assert s.each == "UPDATE ostinato_jobs AS j SET x = ?2, at = ?3  WHERE j.id = ?1"
    assert p.columns == s.columns == (("id", "uuid"), ("x", "bigint"))


def test_columns_whose_names_begin_alike_are_not_confused():
    sql = POSTGRES.statement("SELECT * FROM {rows: id uuid, id_b uuid, i bigint} WHERE a = :a").sql
    assert "unnest($2::uuid[], $3::uuid[], $4::bigint[]) AS u(id, id_b, i) WHERE a = $1" in sql


def test_of_a_batch_for_several_statements_each_is_sent_what_it_names():
    text = "DELETE FROM t USING {rows: id uuid, at instant, why text} WHERE t.id = u.id AND t.why = u.why"
    statement = POSTGRES.statement(text)
    assert "unnest($1::uuid[], $2::text[]) AS u(id, why)" in statement.sql
    assert (len(statement.columns), statement.used) == (3, (0, 2))


def test_a_list_parameter_is_an_array_or_a_subselect():
    p, s = (d.statement("SELECT 1 WHERE id {in: ids uuid} AND q = :q") for d in (POSTGRES, SQLITE))
    assert p.sql == "SELECT 1 WHERE id = ANY ($1::uuid[]) AND q = $2"
    ids = "SELECT substr(:ids, key * 16 + 1, 16) FROM json_each(:ids_places)"
    assert s.sql == f"SELECT 1 WHERE id IN ({ids}) AND q = :q"


def test_what_is_found_by_another_cannot_be_merged_with_it():
    for text, key in (("l.id", "l.id"), ("skips.id", "{skips}.id")):
        p, s = (d.statement(f"SELECT 1 WHERE {{found_by: {text} u.x}} AND {key} = 1") for d in (POSTGRES, SQLITE))
        name = p.sql.rpartition(" AND ")[2].removesuffix(" = 1")
        assert p.sql == f"SELECT 1 WHERE {name} = ANY (ARRAY[u.x]) AND {name} = 1"
        assert " = u.x AND " in s.sql


@BOTH
def test_a_script_ends_its_statements_with_semicolons_at_line_ends(dialect):
    script = "-- one; two;\nSELECT ';' ; -- end\n\nSELECT 'a--b';\nSELECT 3\n"
    assert [part.sql for part in dialect.script(script)] == ["SELECT ';'", "SELECT 'a--b'", "SELECT 3"]


def test_what_all_rows_share_are_parameters_with_their_types():
    text = "INSERT INTO {jobs} (id, task, slot) SELECT u.id, {shared: task text, slot bigint} FROM {rows: id uuid}"
    assert "SELECT u.id, $1::text, $2::bigint FROM unnest($3::uuid[])" in POSTGRES.statement(text).sql
    sqlite = SQLITE.statement(text)
    assert "SELECT u.id, :task, :slot FROM" in sqlite.sql
    assert sqlite.parameters == ("task", "slot")


@BOTH
@pytest.mark.parametrize("script", ["DO $$ x $$;", "SELECT :a;", "SELECT * FROM {rows: a text};"])
def test_a_script_has_no_bodies_and_no_parameters(dialect, script):
    with pytest.raises(StoreError, match="migration cannot"):
        dialect.script(script)


@given(st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=45))])))
def test_instants_survive_the_way_through_microseconds(instant):
    assert from_micros(to_micros(instant)) == instant
    assert from_micros(to_micros(instant)).tzinfo is UTC


@given(st.integers(0, to_micros(datetime(9999, 12, 31, tzinfo=UTC))))
def test_microseconds_survive_the_way_through_instants(micros):
    assert to_micros(from_micros(micros)) == micros


def test_a_naive_instant_is_refused():
    with pytest.raises(TypeError):
        to_micros(datetime(2026, 1, 1))  # noqa: DTZ001


def test_an_id_is_the_same_from_both_databases():
    one = uuid4()
    assert to_uuid(one.bytes) == to_uuid(one) == one
    assert isinstance(to_uuid(one.bytes), UUID)
