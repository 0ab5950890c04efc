package reports

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/internal/core/probe"
	"muster/internal/doctor"
	"muster/internal/fault"
	"muster/internal/wire"
)

// report is one of a failed shard.
func report(at time.Time) Report {
	f := doctor.Findings{
		Name: "worker", Layers: [2]int{2, 5}, Context: 64, Held: 64, DecodeMicros: 12.5,
		Checks: []probe.Check{{Name: probe.Slice, Passed: true}, {Name: probe.Repeat, Got: 0.25}},
	}
	return Report{
		Version: Version, At: at, Model: "tale", Revision: "ab", Recipe: wire.Recipe{Context: 64, Slots: 1, Chunk: 16, KVType: "f16"},
		Findings: f, Failed: f.Failed(),
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestReportsComeBackLatestFirst(t *testing.T) {
	data, now := t.TempDir(), time.Now().UTC()
	for i := range 3 {
		must(t, Keep(data, report(now.Add(time.Duration(i)*time.Nanosecond))))
	}
	kept, damaged, err := Kept(data)
	if err != nil || len(kept) != 3 || damaged != 0 {
		t.Fatalf("%d reports, %d damaged, %v", len(kept), damaged, err)
	}
	for i, got := range kept {
		want := report(now.Add(time.Duration(2-i) * time.Nanosecond))
		if !got.At.Equal(want.At) || got.Failed.Error() != want.Failed.Error() || !reflect.DeepEqual(got.Findings, want.Findings) || got.Recipe != want.Recipe {
			t.Errorf("report %d is %+v, want %+v", i, got, want)
		}
	}
}

func TestReportsAreBoundedInNumberAndAge(t *testing.T) {
	data, now := t.TempDir(), time.Now()
	for i := range most + 5 {
		must(t, Keep(data, report(now.Add(time.Duration(i)*time.Second))))
	}
	kept, _, err := Kept(data)
	must(t, err)
	if len(kept) != most || !kept[most-1].At.Equal(now.Add(5*time.Second)) {
		t.Errorf("%d reports, the oldest of %s", len(kept), kept[len(kept)-1].At)
	}
	old, left := filepath.Join(data, folder, nameOf(kept[0].At)), filepath.Join(data, folder, "1"+draft)
	must(t, os.WriteFile(left, nil, 0o600))
	for _, path := range []string{old, left} {
		long := now.Add(-oldest - time.Hour)
		must(t, os.Chtimes(path, long, long))
	}
	must(t, Keep(data, report(now.Add(time.Minute))))
	for _, path := range []string{old, left} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", filepath.Base(path), err)
		}
	}
}

func TestSeveralProcessesKeepReports(t *testing.T) {
	data, now := t.TempDir(), time.Now()
	var all sync.WaitGroup
	for i := range 2 * most {
		all.Go(func() {
			if err := Keep(data, report(now.Add(time.Duration(i)))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	must(t, Keep(data, report(now.Add(time.Second))))
	kept, damaged, err := Kept(data)
	if err != nil || damaged != 0 || len(kept) != most {
		t.Errorf("%d reports, %d damaged, %v", len(kept), damaged, err)
	}
}

func TestWhatIsNoReportIsCounted(t *testing.T) {
	data := t.TempDir()
	if _, _, err := Kept(data); !errors.Is(err, fault.ReportsMissing) {
		t.Errorf("an empty folder: %v", err)
	}
	must(t, Keep(data, report(time.Now())))
	for name, text := range map[string]string{
		"cut": `{"version":1,"at":"2026-01-01T00:`, "later form": `{"version":2,"at":"2026-01-01T00:00:00Z"}`,
		"long": `"` + strings.Repeat("x", mostBytes) + `"`, "more": `{"version":1,"at":"2026-01-01T00:00:00Z"}{}`,
	} {
		must(t, os.WriteFile(filepath.Join(data, folder, name+ending), []byte(text), 0o600))
	}
	must(t, os.Mkdir(filepath.Join(data, folder, "folder"+ending), 0o700))
	kept, damaged, err := Kept(data)
	if err != nil || len(kept) != 1 || damaged != 5 {
		t.Errorf("%d reports, %d damaged, %v", len(kept), damaged, err)
	}
}

func TestAFolderThatCannotBeWrittenIsNamed(t *testing.T) {
	data := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(data, nil, 0o600))
	err := Keep(data, report(time.Now()))
	if !errors.Is(err, fault.ReportsFolderUnwritable) || fault.From(err).Attr("path") != filepath.Join(data, folder) {
		t.Errorf("got %v", err)
	}
	if _, _, err := Kept(data); !errors.Is(err, fault.ReportsFolderUnreadable) {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"version":1,"at":"2026-01-01T00:00:00Z","findings":{"checks":[{"name":"slice","passed":true}]}}`))
	f.Add([]byte(`{"version":1,"at":"2026-01-01T00:00:00Z","failed":{"code":"doctor.check_failed"}}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parse(text)
		if err != nil {
			return
		}
		if r.Version != Version || r.At.IsZero() {
			t.Errorf("accepted %+v", r)
		}
		if r.Failed != nil {
			_ = r.Failed.Error() + r.Failed.Hint()
		}
	})
}
