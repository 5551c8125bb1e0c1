-- +goose Up
-- Sandboxes of principals; see package owned.
CREATE TABLE own_sandbox (
    id     TEXT NOT NULL PRIMARY KEY,
    sealed BLOB NOT NULL              -- JSON, by package secret
) STRICT, WITHOUT ROWID;
