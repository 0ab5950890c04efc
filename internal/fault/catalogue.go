package fault

// Kind sorts faults by what is to be done about them. Exit code and HTTP
// status follow from it.
type Kind int

// The kinds, with the exit code and HTTP status of each. Numbers are kept when
// kinds are added: scripts depend on them.
const (
	Invalid     Kind = 2  // the input or a flag is wrong
	Missing     Kind = 3  // something that should be there is not
	Unsupported Kind = 4  // understood, but not done here
	Exhausted   Kind = 5  // no memory, disk, slot or descriptor left
	Corrupt     Kind = 6  // bytes or numbers are not what they must be
	Died        Kind = 7  // a process ended that should live
	Overdue     Kind = 8  // a deadline passed
	Refused     Kind = 9  // the system or a peer said no
	Interrupted Kind = 10 // somebody asked to stop
	Unready     Kind = 11 // something else has to come first
	Busy        Kind = 12 // at its bound of what it does at once
	Unkeyed     Kind = 13 // no key came with the request, or none that counts
	Unpaid      Kind = 14 // the key's credit does not reach
	Internal    Kind = 70 // a defect of Muster
)

var kinds = map[Kind]struct {
	name string
	http int
}{
	Invalid:     {"invalid", 400},
	Missing:     {"missing", 404},
	Unsupported: {"unsupported", 422},
	Exhausted:   {"exhausted", 507},
	Corrupt:     {"corrupt", 500},
	Died:        {"died", 503},
	Overdue:     {"overdue", 504},
	Refused:     {"refused", 403},
	Interrupted: {"interrupted", 503},
	Unready:     {"unready", 503},
	Busy:        {"busy", 429},
	Unkeyed:     {"unkeyed", 401},
	Unpaid:      {"unpaid", 402},
	Internal:    {"internal", 500},
}

func (k Kind) String() string { return kinds[k].name }

// Retry says whether the same request can succeed again.
type Retry string

// When a retry can help.
const (
	Never     Retry = "never"     // not before something is changed
	Later     Retry = "later"     // the same request, after a while
	Elsewhere Retry = "elsewhere" // on another node or folder
)

// Entry is what the catalogue holds of a code. Says and Hint may name
// attributes of the fault in braces.
type Entry struct {
	Code  Code
	Kind  Kind
	Retry Retry
	Says  string
	Hint  string
}

// Exit is the process exit code, 1 to 125.
func (e Entry) Exit() int { return int(e.Kind) }

// HTTP is the status a gateway answers with.
func (e Entry) HTTP() int { return kinds[e.Kind].http }

// Catalogue returns every entry, in the order of the source.
func Catalogue() []Entry { return append([]Entry(nil), catalogue...) }

var byCode = func() map[Code]Entry {
	m := make(map[Code]Entry, len(catalogue))
	for _, e := range catalogue {
		if _, twice := m[e.Code]; twice {
			panic("fault: " + string(e.Code) + " stands twice in the catalogue")
		}
		m[e.Code] = e
	}
	return m
}()
