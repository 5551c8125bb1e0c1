-- +goose Up
CREATE TABLE usage_who (
    id     INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,  -- of what data holds, under the store's key
    data   BLOB NOT NULL          -- sealed: principal, person, agent, client
) STRICT;

CREATE TABLE usage (
    start      INTEGER NOT NULL,  -- of the hour or day, seconds since 1970, UTC
    span       INTEGER NOT NULL,  -- 3600 or 86400, seconds
    who        INTEGER NOT NULL REFERENCES usage_who (id),
    upstream   TEXT NOT NULL,
    tool       TEXT NOT NULL,
    calls      INTEGER NOT NULL,
    failed     INTEGER NOT NULL,
    denied     INTEGER NOT NULL,
    ms         INTEGER NOT NULL,
    sent       INTEGER NOT NULL,  -- bytes
    received   INTEGER NOT NULL,  -- bytes
    executions INTEGER NOT NULL,
    cpu        INTEGER NOT NULL,  -- microseconds
    read       INTEGER NOT NULL,  -- tokens, as those below
    written    INTEGER NOT NULL,
    kept       INTEGER NOT NULL,
    unwritten  INTEGER NOT NULL,
    estimated  INTEGER NOT NULL,
    PRIMARY KEY (start, span, who, upstream, tool)
) STRICT, WITHOUT ROWID;
