-- +goose Up
-- What is found in the record is found by tables of its own, which are written for 256 leaves at once, when these are full, and grow at
-- their end. What is in the last leaves is looked for in these. None of it is part of the tree; verify makes it anew and compares. Of
-- older records it is written when the record is opened.
DROP INDEX audit_leaf_record;
DROP INDEX audit_leaf_tool;
DROP INDEX audit_leaf_principal;
DROP INDEX audit_leaf_execution;
DROP INDEX audit_leaf_kind;

-- Where the leaves of a record are, of those in spans.
CREATE TABLE audit_record (
    record TEXT NOT NULL,
    ended  INTEGER NOT NULL, -- 1: the second half of a call
    seq    INTEGER NOT NULL,
    PRIMARY KEY (record, ended)
) STRICT, WITHOUT ROWID;

-- What is in 256 leaves.
CREATE TABLE audit_span (
    first INTEGER PRIMARY KEY, -- the first leaf
    low   TEXT NOT NULL,       -- the least and the greatest record that begins in them; both empty: none does
    high  TEXT NOT NULL,
    marks BLOB NOT NULL        -- which of them have which tool, upstream, principal, execution and kind: see audit_span.go
) STRICT;
CREATE INDEX audit_span_low ON audit_span (low);
CREATE INDEX audit_span_high ON audit_span (high);

-- What is kept of arguments, results and texts of errors, of the leaves from first on up to the next row's: sealed together. What is
-- large, and what older versions kept, is in audit_payload.
CREATE TABLE audit_kept (
    first INTEGER PRIMARY KEY,
    time  INTEGER NOT NULL, -- microseconds since 1970, UTC: of the newest in it
    data  BLOB NOT NULL
) STRICT;
