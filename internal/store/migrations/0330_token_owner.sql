-- +goose Up
-- Sign-ins to upstreams have owners now: each principal may have their own.
CREATE TABLE token_copy AS SELECT * FROM upstream_token;
DROP TABLE upstream_token;
CREATE TABLE upstream_token (
    upstream TEXT NOT NULL,    -- name in the configuration
    owner    TEXT NOT NULL,    -- id of the principal whose calls alone use it; empty: shared
    resource TEXT NOT NULL,    -- address that the tokens are for
    revision TEXT NOT NULL,    -- random, another one with every change
    previous TEXT NOT NULL,    -- the revision that this one was made from; empty: none
    sealed   BLOB NOT NULL,    -- by package secret, for the purpose upstream-token
    changed  INTEGER NOT NULL, -- microseconds since 1970, UTC
    PRIMARY KEY (upstream, owner, resource)
) STRICT, WITHOUT ROWID;
INSERT INTO upstream_token (upstream, owner, resource, revision, previous, sealed, changed)
    SELECT upstream, '', resource, revision, previous, sealed, changed FROM token_copy;
DROP TABLE token_copy;

-- A writer must have seen the row as it is: of two that renew a token at the same time, one wins.
-- +goose StatementBegin
CREATE TRIGGER upstream_token_insert BEFORE INSERT ON upstream_token
WHEN NEW.previous <> coalesce((SELECT revision FROM upstream_token
    WHERE upstream = NEW.upstream AND owner = NEW.owner AND resource = NEW.resource), '')
BEGIN SELECT RAISE(ABORT, 'the token was changed by another process'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER upstream_token_update BEFORE UPDATE ON upstream_token
WHEN NEW.previous <> OLD.revision
BEGIN SELECT RAISE(ABORT, 'the token was changed by another process'); END;
-- +goose StatementEnd
