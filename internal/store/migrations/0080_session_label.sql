-- +goose Up
-- What the programs of a session have read, by labels. They are here before a program hears what they are of, whether it ends well
-- or not, and also where its session never comes to be. The sealed state of a session names those that it was saved with again.
CREATE TABLE session_label (
    owner TEXT NOT NULL,            -- ID of the principal
    name  TEXT NOT NULL,            -- of the session
    label TEXT NOT NULL,
    since INTEGER NOT NULL,         -- microseconds since 1970, UTC
    PRIMARY KEY (owner, name, label)
) STRICT, WITHOUT ROWID;
