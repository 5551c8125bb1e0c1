-- +goose Up
-- A part of a journal is larger than what SQLite keeps in the page of an index: most of it was in overflow pages, one for each
-- part. In a table by row number, parts lie one after the other.
ALTER TABLE execution_part RENAME TO execution_part_before;
CREATE TABLE execution_part (
    execution TEXT NOT NULL,
    seq       INTEGER NOT NULL,    -- from 1; none is there after one that could not be written
    data      BLOB NOT NULL        -- JSON, compressed where that makes it shorter, then sealed: see package store
) STRICT;
INSERT INTO execution_part (execution, seq, data) SELECT execution, seq, data FROM execution_part_before ORDER BY execution, seq;
DROP TABLE execution_part_before;
CREATE UNIQUE INDEX execution_part_seq ON execution_part (execution, seq);

-- For lists of executions: of a principal, of a session, and in a state.
CREATE INDEX execution_principal ON execution (principal, started, id, state);
CREATE INDEX execution_session ON execution (session, started, id, principal) WHERE session <> '';
CREATE INDEX execution_state ON execution (state, started, id);
