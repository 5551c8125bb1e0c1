-- +goose Up
-- Executions that are tasks for the client that began them (MCP). Rows of expired tasks are deleted when their principal has
-- a new one, and with their execution.
CREATE TABLE execution_task (
    execution TEXT PRIMARY KEY,
    principal TEXT NOT NULL,
    profile   TEXT NOT NULL,    -- empty: none
    created   INTEGER NOT NULL, -- microseconds since 1970, UTC
    ttl       INTEGER NOT NULL, -- microseconds since created
    grace     INTEGER NOT NULL  -- microseconds since the end of the execution
) STRICT, WITHOUT ROWID;
CREATE INDEX execution_task_created ON execution_task (principal, profile, created, execution);
