-- +goose Up
-- For lists of executions: of a principal, of a session, and in a state.
CREATE INDEX execution_principal ON execution (principal, started, id, state);
CREATE INDEX execution_session ON execution (session, started, id, principal) WHERE session <> '';
CREATE INDEX execution_state ON execution (state, started, id);
