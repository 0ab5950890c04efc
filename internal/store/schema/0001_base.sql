-- Times are RFC 3339 text that people read; nothing is ordered or decided by them.

CREATE TABLE pool (
	name  TEXT    NOT NULL PRIMARY KEY CHECK (name <> ''),
	epoch INTEGER NOT NULL CHECK (epoch > 0)
) STRICT, WITHOUT ROWID;

CREATE TABLE node (
	pool      TEXT    NOT NULL REFERENCES pool (name),
	place     INTEGER NOT NULL,                          -- in the order given, from 0
	id        BLOB    NOT NULL CHECK (length(id) = 32),
	name      TEXT             CHECK (name <> ''),       -- null: it has none
	addresses TEXT    NOT NULL CHECK (json_valid(addresses)),
	PRIMARY KEY (pool, place),
	UNIQUE (pool, id),
	UNIQUE (pool, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE event (
	sequence INTEGER PRIMARY KEY AUTOINCREMENT,          -- so that no number comes twice
	line     TEXT NOT NULL CHECK (json_valid(line))
) STRICT;

CREATE TABLE run (
	number  INTEGER PRIMARY KEY AUTOINCREMENT,           -- the order in which runs began
	id      BLOB    NOT NULL UNIQUE CHECK (length(id) = 16),
	pool    TEXT    NOT NULL REFERENCES pool (name),
	epoch   INTEGER NOT NULL,
	model   TEXT    NOT NULL,
	recipe  TEXT    NOT NULL CHECK (json_valid(recipe)),
	stages  TEXT    NOT NULL CHECK (json_valid(stages)),
	started TEXT    NOT NULL,
	result  TEXT             CHECK (result IN ('completed', 'faulted', 'stopped')),
	fault   TEXT             CHECK (json_valid(fault)),
	ended   TEXT,
	CHECK ((result IS NULL) = (ended IS NULL)),
	CHECK ((fault IS NULL) = (result IS NOT 'faulted'))
) STRICT;

CREATE INDEX run_unfinished ON run (number) WHERE result IS NULL;

CREATE TABLE setting (
	key   TEXT NOT NULL PRIMARY KEY,
	value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
