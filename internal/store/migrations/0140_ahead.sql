-- +goose Up
-- The number of the newest entry of the file beside the database that is in the database, with all before it: see ahead.go. One row.
CREATE TABLE ahead (applied INTEGER NOT NULL) STRICT;
INSERT INTO ahead VALUES (0);
