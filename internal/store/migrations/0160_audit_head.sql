-- +goose Up
-- The record's head as the last transaction that added to it left it: sealed with the folder's key, see audit_head.go. One row.
CREATE TABLE audit_head (
    id   INTEGER PRIMARY KEY CHECK (id = 1),
    data BLOB NOT NULL
) STRICT;
