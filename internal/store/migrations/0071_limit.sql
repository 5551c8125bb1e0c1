-- +goose Up
CREATE TABLE limit_use (
    key  TEXT PRIMARY KEY,  -- of a rule, and of whom it counts for
    time INTEGER NOT NULL   -- when what was used would be used up at an even pace, microseconds since 1970, UTC
) STRICT, WITHOUT ROWID;
