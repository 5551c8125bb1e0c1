-- +goose Up
CREATE TABLE audit_begun (
    record    TEXT PRIMARY KEY, -- orders by time
    call      TEXT NOT NULL,
    execution TEXT NOT NULL,
    time      INTEGER NOT NULL, -- microseconds since 1970, UTC
    tool      TEXT NOT NULL,
    principal TEXT NOT NULL,
    client    TEXT NOT NULL,
    digest    TEXT NOT NULL,    -- SHA-256 of the arguments
    arguments TEXT NOT NULL,    -- bounded
    size      INTEGER NOT NULL, -- bytes of all the arguments
    decision  TEXT NOT NULL,
    durable   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX audit_begun_execution ON audit_begun (execution, record) WHERE execution <> '';
CREATE INDEX audit_begun_tool ON audit_begun (tool, record);

CREATE TABLE audit_ended (
    record     TEXT PRIMARY KEY REFERENCES audit_begun (record),
    time       INTEGER NOT NULL,
    outcome    TEXT NOT NULL,
    error_kind TEXT NOT NULL,
    error      TEXT NOT NULL,
    digest     TEXT NOT NULL,   -- SHA-256 of the result
    size       INTEGER NOT NULL,
    duration   INTEGER NOT NULL -- nanoseconds
) STRICT, WITHOUT ROWID;

-- The record is append-only. The triggers on INSERT are for INSERT OR REPLACE, which fires no trigger on DELETE.
-- +goose StatementBegin
CREATE TRIGGER audit_begun_insert BEFORE INSERT ON audit_begun
WHEN EXISTS (SELECT 1 FROM audit_begun WHERE record = NEW.record)
BEGIN SELECT RAISE(ABORT, 'the audit record is append-only: it has begun already'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_begun_update BEFORE UPDATE ON audit_begun
BEGIN SELECT RAISE(ABORT, 'the audit record is append-only'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_begun_delete BEFORE DELETE ON audit_begun
BEGIN SELECT RAISE(ABORT, 'the audit record is append-only'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_ended_insert BEFORE INSERT ON audit_ended
WHEN EXISTS (SELECT 1 FROM audit_ended WHERE record = NEW.record)
BEGIN SELECT RAISE(ABORT, 'the audit record is append-only: it has ended already'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_ended_update BEFORE UPDATE ON audit_ended
BEGIN SELECT RAISE(ABORT, 'the audit record is append-only'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_ended_delete BEFORE DELETE ON audit_ended
BEGIN SELECT RAISE(ABORT, 'the audit record is append-only'); END;
-- +goose StatementEnd
