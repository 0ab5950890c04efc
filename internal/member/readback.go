package member

import (
	"bufio"
	"fmt"
	"io"
	"net"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/memberlist"
)

// pushPull is the library's message type for an exchange of whole tables.
const pushPull = 6

// mostNodes is the library's own bound of one exchange.
const mostNodes = 1 << 20

// exchange heads a push/pull message; that many rows follow, then user state.
type exchange struct {
	Nodes        int
	UserStateLen int
	Join         bool
}

// row is a node as the library has it. An incarnation is of one process: a
// new one starts at 1, and goes beyond what others remember of its name.
type row struct {
	Name        string
	Addr        []byte
	Port        uint16
	Meta        []byte
	Incarnation uint32
	State       memberlist.NodeStateType
	Vsn         []uint8
}

// ask writes a push/pull request that carries nothing and is no join: it
// changes nothing in who answers it.
func ask(w net.Conn, label string) error {
	if err := memberlist.AddLabelHeaderToStream(w, label); err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	if err := out.WriteByte(pushPull); err != nil {
		return err
	}
	if err := codec.NewEncoder(out, &codec.MsgpackHandle{}).Encode(exchange{}); err != nil {
		return err
	}
	return out.Flush()
}

// answer reads the reply to ask: every node that the library knows.
func answer(r io.Reader) ([]row, error) {
	in := bufio.NewReader(r)
	kind, err := in.ReadByte()
	if err != nil {
		return nil, err
	}
	if kind != pushPull {
		return nil, fmt.Errorf("the answer is of type %d, not %d", kind, pushPull)
	}
	decoder := codec.NewDecoder(in, &codec.MsgpackHandle{})
	var head exchange
	if err := decoder.Decode(&head); err != nil {
		return nil, err
	}
	if head.Nodes < 0 || head.Nodes > mostNodes {
		return nil, fmt.Errorf("the answer promises %d nodes", head.Nodes)
	}
	rows := make([]row, head.Nodes)
	for i := range rows {
		if err := decoder.Decode(&rows[i]); err != nil {
			return nil, err
		}
		if rows[i].Name == "" || stateOf(rows[i].State) == Unknown {
			return nil, fmt.Errorf("node %d of the answer is %q in state %d", i, rows[i].Name, rows[i].State)
		}
	}
	return rows, nil
}

// stateOf is Unknown for what the library should not say.
func stateOf(s memberlist.NodeStateType) State {
	switch s {
	case memberlist.StateAlive:
		return Alive
	case memberlist.StateSuspect:
		return Suspect
	case memberlist.StateDead:
		return Dead
	case memberlist.StateLeft:
		return Left
	default:
		return Unknown
	}
}
