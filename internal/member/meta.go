package member

import (
	"encoding/binary"
	"errors"

	"muster/internal/id"
)

// meta is what a node says of itself along with being alive.
//
//	offset  bytes  what
//	0       1      version, 1; a newer one may append
//	1       16     boot id
//	17      8      epoch of the pool it has been told, big-endian
//	25      4      raises, big-endian
type meta struct {
	boot  id.BootID
	epoch uint64
	// raises is how often the node has raised its own incarnation to tell a
	// new meta: those are no doubts.
	raises uint32
}

const (
	metaVersion = 1
	metaSize    = 29
)

var errMeta = errors.New("its meta is none of this protocol")

func (m meta) encode() []byte {
	b := make([]byte, 0, metaSize)
	b = append(b, metaVersion)
	b = append(b, m.boot[:]...)
	b = binary.BigEndian.AppendUint64(b, m.epoch)
	return binary.BigEndian.AppendUint32(b, m.raises)
}

func decodeMeta(b []byte) (meta, error) {
	if len(b) < metaSize || b[0] < metaVersion || b[0] == metaVersion && len(b) > metaSize {
		return meta{}, errMeta
	}
	m := meta{boot: id.BootID(b[1:17]), epoch: binary.BigEndian.Uint64(b[17:]), raises: binary.BigEndian.Uint32(b[25:])}
	if m.boot.IsZero() {
		return meta{}, errMeta
	}
	return m, nil
}
