-- +goose Up
CREATE TABLE api_key (
    name     TEXT PRIMARY KEY, -- unique for ever: rows are never deleted
    id       TEXT NOT NULL UNIQUE,
    hash     BLOB NOT NULL,    -- SHA-256 of the secret
    old      BLOB,             -- of the secret before the last rotation
    old_ends INTEGER NOT NULL, -- all times: microseconds since 1970, UTC; 0: none
    person   TEXT NOT NULL,
    roles    TEXT NOT NULL,    -- lists as JSON
    scopes   TEXT NOT NULL,
    tools    TEXT NOT NULL,
    created  INTEGER NOT NULL,
    expires  INTEGER NOT NULL,
    rotated  INTEGER NOT NULL,
    used     INTEGER NOT NULL,
    revoked  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What a key's name and id stand for never changes, and a key that was revoked is never good again.
-- +goose StatementBegin
CREATE TRIGGER api_key_delete BEFORE DELETE ON api_key
BEGIN SELECT RAISE(ABORT, 'the name of a key stays taken'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER api_key_update BEFORE UPDATE ON api_key
WHEN NEW.name <> OLD.name OR NEW.id <> OLD.id OR (OLD.revoked <> 0 AND NEW.revoked <> OLD.revoked)
BEGIN SELECT RAISE(ABORT, 'the key was revoked, or is another one'); END;
-- +goose StatementEnd
