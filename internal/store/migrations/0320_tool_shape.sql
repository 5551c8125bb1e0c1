-- +goose Up
-- Shapes of the results of tools that declare no type. Each row is sealed; see shape.go.
CREATE TABLE tool_shape (
    upstream TEXT NOT NULL,
    tool     TEXT NOT NULL,
    used     INTEGER NOT NULL, -- day of the last result, seconds since 1970, UTC
    sealed   BLOB NOT NULL,    -- JSON, see package shape
    PRIMARY KEY (upstream, tool)
) STRICT, WITHOUT ROWID;
