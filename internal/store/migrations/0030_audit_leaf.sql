-- +goose Up
-- The record: one row a leaf. What 0001 made is moved here when the record is opened, with the key that it needs.
CREATE TABLE audit_leaf (
    seq    INTEGER PRIMARY KEY, -- index in the tree, from 0 without gaps
    hashes BLOB NOT NULL,       -- of 32 bytes each: the leaf's own, then of the subtrees that it completes, lowest first
    leaf   TEXT NOT NULL        -- canonical JSON, byte for byte what was hashed
) STRICT;

CREATE UNIQUE INDEX audit_leaf_record ON audit_leaf (leaf ->> 'record', leaf ->> 'part' = 'ended');
CREATE INDEX audit_leaf_tool ON audit_leaf (leaf ->> 'tool', leaf ->> 'record') WHERE leaf ->> 'tool' IS NOT NULL;
CREATE INDEX audit_leaf_principal ON audit_leaf (leaf ->> 'principal', leaf ->> 'record') WHERE leaf ->> 'principal' IS NOT NULL;
CREATE INDEX audit_leaf_execution ON audit_leaf (leaf ->> 'execution', leaf ->> 'record') WHERE leaf ->> 'execution' IS NOT NULL;
CREATE INDEX audit_leaf_kind ON audit_leaf (leaf ->> 'kind', leaf ->> 'record') WHERE leaf ->> 'kind' <> 'call';

-- Signed heads of the tree (C2SP tlog-checkpoint).
CREATE TABLE audit_checkpoint (
    id   INTEGER PRIMARY KEY,
    time INTEGER NOT NULL, -- microseconds since 1970, UTC; the checkpoint itself has no time
    text TEXT NOT NULL
) STRICT;

-- What is kept of arguments, results and texts of errors, sealed. No part of the tree: throwing it away changes nothing there.
-- Digests are random: of what is looked up by them only the beginning is in an index, so that much of it fits in memory.
CREATE TABLE audit_payload (
    id     INTEGER PRIMARY KEY,
    head   INTEGER NOT NULL, -- the digest's first 8 bytes
    digest TEXT NOT NULL,    -- keyed, of data
    time   INTEGER NOT NULL, -- microseconds since 1970, UTC: when it was last recorded, to the day
    data   BLOB NOT NULL
) STRICT;
CREATE INDEX audit_payload_head ON audit_payload (head);
CREATE INDEX audit_payload_time ON audit_payload (time);

-- The name and the key of the log: one row.
CREATE TABLE audit_log (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    origin TEXT NOT NULL,
    seed   BLOB NOT NULL -- of the Ed25519 key, sealed
) STRICT;

-- Leaves and checkpoints are append-only. The triggers on INSERT are for INSERT OR REPLACE, which fires no trigger on DELETE.
-- +goose StatementBegin
CREATE TRIGGER audit_leaf_insert BEFORE INSERT ON audit_leaf
WHEN NEW.seq <> (SELECT coalesce(max(seq), -1) + 1 FROM audit_leaf)
BEGIN SELECT RAISE(ABORT, 'the audit record is append-only: leaves have no gaps'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_leaf_update BEFORE UPDATE ON audit_leaf
BEGIN SELECT RAISE(ABORT, 'the audit record is append-only'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_leaf_delete BEFORE DELETE ON audit_leaf
BEGIN SELECT RAISE(ABORT, 'the audit record is append-only'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_checkpoint_insert BEFORE INSERT ON audit_checkpoint
WHEN EXISTS (SELECT 1 FROM audit_checkpoint WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'the audit record is append-only'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_checkpoint_update BEFORE UPDATE ON audit_checkpoint
BEGIN SELECT RAISE(ABORT, 'the audit record is append-only'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_checkpoint_delete BEFORE DELETE ON audit_checkpoint
BEGIN SELECT RAISE(ABORT, 'the audit record is append-only'); END;
-- +goose StatementEnd
