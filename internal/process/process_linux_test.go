package process_test

import (
	"encoding/json"
	"os/exec"
	"testing"
	"time"

	"muster/internal/process"
)

func TestAProcessIsToldFromOthers(t *testing.T) {
	self := process.Self()
	if !self.Alive() || self.Boot == "" || self.Start == 0 {
		t.Errorf("this process is %+v, alive %v", self, self.Alive())
	}
	text, err := json.Marshal(self)
	if err != nil {
		t.Fatal(err)
	}
	var read process.Mark
	if err := json.Unmarshal(text, &read); err != nil || read != self {
		t.Errorf("%s is read as %+v (%v)", text, read, err)
	}
	later, rebooted, none := self, self, self
	later.Start++
	rebooted.Boot = "00000000-0000-0000-0000-000000000000"
	none.PID = 0
	for what, m := range map[string]process.Mark{"a later one of its pid": later, "one before a reboot": rebooted, "none": none} {
		if m.Alive() {
			t.Errorf("%s, %+v, is taken for this one", what, m)
		}
	}
}

// A process that has ended is gone before its parent has waited for it, and
// after.
func TestAnEndedProcessIsGone(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m := process.Of(cmd.Process.Pid)
	if !m.Alive() {
		t.Fatalf("%+v is not alive", m)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); m.Alive(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("killed and not waited for, it is alive")
		}
	}
	_ = cmd.Wait() // it was killed
	if m.Alive() {
		t.Error("waited for, it is alive")
	}
}
