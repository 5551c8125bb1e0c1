-- +goose Up
-- The segments that old leaves of the record were moved to: signed files in the folder archive. A moved leaf keeps its row with its
-- hashes, so that the tree is whole; its text is empty, and packed is x'02'.
CREATE TABLE audit_segment (
    first INTEGER PRIMARY KEY, -- the first and the last leaf
    last  INTEGER NOT NULL,
    note  TEXT NOT NULL        -- the signed header of the file (C2SP signed-note)
) STRICT;

DROP TRIGGER IF EXISTS audit_leaf_insert;
DROP TRIGGER IF EXISTS audit_leaf_delete;
-- +goose StatementBegin
CREATE TRIGGER audit_leaf_insert BEFORE INSERT ON audit_leaf
WHEN NEW.seq <> (SELECT coalesce(max(seq), -1) + 1 FROM audit_leaf) AND NOT (NEW.leaf = '' AND NEW.packed IS x'02'
    AND EXISTS (SELECT 1 FROM audit_segment WHERE first <= NEW.seq AND last >= NEW.seq)
    AND NOT EXISTS (SELECT 1 FROM audit_leaf WHERE seq = NEW.seq))
BEGIN SELECT RAISE(ABORT, 'the audit record is append-only: leaves have no gaps'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_leaf_delete BEFORE DELETE ON audit_leaf
WHEN NOT EXISTS (SELECT 1 FROM audit_segment WHERE first <= OLD.seq AND last >= OLD.seq)
BEGIN SELECT RAISE(ABORT, 'the audit record is append-only'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_segment_insert BEFORE INSERT ON audit_segment
WHEN EXISTS (SELECT 1 FROM audit_segment WHERE last >= NEW.first)
BEGIN SELECT RAISE(ABORT, 'the audit record is append-only'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_segment_update BEFORE UPDATE ON audit_segment
BEGIN SELECT RAISE(ABORT, 'the audit record is append-only'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_segment_delete BEFORE DELETE ON audit_segment
BEGIN SELECT RAISE(ABORT, 'the audit record is append-only'); END;
-- +goose StatementEnd
