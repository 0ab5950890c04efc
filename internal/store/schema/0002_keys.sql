-- The keys of clients and the ledger of their credit. Amounts are tokens.
--
-- The ledger is the truth: entries are added, and never changed or removed. What
-- api_key and reservation hold of it is kept by the triggers below, so that they
-- agree with it whatever the program does and whenever it dies.

CREATE TABLE api_key (
	number    INTEGER PRIMARY KEY AUTOINCREMENT,         -- the order in which they were made
	id        TEXT    NOT NULL UNIQUE CHECK (id <> ''),
	name      TEXT    NOT NULL CHECK (name <> ''),
	hash      BLOB    NOT NULL UNIQUE CHECK (length(hash) = 32),
	unlimited INTEGER NOT NULL CHECK (unlimited IN (0, 1)),
	created   TEXT    NOT NULL,
	revoked   TEXT,                                      -- null: it counts
	granted   INTEGER NOT NULL DEFAULT 0,
	reserved  INTEGER NOT NULL DEFAULT 0 CHECK (reserved >= 0),
	spent     INTEGER NOT NULL DEFAULT 0 CHECK (spent >= 0),
	balance   INTEGER NOT NULL GENERATED ALWAYS AS (granted - reserved - spent) VIRTUAL,
	CHECK (granted BETWEEN 0 AND 9007199254740991),      -- what a JSON number holds exactly
	CHECK (unlimited = 1 OR granted - reserved - spent >= 0)
) STRICT;

CREATE UNIQUE INDEX api_key_name ON api_key (name) WHERE revoked IS NULL;

CREATE TABLE ledger (
	sequence INTEGER PRIMARY KEY AUTOINCREMENT,
	key      TEXT    NOT NULL REFERENCES api_key (id),
	kind     TEXT    NOT NULL CHECK (kind IN ('grant', 'reserve', 'settle', 'release')),
	request  TEXT    NOT NULL CHECK (request <> ''),
	tokens   INTEGER NOT NULL,                           -- what it adds to the balance
	run      BLOB             CHECK (length(run) = 16),  -- null: of no run
	why      TEXT    NOT NULL DEFAULT '',                -- of a release
	time     TEXT    NOT NULL,
	CHECK (CASE kind WHEN 'grant' THEN tokens > 0 WHEN 'reserve' THEN tokens < 0 ELSE tokens >= 0 END)
) STRICT;

CREATE UNIQUE INDEX ledger_begun ON ledger (request) WHERE kind IN ('grant', 'reserve');
CREATE UNIQUE INDEX ledger_ended ON ledger (request) WHERE kind IN ('settle', 'release');
CREATE INDEX ledger_key ON ledger (key, sequence);

-- The requests that were begun and are not ended.
CREATE TABLE reservation (
	request TEXT    NOT NULL PRIMARY KEY,
	key     TEXT    NOT NULL REFERENCES api_key (id),
	tokens  INTEGER NOT NULL CHECK (tokens > 0),
	run     BLOB             CHECK (length(run) = 16),
	time    TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER ledger_kept BEFORE UPDATE ON ledger
BEGIN SELECT RAISE(ABORT, 'the ledger is never changed'); END;

CREATE TRIGGER ledger_whole BEFORE DELETE ON ledger
BEGIN SELECT RAISE(ABORT, 'the ledger is never cut'); END;

CREATE TRIGGER ledger_grant AFTER INSERT ON ledger WHEN new.kind = 'grant'
BEGIN UPDATE api_key SET granted = granted + new.tokens WHERE id = new.key; END;

CREATE TRIGGER ledger_reserve AFTER INSERT ON ledger WHEN new.kind = 'reserve'
BEGIN
	UPDATE api_key SET reserved = reserved - new.tokens WHERE id = new.key;
	INSERT INTO reservation (request, key, tokens, run, time) VALUES (new.request, new.key, -new.tokens, new.run, new.time);
END;

CREATE TRIGGER ledger_end AFTER INSERT ON ledger WHEN new.kind IN ('settle', 'release')
BEGIN
	SELECT RAISE(ABORT, 'what is ended was not begun, or takes part of it twice') WHERE NOT EXISTS (
		SELECT 1 FROM reservation r WHERE r.request = new.request AND r.key = new.key
		AND CASE new.kind WHEN 'release' THEN new.tokens = r.tokens ELSE new.tokens <= r.tokens END
	);
	UPDATE api_key SET
		reserved = reserved - (SELECT tokens FROM reservation WHERE request = new.request),
		spent = spent + (SELECT tokens FROM reservation WHERE request = new.request) - new.tokens
	WHERE id = new.key;
	DELETE FROM reservation WHERE request = new.request;
END;
