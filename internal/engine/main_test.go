package engine

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"muster/internal/fault"
)

// children are what this test binary does instead of testing when it is started again
// with the name in its environment: each may end the process or spoil it for others.
var children = map[string]func(args []string) error{"load": childLoad}

// child adds one that is not there on every platform.
func child(name string, f func(args []string) error) bool {
	children[name] = f
	return true
}

const childVariable = "MUSTER_ENGINE_TEST_CHILD"

func TestMain(m *testing.M) {
	name := os.Getenv(childVariable)
	if name == "" {
		goleak.VerifyTestMain(m)
		return
	}
	err := children[name](os.Args[1:])
	if err != nil {
		_ = json.NewEncoder(os.Stdout).Encode(fault.From(err))
	}
	os.Exit(fault.Exit(err))
}

// inChild runs a child to its end and returns its fault, its output and how it ended.
func inChild(t *testing.T, name string, args ...string) (*fault.Fault, string, error) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), childVariable+"="+name, "GGML_NO_BACKTRACE=1")
	out, err := cmd.CombinedOutput()
	for line := range strings.SplitSeq(string(out), "\n") {
		var f fault.Fault
		if strings.HasPrefix(line, `{"code"`) && json.Unmarshal([]byte(line), &f) == nil {
			return &f, string(out), err
		}
	}
	return nil, string(out), err
}

// childLoad loads the engine of a folder and says what it found.
func childLoad(args []string) error {
	l, err := Load(args[0], nil)
	if err == nil {
		fmt.Println("loaded", l.Version())
	}
	return err
}
