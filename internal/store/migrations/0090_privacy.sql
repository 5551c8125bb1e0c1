-- +goose Up
CREATE TABLE privacy_value (
    owner   TEXT NOT NULL,     -- ID of the principal
    session TEXT NOT NULL,     -- name of the session; empty: outside of sessions
    kind    TEXT NOT NULL,
    n       INTEGER NOT NULL,  -- of the token, unique for an owner and kind; two sessions may share it, as copies
    mac     BLOB NOT NULL,     -- of owner and value, keyed
    sealed  BLOB NOT NULL,     -- the value, sealed by package secret, bound to owner, kind and n
    PRIMARY KEY (owner, session, kind, n)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX privacy_value_mac ON privacy_value (owner, session, mac);

CREATE TABLE privacy_vault (
    owner   TEXT NOT NULL,
    session TEXT NOT NULL,
    used    INTEGER NOT NULL,  -- microseconds since 1970, UTC
    PRIMARY KEY (owner, session)
) STRICT, WITHOUT ROWID;

-- The last number that was given: none is given twice, whatever was deleted since.
CREATE TABLE privacy_number (
    owner TEXT NOT NULL,
    kind  TEXT NOT NULL,
    last  INTEGER NOT NULL,
    PRIMARY KEY (owner, kind)
) STRICT, WITHOUT ROWID;
