-- +goose Up
-- Answers to requests with an idempotency key; see package repeat.
CREATE TABLE kept_answer (
    principal TEXT NOT NULL,
    key       TEXT NOT NULL,    -- chosen by the client
    began     INTEGER NOT NULL, -- microseconds since 1970, UTC
    sealed    BLOB NOT NULL,    -- JSON with the request's digest and its answer, by package secret
    PRIMARY KEY (principal, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX kept_answer_began ON kept_answer (began);
