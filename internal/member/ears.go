package member

import (
	"strings"

	"github.com/hashicorp/memberlist"

	"muster/internal/id"
)

// ears is what the library calls back, under its own lock: nothing here may
// block or call the library.
type ears struct{ m *Member }

var (
	_ memberlist.Delegate      = ears{}
	_ memberlist.EventDelegate = ears{}
	_ memberlist.AliveDelegate = ears{}
)

// NodeMeta is asked for once when the library starts and then for each change
// of the meta, each time together with a new incarnation.
func (e ears) NodeMeta(int) []byte {
	e.m.mu.Lock()
	defer e.m.mu.Unlock()
	b := e.m.meta.encode()
	e.m.meta.raises++
	return b
}

// NotifyAlive keeps out who is no node of ours.
func (e ears) NotifyAlive(n *memberlist.Node) error {
	node, err := id.ParseNodeID(n.Name)
	if err != nil {
		return err
	}
	if _, err := decodeMeta(n.Meta); err != nil {
		return err
	}
	e.m.mu.Lock()
	defer e.m.mu.Unlock()
	if !e.m.table.counts(node, e.m.cfg.Self) {
		return errNotCounted
	}
	return nil
}

func (e ears) NotifyJoin(*memberlist.Node)   { e.m.wakeUp() }
func (e ears) NotifyLeave(*memberlist.Node)  { e.m.wakeUp() }
func (e ears) NotifyUpdate(*memberlist.Node) { e.m.wakeUp() }

// Nothing of ours is gossiped but the meta.

func (ears) NotifyMsg([]byte)                {}
func (ears) GetBroadcasts(_, _ int) [][]byte { return nil }
func (ears) LocalState(bool) []byte          { return nil }
func (ears) MergeRemoteState([]byte, bool)   {}

// lines gives what the library logs to a function, a line at a time.
type lines func(line string)

func (l lines) Write(b []byte) (int, error) {
	if l != nil {
		l(strings.TrimSpace(string(b)))
	}
	return len(b), nil
}
