//go:build !unix

package local

import (
	"fmt"
	"os"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return nil }

func ending(s *os.ProcessState) string { return fmt.Sprintf("with exit code %d", s.ExitCode()) }
