-- +goose Up
-- Nothing in the schema changes. Small journals and kept arguments have a compressed form that older versions can't read: they
-- refuse a database with this migration.
SELECT 1;
