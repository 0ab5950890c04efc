package testkit_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"muster/internal/testkit"
)

// verdict is a testing.TB that notes what is said about the test in place of
// letting it happen.
type verdict struct {
	testing.TB
	skipped, failed string
	cleanups        []func()
}

func (v *verdict) Helper()      {}
func (v *verdict) Name() string { return "TestOfAnother" }
func (v *verdict) Skipf(format string, args ...any) {
	v.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (v *verdict) Fatalf(format string, args ...any) {
	v.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
func (v *verdict) Errorf(format string, args ...any) { v.failed = fmt.Sprintf(format, args...) }
func (v *verdict) Cleanup(f func())                  { v.cleanups = append(v.cleanups, f) }

// judge runs a test and then its cleanups, last first.
func judge(test func(testing.TB)) *verdict {
	v := &verdict{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(v)
	}()
	<-done
	slices.Reverse(v.cleanups)
	for _, f := range v.cleanups {
		f()
	}
	return v
}

const lacking testkit.Requirement = "a unicorn"

func TestWhatIsLackingIsSkippedAndRecorded(t *testing.T) {
	record := filepath.Join(t.TempDir(), "skipped")
	t.Setenv("MUSTER_SKIPPED", record)
	t.Setenv("MUSTER_REQUIRE", "root,cc")
	for range 2 {
		v := judge(func(t testing.TB) { testkit.Need(t, lacking) })
		if !strings.Contains(v.skipped, "needs a unicorn") || v.failed != "" {
			t.Errorf("skipped %q, failed %q", v.skipped, v.failed)
		}
	}
	const line = "muster/internal/testkit TestOfAnother: needs a unicorn\n"
	if got, err := os.ReadFile(record); err != nil || string(got) != line+line {
		t.Errorf("recorded %q, %v", got, err)
	}
}

func TestWhatIsRequiredFailsWhereItLacks(t *testing.T) {
	record := filepath.Join(t.TempDir(), "skipped")
	t.Setenv("MUSTER_SKIPPED", record)
	for _, required := range []string{"all", "root,a unicorn"} {
		t.Setenv("MUSTER_REQUIRE", required)
		v := judge(func(t testing.TB) { testkit.Need(t, lacking) })
		if v.skipped != "" || !strings.Contains(v.failed, "needs a unicorn") {
			t.Errorf("MUSTER_REQUIRE=%s: skipped %q, failed %q", required, v.skipped, v.failed)
		}
	}
	if _, err := os.Stat(record); err == nil {
		t.Error("a failure was recorded as skipped")
	}
}

// A clone without the contracts checks itself all the same, and says what it
// left out; who asks for them by name gets them or a failure.
func TestContractsAreRequiredByNameOnly(t *testing.T) {
	t.Setenv("MUSTER_SKIPPED", filepath.Join(t.TempDir(), "skipped"))
	t.Setenv("MUSTER_CONTRACTS", filepath.Join(t.TempDir(), "none"))
	look := func(t testing.TB) { testkit.ContractsDir(t) }
	t.Setenv("MUSTER_REQUIRE", "all")
	if v := judge(look); v.failed != "" || !strings.Contains(v.skipped, "needs contracts") {
		t.Errorf("skipped %q, failed %q", v.skipped, v.failed)
	}
	t.Setenv("MUSTER_REQUIRE", "root,contracts")
	if v := judge(look); v.skipped != "" || !strings.Contains(v.failed, "needs contracts") {
		t.Errorf("skipped %q, failed %q", v.skipped, v.failed)
	}
	t.Setenv("MUSTER_CONTRACTS", t.TempDir())
	if v := judge(look); v.skipped != "" || v.failed != "" {
		t.Errorf("they are there: skipped %q, failed %q", v.skipped, v.failed)
	}
}

func TestWhatIsThereIsNeitherSkippedNorFailed(t *testing.T) {
	testkit.Need(t, testkit.Linux)
	t.Setenv("MUSTER_REQUIRE", "all")
	if v := judge(func(t testing.TB) { testkit.Need(t, testkit.Linux) }); v.skipped != "" || v.failed != "" {
		t.Errorf("skipped %q, failed %q", v.skipped, v.failed)
	}
}

func TestLeaksSeesWhatIsLeftBehind(t *testing.T) {
	testkit.Need(t, testkit.Linux)
	var file *os.File
	child := exec.Command("sleep", "1000")
	v := judge(func(tb testing.TB) {
		testkit.Leaks(tb)
		var err error
		if file, err = os.Open(os.DevNull); err != nil {
			t.Error(err)
		}
		if err := child.Start(); err != nil {
			t.Error(err)
		}
	})
	_ = file.Close()
	_ = child.Process.Kill()
	_ = child.Wait()
	for _, what := range []string{"descriptor of /dev/null", fmt.Sprintf("child process %d sleep", child.Process.Pid)} {
		if !strings.Contains(v.failed, what) {
			t.Errorf("%q is missing in %q", what, v.failed)
		}
	}
}

func TestLeaksWaitsForLaterCleanups(t *testing.T) {
	v := judge(func(tb testing.TB) {
		testkit.Leaks(tb)
		file, err := os.Open(os.DevNull)
		if err != nil {
			t.Error(err)
		}
		tb.Cleanup(func() { _ = file.Close() })
	})
	if v.failed != "" {
		t.Error(v.failed)
	}
}
