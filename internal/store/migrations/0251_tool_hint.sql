-- +goose Up
-- What is believed of the tools of an upstream: their hints when they were first seen, and later ones that were stricter or that a
-- person accepted. Authenticated by grant_list, see hint.go.
CREATE TABLE tool_hint (
    upstream TEXT PRIMARY KEY,
    sights   BLOB NOT NULL      -- JSON, see package hint
) STRICT, WITHOUT ROWID;
