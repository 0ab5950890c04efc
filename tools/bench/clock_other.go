//go:build !linux

package main

import (
	"fmt"
	"runtime"
	"time"
)

func sinceBoot() (time.Duration, error) {
	return 0, fmt.Errorf("starts of processes cannot be measured on %s: leave out -parts start", runtime.GOOS)
}
