-- +goose Up
-- What lists search by is in two layers now, and knows of outcomes, effects and times. It is written anew when the record is opened.
DROP TABLE audit_span;

-- What is in 256 leaves.
CREATE TABLE audit_span (
    first INTEGER PRIMARY KEY, -- the first leaf
    low   TEXT NOT NULL,       -- the least and the greatest record that begins in them; both empty: none does
    high  TEXT NOT NULL,
    since TEXT NOT NULL,       -- the least and the greatest time of a beginning in them, as leaves have it
    until TEXT NOT NULL,
    marks BLOB NOT NULL,       -- which of them have which values: see record/span.go. Empty once a run has it
    ends  BLOB NOT NULL        -- which leaves' calls end in them, and how. Empty once a run has it
) STRICT;

-- What is in 65536 leaves.
CREATE TABLE audit_run (
    first INTEGER PRIMARY KEY, -- the first leaf
    low   TEXT NOT NULL,       -- as of a span
    high  TEXT NOT NULL,
    since TEXT NOT NULL,
    until TEXT NOT NULL
) STRICT;

-- Which leaves of a run have which values, in the order of the values' hashes: see record/run.go.
CREATE TABLE audit_posting (
    key  INTEGER PRIMARY KEY, -- number of the run << 32 | the least hash in data
    data BLOB NOT NULL
) STRICT;

-- How calls ended that began in an earlier run than they ended in.
CREATE TABLE audit_late (
    seq  INTEGER PRIMARY KEY, -- the leaf of the beginning
    mark INTEGER NOT NULL     -- the hash of the outcome
) STRICT;
