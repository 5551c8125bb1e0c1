-- +goose Up
-- Secrets that the configuration names as ${secret:NAME}. Authenticated by grant_list, see secret.go.
CREATE TABLE stored_secret (
    owner   TEXT NOT NULL,    -- id of the principal whose calls alone use it; empty: shared
    name    TEXT NOT NULL,
    sealed  BLOB NOT NULL,    -- by package secret, for the purpose stored-secret
    changed INTEGER NOT NULL, -- microseconds since 1970, UTC
    PRIMARY KEY (owner, name)
) STRICT, WITHOUT ROWID;
