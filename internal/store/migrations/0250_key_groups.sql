-- +goose Up
-- The groups of a key's owner, a list as JSON. Policies and approvers name them.
ALTER TABLE api_key ADD COLUMN groups TEXT NOT NULL DEFAULT 'null';
