-- +goose Up
CREATE TABLE execution (
    id        TEXT PRIMARY KEY,
    principal TEXT NOT NULL,
    client    TEXT NOT NULL,
    session   TEXT NOT NULL,    -- its name; empty: none
    language  TEXT NOT NULL,
    tier      INTEGER NOT NULL,
    engine    TEXT NOT NULL,
    build     TEXT NOT NULL,
    state     TEXT NOT NULL,
    started   INTEGER NOT NULL, -- microseconds since 1970, UTC
    ended     INTEGER NOT NULL, -- 0: it has not
    calls     INTEGER NOT NULL,
    bytes     INTEGER NOT NULL, -- of its journal, results included
    after     TEXT NOT NULL,
    lost      TEXT NOT NULL,
    why       TEXT NOT NULL,
    attempts  INTEGER NOT NULL
) STRICT;

CREATE INDEX execution_started ON execution (started);
CREATE INDEX execution_open ON execution (started) WHERE ended = 0;

-- The journal, in parts of one or more entries: sealed by package secret, bound to execution and seq.
CREATE TABLE execution_part (
    execution TEXT NOT NULL,
    seq       INTEGER NOT NULL,    -- from 1; none is there after one that could not be written
    data      BLOB NOT NULL,
    PRIMARY KEY (execution, seq)
) STRICT, WITHOUT ROWID;

-- What entries refer to, once: sealed, bound to its digest (HMAC-SHA256 under a key of the store's).
CREATE TABLE execution_result (
    digest TEXT PRIMARY KEY,
    data   BLOB NOT NULL
) STRICT;

CREATE TABLE execution_ref (
    execution TEXT NOT NULL,
    digest    TEXT NOT NULL,
    PRIMARY KEY (execution, digest)
) STRICT, WITHOUT ROWID;

CREATE INDEX execution_ref_digest ON execution_ref (digest);

CREATE TABLE execution_disk (touched INTEGER NOT NULL) STRICT;
INSERT INTO execution_disk VALUES (0);
