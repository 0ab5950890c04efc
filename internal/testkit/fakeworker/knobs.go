// Package fakeworker is a worker process that computes nothing and, where it
// is told to, misbehaves. The test binary itself plays it: TestMain calls Main
// first, and Knobs.Env in a worker's environment makes it take over.
//
//	func TestMain(m *testing.M) { fakeworker.Main(); goleak.VerifyTestMain(m) }
//
// Package testkit's rule holds: only tests import it.
package fakeworker

import (
	"encoding/json"
	"time"

	"muster/internal/wire"
)

// variable holds the Knobs of a process that is to play a worker.
const variable = "MUSTER_FAKE_WORKER"

// Moment is when a fake worker does what it should not: at its start, before it
// has read anything; idle, right after it has answered Open; or in place of
// the answer to a request, for which the Moment is its op.
type Moment string

// The moments that are no ops.
const (
	AtStart Moment = "start"
	AtIdle  Moment = "idle"
)

// On is the moment of a request of the op.
func On(op wire.Op) Moment { return Moment(op) }

// Act is what a fake worker does at its Moment. Except where it says otherwise
// the worker behaves well before and after.
type Act string

// The acts. Number and Text are those of the Knobs.
const (
	Behave       Act = ""             // answers like a good worker
	Exit         Act = "exit"         // exits with status Number
	Signal       Act = "signal"       // sends itself signal Number
	Crash        Act = "crash"        // reads unmapped memory
	Panic        Act = "panic"        // panics with Text
	Hang         Act = "hang"         // does not answer this request, goes on with others
	Deaf         Act = "deaf"         // reads nothing any more
	Say          Act = "say"          // writes Text to the protocol as it is, with no end of line
	SayAndAnswer Act = "say+answer"   // writes Text and a line end, then the answer
	Huge         Act = "huge"         // writes a line of Number bytes
	Flood        Act = "flood"        // writes Number lines of Text to stderr, then answers
	CloseStdout  Act = "close-stdout" // closes the protocol's stdout and lives on
	CloseStdin   Act = "close-stdin"  // closes the protocol's stdin and lives on
	Advance      Act = "advance"      // reports progress in Number steps, then answers
	Twice        Act = "twice"        // answers two times
	Foreign      Act = "foreign"      // answers a request that nobody made
	LateProgress Act = "late"         // reports progress after the answer
	Refuse       Act = "refuse"       // answers with a fault of code Text
	Unasked      Act = "unasked"      // tells Number faults of code Text that nobody asked for, then answers
	Grandchild   Act = "grandchild"   // starts a process that holds stdout, stderr and lifeline open, says "grandchild PID" on stderr, then answers
	Escape       Act = "escape"       // like Grandchild, in a session of its own
)

// Knobs set a fake worker. The zero value is a good worker.
type Knobs struct {
	At     Moment `json:"at,omitempty"`
	Do     Act    `json:"do,omitempty"`
	Number int    `json:"number,omitempty"`
	Text   string `json:"text,omitempty"`

	AnswerAfter time.Duration `json:"answer_after,omitempty"` // wait before each answer
	IgnoreTerm  bool          `json:"ignore_term,omitempty"`
	IgnoreStop  bool          `json:"ignore_stop,omitempty"` // never answers Stop nor ends by it
	StopStatus  int           `json:"stop_status,omitempty"` // exit status after Stop
	BadEcho     bool          `json:"bad_echo,omitempty"`    // answers an Attach with Echo with the bytes as they came
	ThenExit    bool          `json:"then_exit,omitempty"`   // exits with status 1 after Do
	Bare        bool          `json:"bare,omitempty"`        // leaves out the child's half of the contract
	Pid         bool          `json:"pid,omitempty"`         // says "pid N" on stderr at the start
	Words       []string      `json:"words,omitempty"`       // lines for stderr at the start
}

// Env is what to add to the environment of the test binary (os.Executable) so
// that it plays this worker. Built with the race detector it does not wait a
// second before each exit.
func (k Knobs) Env() []string {
	b, err := json.Marshal(k)
	if err != nil {
		panic(err)
	}
	return []string{variable + "=" + string(b), "GORACE=atexit_sleep_ms=0"}
}
