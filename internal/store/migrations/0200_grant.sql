-- +goose Up
-- Which rows of other tables grant something: keyed digests by row, sealed with the folder's key, see grant.go. One row a table.
CREATE TABLE grant_list (
    name TEXT PRIMARY KEY,
    data BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- The versions of these lists and a digest of limit_use, sealed, bound to the record's head. NULL: nothing was sealed yet.
ALTER TABLE tail ADD COLUMN grants BLOB;

-- A keyed digest of what a request says and how it was decided. NULL: the row is of an older version, and counts for nothing once grants are sealed.
ALTER TABLE approval ADD COLUMN seal BLOB;

-- A decision is never taken back. As in 0070, but that a row may be sealed.
DROP TRIGGER approval_update;
-- +goose StatementBegin
CREATE TRIGGER approval_update BEFORE UPDATE OF id, subject, execution, state, decider, decided, note, request, arguments ON approval
WHEN NEW.id <> OLD.id OR NEW.subject <> OLD.subject OR NEW.execution <> OLD.execution OR NEW.request <> OLD.request OR NEW.arguments <> OLD.arguments
  OR NOT (OLD.state = 'pending' AND NEW.state IN ('approved', 'denied', 'expired', 'withdrawn') OR OLD.state = 'approved' AND NEW.state IN ('made', 'withdrawn'))
BEGIN SELECT RAISE(ABORT, 'a decision is never taken back'); END;
-- +goose StatementEnd
