package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"

	"muster/internal/fault"
	"muster/internal/store"
)

// spawn starts this test binary as another orchestrator on dir. Its lines come
// from the scanner.
func spawn(t *testing.T, job, dir string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "MUSTER_STORE_CHILD="+job, "MUSTER_STORE_DIR="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, bufio.NewScanner(out)
}

// child is the life of the other orchestrator; it does not return.
func child(job, dir string) {
	fmt.Println("opening")
	err := func() error {
		s, err := store.Open(context.Background(), dir)
		if err != nil {
			return err
		}
		switch job {
		case "hold":
			fmt.Println("holding")
			select {}
		case "spend":
			return spendForEver(s)
		}
		return writeForEver(s)
	}()
	fmt.Fprintln(os.Stderr, "the child ended:", err)
	os.Exit(1)
}

// writeForEver changes the pool, and records a run, its outcome and an event,
// all with the number of the pool's epoch, which it prints when all is done.
func writeForEver(s *store.Store) error {
	ctx := context.Background()
	p, err := s.Pool(ctx, "shed")
	if err != nil && !errors.Is(err, fault.StorePoolUnknown) {
		return err
	}
	p.Name = "shed"
	for {
		p.Nodes = []store.Node{{ID: nodeID(1), Name: "epoch " + strconv.FormatUint(p.Epoch+1, 10)}}
		if p, err = s.SetPool(ctx, p); err != nil {
			return err
		}
		n := int(p.Epoch)
		if err := s.BeginRun(ctx, someRun(n, p)); err != nil {
			return err
		}
		if err := s.EndRun(ctx, runID(n), store.Outcome{Result: store.Completed, Ended: noon}); err != nil {
			return err
		}
		if _, err := s.Append(ctx, started(n)); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

func TestWhatWasAcknowledgedSurvivesKill9(t *testing.T) {
	dir := t.TempDir()
	var acknowledged []int
	for _, after := range []int{0, 1, 0, 5, 23, 2, 60} {
		cmd, lines := spawn(t, "write", dir)
		for n := -1; n < after; n++ { // the first line says that it is opening
			if !lines.Scan() {
				t.Fatalf("the child ended by itself: %v", lines.Err())
			}
			acknowledged = append(acknowledged, numbers(lines)...)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			acknowledged = append(acknowledged, numbers(lines)...)
		}
		_ = cmd.Wait() // only then is its lock gone
	}
	checkAfterKill(t, opened(t, dir), acknowledged)
}

// A store whose making was killed is made anew, whatever of it lies there.
func TestAStoreThatWasKilledWhileItWasMadeIsMadeAnew(t *testing.T) {
	for range 10 {
		dir := t.TempDir()
		cmd, lines := spawn(t, "write", dir)
		if !lines.Scan() {
			t.Fatalf("the child ended by itself: %v", lines.Err())
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		opened(t, dir)
	}
	for _, begun := range []string{"", "SQLite format 3\x00, and no more"} {
		dir := t.TempDir()
		if err := os.WriteFile(file(dir)+".begun", []byte(begun), 0o600); err != nil {
			t.Fatal(err)
		}
		opened(t, dir)
		if left, err := os.ReadDir(dir); err != nil || slices.ContainsFunc(left, func(e os.DirEntry) bool { return e.Name() == "muster.db.begun" }) {
			t.Errorf("what was begun lies there still: %v (%v)", left, err)
		}
	}
}

func numbers(lines *bufio.Scanner) []int {
	n, err := strconv.Atoi(lines.Text())
	if err != nil {
		return nil
	}
	return []int{n}
}

// checkAfterKill checks that what is there is what was acknowledged, and beyond
// it only what came before in the order of writing.
func checkAfterKill(t *testing.T, s *store.Store, acknowledged []int) {
	t.Helper()
	ctx := context.Background()
	if len(acknowledged) < 90 {
		t.Fatalf("only %d rounds were acknowledged", len(acknowledged))
	}
	p, err := s.Pool(ctx, "shed")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("epoch %d", p.Epoch); len(p.Nodes) != 1 || p.Nodes[0].Name != want {
		t.Errorf("the pool at epoch %d holds %v", p.Epoch, p.Nodes)
	}
	entries, err := s.Since(ctx, 0, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	told := map[int]bool{}
	for i, e := range entries {
		if e.Sequence != uint64(i+1) {
			t.Fatalf("event %d has the sequence %d", i+1, e.Sequence)
		}
		n := pid(t, e)
		told[n] = true
		if r, err := s.Run(ctx, runID(n)); err != nil || r.Outcome == nil {
			t.Errorf("event %d is there, its run is %+v (%v)", n, r, err)
		}
	}
	for _, n := range acknowledged {
		if !told[n] {
			t.Errorf("round %d was acknowledged and is gone", n)
		}
	}
	if most := len(acknowledged) + 7; len(told) > most {
		t.Errorf("there are %d events, %d kills can leave at most %d", len(told), 7, most)
	}
}

func TestASecondOrchestratorIsRefusedAndNamesTheFirst(t *testing.T) {
	dir := t.TempDir()
	cmd, lines := spawn(t, "hold", dir)
	for lines.Scan() && lines.Text() != "holding" {
	}
	_, err := store.Open(context.Background(), dir)
	f := wantFault(t, err, fault.StoreFolderLocked)
	if got, want := f.Attr("pid"), strconv.Itoa(cmd.Process.Pid); got != want {
		t.Errorf("process %s is named, %s holds the folder", got, want)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	opened(t, dir)
}

func TestTheFolderIsFreeAfterClose(t *testing.T) {
	dir := t.TempDir()
	first := opened(t, dir)
	_, err := store.Open(context.Background(), dir)
	if f := wantFault(t, err, fault.StoreFolderLocked); f.Attr("pid") != strconv.Itoa(os.Getpid()) {
		t.Errorf("process %s is named, this is %d", f.Attr("pid"), os.Getpid())
	}
	closed(t, first)
	opened(t, dir)
}
