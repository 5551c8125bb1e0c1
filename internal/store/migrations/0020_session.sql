-- +goose Up
CREATE TABLE session (
    id            TEXT PRIMARY KEY,
    owner         TEXT NOT NULL,    -- ID of the principal
    name          TEXT NOT NULL,
    revision      INTEGER NOT NULL,
    created       INTEGER NOT NULL, -- microseconds since 1970, UTC
    used          INTEGER NOT NULL,
    programs      INTEGER NOT NULL,
    languages     TEXT NOT NULL,    -- separated by commas
    engine        TEXT NOT NULL,
    state_bytes   INTEGER NOT NULL,
    file_bytes    INTEGER NOT NULL,
    files         INTEGER NOT NULL,
    journal_bytes INTEGER NOT NULL,
    state         BLOB NOT NULL,    -- sealed by package secret, bound to id, owner, name and revision
    UNIQUE (owner, name)
) STRICT;

-- Snapshots, files and journals: sealed by package secret, bound to id. They never change.
CREATE TABLE session_blob (
    id   TEXT PRIMARY KEY,
    data BLOB                       -- NULL: in a file of that name in the folder sessions
) STRICT;

CREATE TABLE session_ref (
    session TEXT NOT NULL,
    blob    TEXT NOT NULL,
    seq     INTEGER,                -- of a part of the journal; NULL for all else
    PRIMARY KEY (session, blob)
) STRICT, WITHOUT ROWID;

CREATE INDEX session_ref_blob ON session_ref (blob);

CREATE TABLE skill (
    owner    TEXT NOT NULL,
    name     TEXT NOT NULL,         -- of the file
    modified INTEGER NOT NULL,
    source   BLOB NOT NULL,         -- sealed, bound to owner and name
    shared   BLOB,                  -- what others see, sealed; NULL: nothing
    changed  INTEGER NOT NULL,      -- 1: shared is older than source
    PRIMARY KEY (owner, name)
) STRICT, WITHOUT ROWID;
