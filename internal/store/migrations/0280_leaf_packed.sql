-- +goose Up
-- A leaf of a call, compressed: see record/pack.go. If it is not NULL, leaf is empty.
ALTER TABLE audit_leaf ADD COLUMN packed BLOB;
