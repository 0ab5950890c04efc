//go:build linux || darwin

package worker_test

import (
	"testing"

	"go.uber.org/goleak"

	"muster/internal/testkit/fakeworker"
)

func TestMain(m *testing.M) {
	fakeworker.Main()
	playParent()
	goleak.VerifyTestMain(m)
}
