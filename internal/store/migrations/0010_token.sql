-- +goose Up
CREATE TABLE upstream_token (
    upstream TEXT NOT NULL,    -- name in the configuration
    resource TEXT NOT NULL,    -- address that the tokens are for
    revision TEXT NOT NULL,    -- random, another one with every change
    previous TEXT NOT NULL,    -- the revision that this one was made from; empty: none
    sealed   BLOB NOT NULL,    -- by package secret, for the purpose upstream-token
    changed  INTEGER NOT NULL, -- microseconds since 1970, UTC
    PRIMARY KEY (upstream, resource)
) STRICT, WITHOUT ROWID;

-- Whoever changes a row must have seen it as it is: of two that renew a token at the same time, one wins.
-- +goose StatementBegin
CREATE TRIGGER upstream_token_insert BEFORE INSERT ON upstream_token
WHEN NEW.previous <> coalesce((SELECT revision FROM upstream_token WHERE upstream = NEW.upstream AND resource = NEW.resource), '')
BEGIN SELECT RAISE(ABORT, 'the token was changed by another process'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER upstream_token_update BEFORE UPDATE ON upstream_token
WHEN NEW.previous <> OLD.revision
BEGIN SELECT RAISE(ABORT, 'the token was changed by another process'); END;
-- +goose StatementEnd
