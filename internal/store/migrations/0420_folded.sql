-- +goose Up
-- Nothing in the schema changes. Leaves and small journals have shorter forms that older versions can't read: they refuse a
-- database with this migration.
SELECT 1;
