-- +goose Up
CREATE TABLE approval (
    id        TEXT PRIMARY KEY,
    seq       INTEGER NOT NULL,  -- orders by time of making
    subject   TEXT NOT NULL,
    execution TEXT NOT NULL,
    state     TEXT NOT NULL,
    decider   TEXT NOT NULL,
    decided   INTEGER NOT NULL,  -- microseconds since 1970, UTC; 0: not
    note      TEXT NOT NULL,
    request   BLOB NOT NULL,     -- all that never changes, sealed by package secret, bound to id
    arguments BLOB NOT NULL      -- sealed likewise
) STRICT;

CREATE INDEX approval_seq ON approval (seq);
CREATE INDEX approval_state ON approval (state, seq);

-- At most one request about a call stands: one that is pending or approved, or is of an execution and was decided on.
CREATE UNIQUE INDEX approval_subject ON approval (subject)
WHERE state IN ('pending', 'approved') OR state IN ('made', 'denied', 'expired') AND execution <> '';

-- A decision is never taken back.
-- +goose StatementBegin
CREATE TRIGGER approval_update BEFORE UPDATE ON approval
WHEN NEW.id <> OLD.id OR NEW.subject <> OLD.subject OR NEW.execution <> OLD.execution OR NEW.request <> OLD.request OR NEW.arguments <> OLD.arguments
  OR NOT (OLD.state = 'pending' AND NEW.state IN ('approved', 'denied', 'expired', 'withdrawn') OR OLD.state = 'approved' AND NEW.state IN ('made', 'withdrawn'))
BEGIN SELECT RAISE(ABORT, 'a decision is never taken back'); END;
-- +goose StatementEnd
