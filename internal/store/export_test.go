package store

import (
	"context"
	"fmt"
)

// OpenWith opens with other steps than this build's.
var (
	OpenWith   = open
	Migrations = migrations
)

// LimitPages makes SQLite meet the end of the disk at so many pages.
func (s *Store) LimitPages(most int) error {
	_, err := s.write.ExecContext(context.Background(), fmt.Sprintf("PRAGMA max_page_count = %d", most))
	return err
}
