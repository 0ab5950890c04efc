//go:build unix

package arena

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(beChild())
	}
	goleak.VerifyTestMain(m)
}
