-- +goose Up
-- Copies of fields of the sealed request, by which requests are counted and found. If a copy differs from the sealed
-- field, the request is refused. expires is in microseconds since 1970, UTC. It is 0 if an older version wrote the
-- request and its fields were not copied yet.
ALTER TABLE approval ADD COLUMN principal TEXT NOT NULL DEFAULT '';
ALTER TABLE approval ADD COLUMN expires INTEGER NOT NULL DEFAULT 0;

CREATE INDEX approval_principal ON approval (principal, expires) WHERE state = 'pending' AND execution = '';
CREATE INDEX approval_expires ON approval (expires, seq) WHERE state IN ('pending', 'approved') AND execution = '';
CREATE INDEX approval_program ON approval (seq) WHERE state IN ('pending', 'approved') AND execution <> '';
CREATE INDEX approval_execution ON approval (execution, seq) WHERE execution <> '';
CREATE INDEX approval_over ON approval (max(ended, decided)) WHERE state NOT IN ('pending', 'approved');
