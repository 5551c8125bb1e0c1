-- +goose Up
-- What each transaction writes anew, in one row, so that it is one page: see tail.go.
CREATE TABLE tail (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    applied    INTEGER NOT NULL, -- the newest entry of the file beside the database that is in the database, with all before it: see ahead.go
    head       BLOB,             -- the record's head as the last transaction that added to it left it, sealed: see audit_head.go. NULL: there is none
    kept_first INTEGER NOT NULL, -- what is kept for the newest leaves, until it is enough for a row of audit_kept, as it stands there
    kept_time  INTEGER NOT NULL,
    kept       BLOB NOT NULL     -- empty: nothing
) STRICT;
INSERT INTO tail SELECT 1, applied, (SELECT data FROM audit_head), 0, 0, x'' FROM ahead;
DROP TABLE ahead;
DROP TABLE audit_head;
