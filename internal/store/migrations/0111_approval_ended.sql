-- +goose Up
-- When a request was last decided on, expired or was withdrawn, microseconds since 1970, UTC.
ALTER TABLE approval ADD COLUMN ended INTEGER NOT NULL DEFAULT 0;
